#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <stdexcept>

#include "core/base/asio_timers.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/pidfd.hpp"
#include "core/base/task_group.hpp"
#include "tests/support/result_printer.hpp"

namespace base_test {

using namespace atl::base;
using namespace std::chrono_literals;

TEST_CASE("An id is a DNS label, also after preview-, and never repeats") {
    std::set<std::string> seen;
    for (int round = 0; round < 1000; ++round) {
        const std::string id = new_id();
        REQUIRE(is_id(id));
        REQUIRE(id[0] >= 'a');
        REQUIRE(id[0] <= 'z');
        REQUIRE(seen.insert(id).second);
    }
}

TEST_CASE("What is not an id is told apart before it names a file") {
    CHECK_FALSE(is_id(""));
    CHECK_FALSE(is_id("../../../../etc/pass"));
    CHECK_FALSE(is_id("ABCDEFGHIJKLMNOPQRST"));
    CHECK_FALSE(is_id(std::string(19, 'a')));
    CHECK_FALSE(is_id(std::string(21, 'a')));
    CHECK_FALSE(is_id(std::string(19, 'a') + '\0'));
    CHECK(is_id(std::string(20, 'a')));
}

TEST_CASE("Times are RFC 3339 in UTC with milliseconds") {
    CHECK(rfc3339(WallTime{Millis{0}}) == "1970-01-01T00:00:00.000Z");
    CHECK(rfc3339(WallTime{Millis{951'782'399'007}}) == "2000-02-28T23:59:59.007Z");
    CHECK(rfc3339(WallTime{Millis{951'782'400'000}}) == "2000-02-29T00:00:00.000Z");
}

TEST_CASE("Times are read as RFC 3339 has them, and nothing else is") {
    const auto millis = [](std::string_view text) -> std::optional<std::int64_t> {
        const auto time = parse_rfc3339(text);
        return time ? std::optional<std::int64_t>(time->time_since_epoch().count()) : std::nullopt;
    };
    CHECK(millis("1970-01-01T00:00:00Z") == 0);
    CHECK(millis("2000-02-29T00:00:00.000Z") == 951'782'400'000);
    CHECK(millis("2000-02-29t00:00:00.0079z") == 951'782'400'007);
    CHECK(millis("2000-02-29 01:30:00.5+01:30") == 951'782'400'500);
    CHECK(millis("2000-02-28T23:00:00-01:00") == 951'782'400'000);
    CHECK(millis("1969-12-31T23:30:00-01:00") == 1'800'000);
    for (const WallTime time : {WallTime{Millis{1}}, WallTime{Millis{4'102'444'799'999}}})
        CHECK(parse_rfc3339(rfc3339(time)) == time);
    for (const char* text : {"",
                             "2000",
                             "2000-02-29",
                             "2000-02-29T00:00Z",
                             "2000-02-30T00:00:00Z",
                             "2000-13-01T00:00:00Z",
                             "1969-12-31T23:59:59Z",
                             "2000-02-29T24:00:00Z",
                             "2000-02-29T00:60:00Z",
                             "2000-02-29T00:00:61Z",
                             "2000-02-29T00:00:00",
                             "2000-02-29T00:00:00.Z",
                             "2000-02-29T00:00:00Zx",
                             "2000-02-29T00:00:00+1:00",
                             "2000-02-29T00:00:00+24:00",
                             "2000-02-29T00:00:00+01:60",
                             "+000-02-29T00:00:00Z",
                             " 2000-02-29T00:00:00Z",
                             "2000-02-29T-1:00:00Z",
                             "951782400"}) {
        INFO(text);
        CHECK_FALSE(parse_rfc3339(text));
    }
}

TEST_CASE("Hostile text in a log line cannot forge a line or a field") {
    const LogLine line =
        LogLine("x").quoted("err", "a\nb\x1b[31m\"c=d\xff").field("sbx", "plain").field("k", "a b");
    CHECK(line.text() == R"(evt=x err="a\nb\x1b[31m\"c=d\xff" sbx=plain k="a b")");
    CHECK(escaped(std::string(300, 'y')).size() == 203);
}

TEST_CASE("Every error has a stable name of its own") {
    std::set<std::string_view> names;
    for (int code = 0; code <= static_cast<int>(Errc::internal); ++code)
        CHECK(names.insert(code_name(static_cast<Errc>(code))).second);
}

TEST_CASE("Timers fire once, in order, and not once cancelled") {
    boost::asio::io_context loop;
    AsioTimers timers(loop.get_executor());
    std::string order;
    timers.arm(2ms, [&] { order += 'b'; });
    const TimerId cancelled = timers.arm(1ms, [&] { order += 'x'; });
    timers.arm(1ms, [&] {
        order += 'a';
        timers.arm(0ms, [&] { order += 'n'; });
    });
    timers.defer([&] { order += '0'; });
    timers.cancel(cancelled);
    loop.run();
    CHECK((order == "0anb" || order == "0abn"));
}

TEST_CASE("Cancelling the last timer lets the loop run out of work") {
    boost::asio::io_context loop;
    AsioTimers timers(loop.get_executor());
    const TimerId id = timers.arm(1h, [] {});
    boost::asio::post(loop, [&] { timers.cancel(id); });
    CHECK(loop.run_for(60s) > 0);
    CHECK(loop.stopped());
}

TEST_CASE("A task group survives what its tasks throw and says when it is empty") {
    boost::asio::io_context loop;
    TaskGroup group(loop.get_executor(), "test");
    auto throws = []() -> Task<> {
        throw std::runtime_error("on purpose");
        co_return;
    };
    using Timer =
        boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                          boost::asio::wait_traits<std::chrono::steady_clock>, Executor>;
    Timer timer(loop.get_executor(), 1h);
    auto waits = [](Timer& until) -> Task<> {
        const boost::asio::use_awaitable_t<Executor> token;
        co_await until.async_wait(token);
    };
    spdlog::set_level(spdlog::level::off);
    group.spawn(throws());
    group.spawn(waits(timer));
    bool empty = false;
    boost::asio::post(loop, [&] {
        group.on_empty([&] { empty = true; });
        timer.cancel();
    });
    loop.run();
    spdlog::set_level(spdlog::level::info);
    CHECK(empty);
    CHECK(group.size() == 0);
}

TEST_CASE("A pidfd tells how a child ended and no longer signals it afterwards") {
    const pid_t pid = ::fork();
    if (pid == 0)
        ::_exit(7);
    auto pidfd = open_pidfd(pid);
    REQUIRE(pidfd);
    siginfo_t info{};
    REQUIRE(::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd->get()), &info,
                     WEXITED | WNOWAIT) == 0);
    const auto ended = reap(*pidfd);
    REQUIRE(ended);
    CHECK(ended->how == ChildExit::How::exited);
    CHECK(ended->code == 7);
    CHECK_FALSE(send_signal(*pidfd, 9));
}

}  // namespace base_test
