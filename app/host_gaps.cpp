#include "app/host_gaps.hpp"

#include "core/isolation/user_namespace.hpp"

namespace atl::app {
namespace {

constexpr const char* k_shared_uid =
    "only a server that is root, or that has subordinate uids (/etc/subuid, package uidmap), gives each "
    "sandbox a uid of its own; without, one sandbox can use up what the kernel has for each uid: "
    "registrations with epoll, which the server itself needs, too, inotify instances, pending signals, "
    "message queues, pipes";
constexpr const char* k_measured_disk =
    "the disk is measured, not walled off: the data directory is on no file system with project quotas that "
    "this "
    "server may set";
constexpr const char* k_per_user =
    "the server is in a user namespace: inotify instances and POSIX message queues of its sandboxes count "
    "for the "
    "server's user, too, so that one of them can use them up for the others";

}  // namespace

Gaps host_gaps(const sandbox::Enforcement& enforcement, const cgroup::Places& places,
               const std::map<std::string, std::string>& shared_files) {
    static const std::map<cgroup::Controller, std::string> names{{cgroup::Controller::memory, "memory"},
                                                                 {cgroup::Controller::cpu, "cpu"},
                                                                 {cgroup::Controller::pids, "processes"}};
    Gaps known{{"uid", k_shared_uid}};
    if (enforcement.disk == "check")
        known["disk"] = k_measured_disk;
    for (const auto& [controller, why] : places.missing) {
        if (const auto name = names.find(controller); name != names.end())
            known[name->second] = why;
    }
    Gaps found = gaps_of(enforcement, known);
    if (isolation::is_in_user_namespace())
        found["perUser"] = k_per_user;
    std::string shared;
    for (const auto& [path, why] : shared_files)
        shared += (shared.empty() ? "" : "; ") + path + ": " + why;
    if (!shared.empty())
        found["hostFiles"] = "locks and watches on files of the host reach other sandboxes (" + shared + ")";
    return found;
}

}  // namespace atl::app
