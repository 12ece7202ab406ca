// Tests that need no full table; tests/isolation/tables_test.cpp fills it.
#include "core/isolation/epoll_guard.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <catch2/catch_test_macros.hpp>

namespace epoll_guard_test {

using namespace atl;

TEST_CASE("the reserve of epoll registrations gives what it holds and takes it back") {
    base::EpollReserve reserve;
    CHECK(reserve.held() == 0);
    CHECK(reserve.give(1) == 0);
    CHECK(reserve.refill());
    CHECK(reserve.held() == reserve.size());
    CHECK(reserve.size() == 4096);
    CHECK(reserve.give(100) == 100);
    CHECK(reserve.held() == reserve.size() - 100);
    CHECK(reserve.give(1'000'000) == reserve.size() - 100);
    CHECK(reserve.refill());
    CHECK(reserve.held() == reserve.size());
    reserve.note_full();
    CHECK_FALSE(reserve.refill());
    CHECK(reserve.refill());
}

TEST_CASE("a registration that fails for another reason than a full table leaves the reserve alone") {
    base::EpollReserve reserve;
    REQUIRE(reserve.refill());
    const base::UniqueFd set(::epoll_create1(EPOLL_CLOEXEC));
    const base::UniqueFd file(::eventfd(0, EFD_CLOEXEC));
    epoll_event event{};
    CHECK(::epoll_ctl(set.get(), EPOLL_CTL_ADD, file.get(), &event) == 0);
    CHECK(::epoll_ctl(set.get(), EPOLL_CTL_ADD, file.get(), &event) == -1);
    CHECK(errno == EEXIST);
    CHECK(::epoll_ctl(set.get(), EPOLL_CTL_DEL, file.get(), nullptr) == 0);
    CHECK(reserve.held() == reserve.size());
}

TEST_CASE("who holds a sixteenth of the epoll registrations or less is no offender") {
    const auto found = isolation::epoll_offender("4711 100001\n", 1'600'000);
    REQUIRE(found.has_value());
    CHECK(found->pid == 4711);
    CHECK(found->registrations == 100'001);
    CHECK_FALSE(isolation::epoll_offender("4711 100000\n", 1'600'000).has_value());
    CHECK_FALSE(isolation::epoll_offender("", 1'600'000).has_value());
    CHECK_FALSE(isolation::epoll_offender("no number", 1'600'000).has_value());
}

}  // namespace epoll_guard_test
