// watch: the changes in the workspace from the reply on, until the host goes, as lines of JSON behind it. A
// host that does not read holds nothing up but itself: the kernel's queue runs full then, and what was lost
// is told as a rescan.
#include <errno.h>

#include <algorithm>

#include "bridge/guest/file_error.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/guest/files/watched_tree.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_sent_bytes = base::k_max_frame_bytes;

std::size_t watches = 0;  // of this guest

struct WatchPlace {
    WatchPlace() { ++watches; }
    ~WatchPlace() { --watches; }
    WatchPlace(const WatchPlace&) = delete;
    WatchPlace& operator=(const WatchPlace&) = delete;
};

CallEnd check(const FileRequest& request) {
    if (!request.path.empty())
        return {"only the whole workspace can be watched", bridge::refusal::invalid};
    if (watches == base::k_max_guest_watches)
        return {"the sandbox is watched by too many already", bridge::refusal::busy};
    return {};
}

CallEnd no_watch(int error_number) {
    if (error_number == EMFILE)
        return {"the sandbox's user has no inotify instance left (fs.inotify.max_user_instances)",
                bridge::refusal::busy};
    return file_error(error_number, "inotify");
}

CallEnd no_root() {
    return {
        "the workspace itself cannot be watched: the host has no inotify watch left "
        "(fs.inotify.max_user_watches), or the sandbox may not read it",
        bridge::refusal::busy};
}

/// Watches what waits to be watched, and tells what was found in it.
Task<void> catch_up(Call& call, WatchedTree& tree) {
    while (tree.step()) {
        if (tree.changes().text().size() >= k_sent_bytes) {
            call.output(tree.changes().take());
            co_await call.room();
        }
        co_await call.turn();
    }
}

/// The directories that are not watched, if that is another number than was told.
void tell_uncovered(Call& call, const WatchedTree& tree, std::uint64_t& told) {
    if (tree.uncovered() != told)
        call.output("{\"uncovered\":" + std::to_string(tree.uncovered()) + "}\n");
    told = tree.uncovered();
}

}  // namespace

Task<CallEnd> watch_files(Call& call, const FileJob& job) {
    const CallEnd refusal = check(job.request);
    if (!refusal.is_good())
        co_return refusal;
    const WatchPlace place;
    const std::size_t asked = job.request.limit == 0 ? SIZE_MAX : job.request.limit;
    WatchedTree tree(job.root, std::min(asked, base::k_max_watched_directories));
    if (!tree.begin())
        co_return no_watch(errno);
    auto setting_up = catch_up(call, tree);
    co_await setting_up;
    if (tree.directories() == 0)
        co_return no_root();
    call.reply("\"directories\":" + std::to_string(tree.directories()));
    std::uint64_t uncovered = 0;
    for (;;) {
        tell_uncovered(call, tree, uncovered);
        co_await call.room();
        if (!tree.has_open_moves())
            co_await call.readable(tree.fd());
        co_await call.pause(base::k_watch_gather);
        tree.read_events();
        auto catching_up = catch_up(call, tree);
        co_await catching_up;
        if (tree.is_lost()) {
            co_await call.pause(base::k_watch_rebuild_wait);
            if (!tree.begin())
                co_return no_watch(errno);
            auto again = catch_up(call, tree);
            co_await again;
            if (tree.directories() == 0)
                co_return no_root();
            call.output("{\"rescan\":true}\n");
        } else {
            call.output(tree.changes().take());
        }
    }
}

}  // namespace atl::guest
