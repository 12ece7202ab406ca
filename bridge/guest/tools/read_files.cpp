#include "bridge/guest/tools/read_files.hpp"

namespace atl::guest {
namespace {

std::int64_t nanoseconds(const timespec& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

ReadFiles::State ReadFiles::state_of(const struct stat& state) {
    return {state.st_dev, state.st_ino, static_cast<std::uint64_t>(state.st_size), nanoseconds(state.st_mtim),
            nanoseconds(state.st_ctim)};
}

void ReadFiles::note(const std::string& path, const struct stat& state) {
    const auto known = entries_.find(path);
    if (known != entries_.end()) {
        known->second.state = state_of(state);
        ages_.splice(ages_.end(), ages_, known->second.age);
        return;
    }
    if (entries_.size() == most_) {
        entries_.erase(ages_.front());
        ages_.pop_front();
    }
    ages_.push_back(path);
    entries_.emplace(path, Entry{state_of(state), std::prev(ages_.end())});
}

std::string ReadFiles::objection(const std::string& path, const struct stat& state) const {
    const auto known = entries_.find(path);
    if (known == entries_.end())
        return "it was not read since the sandbox was started";
    const State& before = known->second.state;
    const State now = state_of(state);
    if (before == now)
        return {};
    if (before.device != now.device || before.inode != now.inode)
        return "it was replaced by another file since it was read";
    if (before.size_bytes != now.size_bytes)
        return "its size changed from " + std::to_string(before.size_bytes) + " to " +
               std::to_string(now.size_bytes) + " bytes since it was read";
    if (before.modified_ns != now.modified_ns)
        return "it was modified since it was read";
    return "its name or its attributes changed since it was read";
}

}  // namespace atl::guest
