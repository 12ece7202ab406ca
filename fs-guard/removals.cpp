#include "fs-guard/removals.hpp"

#include <utility>

namespace atl::fs_guard {

// A removal is never refused: beyond the share of its user a tree counts as far as there is room.
void Removals::add(const base::ShareHolder& user, std::uint64_t bytes, std::string path, Done done) {
    base::Share share = budget_.take(user, 0).value();
    (void)share.grow_up_to(bytes);
    trees_.emplace(++last_, Tree{user, std::move(path), std::move(done), std::move(share)});
    enter(last_);
    remove_next();
}

base::Result<void> Removals::room_for(const base::ShareHolder& user) const {
    return budget_.room(user) > 0 ? base::Result<void>() : budget_.refusal(user, 1);
}

void Removals::enter(Run run) {
    queue_.enter(trees_.at(run).user, run).value();  // the line has no bound
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
    Tree tree = std::move(trees_.extract(run).mapped());
    tree.share = {};
    remove_next();
    tree.done(is_gone ? base::Result<void>() : is_gone.error());
}

}  // namespace atl::fs_guard
