#include "bridge/guest/files/abandoned_copies.hpp"

#include <fcntl.h>
#include <stdio.h>

#include <utility>

namespace atl::guest {
namespace {

constexpr std::size_t k_abandoned_at_once = 200;
// The bound for one tree: a process that goes on filling it does not keep the guest at work for ever.
constexpr std::size_t k_most_abandoned_entries = 1'000'000;
static_assert(k_most_abandoned_entries % k_abandoned_at_once == 0);
constexpr std::size_t k_most_abandoned_copies = 16;

}  // namespace

void AbandonedCopies::take(int folder, std::string name) {
    base::UniqueFd kept(open(workspace_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    // Not from a mount inside the workspace, and not what its owner may not write to.
    if (!kept || renameat(folder, name.c_str(), kept.get(), name.c_str()) != 0)
        kept.reset(fcntl(folder, F_DUPFD_CLOEXEC, 0));
    if (!kept)
        return;
    trees_.push_back({std::move(kept), std::move(name)});
    if (timer_ == 0)
        step();
}

bool AbandonedCopies::is_full() const noexcept {
    return trees_.size() >= k_most_abandoned_copies;
}

void AbandonedCopies::step() {
    timer_ = 0;
    if (!remover_) {
        remover_.emplace();
        remover_->begin(trees_.front().folder.get(), trees_.front().name);
        left_ = k_most_abandoned_entries;
    }
    left_ -= k_abandoned_at_once;
    if (!remover_->step(k_abandoned_at_once) || left_ == 0) {
        remover_.reset();
        trees_.pop_front();
    }
    if (!trees_.empty())
        timer_ = loop_.arm(Millis(0), [this] { step(); });
}

}  // namespace atl::guest
