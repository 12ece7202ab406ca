// The other task of this program, `atoll-zygote arm`: writes that name events of cgroup v1
// (cgroup/event_armer.hpp).
#pragma once

namespace atl::isolation {

/// Reads messages of three descriptors (eventfd, the watched file, cgroup.event_control) and an argument from
/// `socket` until its other end is closed, and makes the write that each asks for. One that the kernel
/// refuses is dropped: the group is gone, or the file is of no such kind.
void arm_events(int socket);

}  // namespace atl::isolation
