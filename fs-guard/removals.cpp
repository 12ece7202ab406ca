#include "fs-guard/removals.hpp"

#include <utility>

namespace atl::fs_guard {

void Removals::add(const base::ShareHolder& user, std::string path, Done done) {
    trees_.emplace(++last_, Tree{user, std::move(path), std::move(done)});
    enter(last_);
    remove_next();
}

void Removals::enter(Run run) {
    queue_.enter(trees_.at(run).user.name(), run).value();  // the line has no bound
}

void Removals::remove_next() {
    if (const auto run = queue_.next())
        remover_.remove(trees_.at(*run).path, slice_,
                        [this, run = *run](const base::Result<bool>& is_gone) { on_slice(run, is_gone); });
}

void Removals::on_slice(Run run, const base::Result<bool>& is_gone) {
    queue_.leave(run);
    if (is_gone && !*is_gone) {
        enter(run);
        return remove_next();
    }
    const Tree tree = std::move(trees_.extract(run).mapped());
    remove_next();
    tree.done(is_gone ? base::Result<void>() : is_gone.error());
}

}  // namespace atl::fs_guard
