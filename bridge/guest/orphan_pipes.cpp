#include "bridge/guest/orphan_pipes.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace atl::guest {

OrphanPipes::~OrphanPipes() {
    for (const Drain& drain : drains_)
        loop_.remove(drain.pipe.get());
}

void OrphanPipes::adopt(base::UniqueFd pipe) {
    if (drains_.size() == k_max_leftover_pipes)
        drop(&drains_.front());
    Drain& drain = drains_.emplace_back(*this, std::move(pipe));
    if (!loop_.add(drain.pipe.get(), EPOLLIN, drain))
        drop(&drain);
}

void OrphanPipes::drop(const Drain* drain) {
    loop_.remove(drain->pipe.get());
    drains_.remove_if([drain](const Drain& candidate) { return &candidate == drain; });
}

void OrphanPipes::Drain::on_ready(std::uint32_t) {
    char nowhere[4096];
    const ssize_t size = read(pipe.get(), nowhere, sizeof nowhere);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
        owner.drop(this);
}

}  // namespace atl::guest
