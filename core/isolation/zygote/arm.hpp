// The other task of this program, `atoll-zygote arm`: writes that name events of cgroup v1
// (cgroup/event_armer.hpp).
#pragma once

namespace atl::isolation {

/// Reads messages of three descriptors (eventfd, the watched file, cgroup.event_control) and an argument from
/// `socket` until its other end is closed, and makes the write that each message asks for. If the kernel
/// refuses the write, the message is dropped: the group is gone, or the file has no such events.
void arm_events(int socket);

}  // namespace atl::isolation
