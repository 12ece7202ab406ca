#include "core/base/epoll_reserve.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace atl::base {
namespace {

// The program's one reserve, for epoll_ctl() below.
EpollReserve* current = nullptr;

// libc's variant would come back to the function below.
int plain_epoll_ctl(int set, int operation, int fd, epoll_event* event) noexcept {
    return static_cast<int>(::syscall(SYS_epoll_ctl, set, operation, fd, event));
}

int register_from_reserve(int set, int fd, epoll_event* event) noexcept {
    current->note_full();
    // Other processes of this uid may take the released registrations first. Each round releases twice as
    // many, until one is left for the server.
    for (std::size_t count = 1; current->give(count) > 0; count *= 2) {
        if (const int result = plain_epoll_ctl(set, EPOLL_CTL_ADD, fd, event); result == 0 || errno != ENOSPC)
            return result;
    }
    errno = ENOSPC;
    return -1;
}

}  // namespace

EpollReserve::EpollReserve() : probe_(::eventfd(0, EFD_CLOEXEC)) {
    for (std::size_t i = 0; i < k_epoll_reserve_sets; ++i)
        sets_.emplace_back(::epoll_create1(EPOLL_CLOEXEC));
    for (std::size_t i = 0; i < k_epoll_reserve_files; ++i)
        events_.emplace_back(::eventfd(0, EFD_CLOEXEC));
    current = this;
}

EpollReserve::~EpollReserve() {
    current = nullptr;
}

bool EpollReserve::change(std::size_t index, int operation) const {
    epoll_event nothing{};  // never reported: the events of its file are not asked for
    return plain_epoll_ctl(sets_[index / events_.size()].get(), operation,
                           events_[index % events_.size()].get(), &nothing) == 0;
}

bool EpollReserve::refill() {
    while (held_ < size() && change(held_, EPOLL_CTL_ADD))
        ++held_;
    epoll_event nothing{};
    const bool has_room =
        plain_epoll_ctl(sets_.front().get(), EPOLL_CTL_ADD, probe_.get(), &nothing) == 0 || errno != ENOSPC;
    if (has_room)
        plain_epoll_ctl(sets_.front().get(), EPOLL_CTL_DEL, probe_.get(), &nothing);
    return !std::exchange(was_full_, false) && has_room;
}

std::size_t EpollReserve::give(std::size_t count) {
    const std::size_t given = std::min(count, held_);
    for (std::size_t i = 0; i < given; ++i)
        change(--held_, EPOLL_CTL_DEL);
    return given;
}

}  // namespace atl::base

extern "C" int epoll_ctl(int set, int operation, int fd, epoll_event* event) noexcept {
    const int result = atl::base::plain_epoll_ctl(set, operation, fd, event);
    if (result == 0 || operation != EPOLL_CTL_ADD || errno != ENOSPC || atl::base::current == nullptr)
        return result;
    return atl::base::register_from_reserve(set, fd, event);
}
