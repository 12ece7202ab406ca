#include "http/proxy/preview_waker.hpp"

#include <catch2/catch_test_macros.hpp>

#include "core/plain/preview_limits.hpp"
#include "tests/support/fake_world.hpp"

namespace preview_waker_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;
using base::Errc;
using base::Result;

namespace {

/// A waker whose wakes the test answers. "ann/1" is ann's, and "a" has no owner.
struct Bench {
    explicit Bench(std::uint32_t in_a_minute = 60)
        : waker(clock, timers, {in_a_minute},
                [this](const std::string& id, const http::PreviewWaker::May& may,
                       http::PreviewWaker::Reply reply) {
                    if (!can_load)
                        return reply(base::Error(Errc::storage_failed));
                    const auto end = id.find('/');
                    const auto allowed =
                        may(end == std::string::npos ? base::ShareHolder::thing(id)
                                                     : base::ShareHolder::user(id.substr(0, end)));
                    if (!allowed)
                        return reply(allowed);
                    asked.push_back(id);
                    replies.push_back(std::move(reply));
                }) {}

    std::shared_ptr<std::optional<Result<void>>> wake(const std::string& id, base::Millis wait = 5s) {
        auto answered = std::make_shared<std::optional<Result<void>>>();
        waker.wake(id, wait, [answered](Result<void> result) {
            CHECK_FALSE(answered->has_value());
            answered->emplace(std::move(result));
        });
        return answered;
    }
    Errc refused(const std::string& id) {
        const auto answered = wake(id);
        REQUIRE(answered->has_value());
        REQUIRE((*answered)->has_error());
        CHECK((*answered)->error().retry_after() > 0s);
        return (*answered)->error().code();
    }
    /// The one that was begun last goes well.
    void wakes_up() { replies.back()({}); }
    void advance(base::Millis by) {
        timers.advance(by, [] {});
    }

    FakeClock clock;
    FakeTimers timers{clock};
    bool can_load = true;
    std::vector<std::string> asked;
    std::vector<http::PreviewWaker::Reply> replies;
    http::PreviewWaker waker;
};

bool may_wake(http::Method method, std::vector<http::HeaderField> fields) {
    http::Request request;
    request.method = method;
    request.fields = std::move(fields);
    return http::PreviewWaker::may_wake(request);
}

}  // namespace

TEST_CASE("preview waker: a request wakes, one that only looks ahead does not") {
    using http::Method;
    CHECK(may_wake(Method::get, {}));
    CHECK(may_wake(Method::post, {{"Purpose", "checkout"}}));
    CHECK_FALSE(may_wake(Method::head, {}));
    CHECK_FALSE(may_wake(Method::get, {{"sec-purpose", "Prefetch"}}));
    CHECK_FALSE(may_wake(Method::get, {{"Sec-Purpose", "prefetch;prerender"}}));
    CHECK_FALSE(may_wake(Method::get, {{"Sec-Purpose", "x, prefetch ; anonymous-client-ip"}}));
    CHECK_FALSE(may_wake(Method::get, {{"Purpose", "prefetch"}}));
    CHECK_FALSE(may_wake(Method::get, {{"X-Moz", "prefetch"}}));
}

TEST_CASE("preview waker: however many ask, it is woken once, and all are told") {
    Bench bench;
    std::vector<std::shared_ptr<std::optional<Result<void>>>> all;
    for (std::size_t i = 0; i < base::k_max_wake_waiters; ++i)
        all.push_back(bench.wake("a"));
    CHECK(bench.refused("a") == Errc::paused);
    CHECK(bench.asked == std::vector<std::string>{"a"});
    bench.wakes_up();
    for (const auto& answered : all)
        CHECK((answered->has_value() && (*answered)->has_value()));
    const auto other = bench.wake("b");
    bench.replies.back()(base::Error(Errc::capacity, "full", 7s));
    CHECK((*other)->error().code() == Errc::capacity);
}

TEST_CASE("preview waker: who asked is answered in time, and the wake goes on") {
    Bench bench;
    const auto first = bench.wake("a", 700ms);
    const auto second = bench.wake("a", 5s);
    bench.advance(701ms);
    REQUIRE(first->has_value());
    CHECK((*first)->error().code() == Errc::paused);
    CHECK_FALSE(second->has_value());
    const auto third = bench.wake("a");
    bench.wakes_up();
    CHECK((*second)->has_value());
    CHECK((*third)->has_value());
    CHECK(bench.asked.size() == 1);
}

TEST_CASE("preview waker: a conversation is woken once in ten seconds, whatever became of it") {
    Bench bench;
    bench.wake("a");
    bench.wakes_up();
    bench.advance(9s);
    CHECK(bench.refused("a") == Errc::paused);
    bench.wake("b");
    bench.replies.back()(base::Error(Errc::capacity));
    CHECK(bench.refused("b") == Errc::paused);
    bench.can_load = false;
    CHECK((*bench.wake("c"))->error().code() == Errc::storage_failed);
    bench.can_load = true;
    CHECK(bench.refused("c") == Errc::paused);
    bench.advance(1s);
    bench.wake("a");
    CHECK(bench.asked == std::vector<std::string>{"a", "b", "a"});
}

TEST_CASE("preview waker: a server wakes so many in a minute") {
    Bench bench(3);
    for (const char* const id : {"a", "b", "c"}) {
        bench.wake(id);
        bench.wakes_up();
        bench.advance(1s);
    }
    CHECK(bench.refused("d") == Errc::capacity);
    bench.advance(57s);
    bench.wake("d");
    CHECK(bench.asked.back() == "d");
    bench.wakes_up();
    CHECK(bench.refused("e") == Errc::capacity);
}

TEST_CASE("preview waker: wakes of one user's conversations leave others theirs") {
    Bench bench;
    const auto name = [](int number) { return "ann/" + std::to_string(number); };
    for (int i = 0; i < 30; ++i) {
        bench.wake(name(i));
        bench.wakes_up();
        bench.advance(100ms);
    }
    const auto refused = bench.wake(name(30));
    REQUIRE(refused->has_value());
    CHECK((*refused)->error().code() == Errc::user_share);
    CHECK((*refused)->error().retry_after() == 57s);
    CHECK(bench.waker.wakes().used() == 30);
    for (int i = 0; i < 10; ++i) {
        bench.wake("bob/" + std::to_string(i));
        bench.wakes_up();
    }
    CHECK(bench.waker.wakes().used() == 40);
    // The first of ann's count no longer.
    bench.advance(58s);
    bench.wake(name(31));
    CHECK(bench.asked.back() == name(31));
}

TEST_CASE("preview waker: wakes that fail take no place of the others in the minute") {
    Bench bench(2);
    for (const char* const id : {"a", "b", "c"}) {
        bench.wake(id);
        bench.replies.back()(base::Error(Errc::capacity, "full", 7s));
        CHECK(bench.refused(id) == Errc::paused);
    }
    bench.wake("d");
    bench.wakes_up();
    bench.wake("e");
    // A wake that is still under way keeps its place.
    CHECK(bench.refused("f") == Errc::capacity);
    bench.replies.back()(base::Error(Errc::internal));
    bench.wake("f");
    CHECK(bench.asked.back() == "f");
    bench.wakes_up();
    CHECK(bench.refused("g") == Errc::capacity);
    // The pause of one that failed has ended, the minute has not.
    bench.advance(10s);
    CHECK(bench.refused("a") == Errc::capacity);
}

TEST_CASE("preview waker: conversations whose wakes failed are remembered in a bounded number") {
    Bench bench;
    const auto fail = [&](std::size_t number) {
        bench.wake(std::to_string(number));
        bench.replies.back()(base::Error(Errc::capacity, "full", 7s));
    };
    fail(0);
    bench.advance(4s);
    for (std::size_t i = 1; i < base::k_max_wake_pauses; ++i)
        fail(i);
    const auto beyond = bench.wake("beyond");
    REQUIRE(beyond->has_value());
    CHECK((*beyond)->error().code() == Errc::capacity);
    CHECK((*beyond)->error().retry_after() == 6s);
    CHECK(bench.asked.size() == base::k_max_wake_pauses);
    // A conversation whose pause has ended gives its place to the next one.
    bench.advance(6s);
    bench.wake("beyond");
    CHECK(bench.asked.back() == "beyond");
    CHECK(bench.refused("another") == Errc::capacity);
    CHECK(bench.refused("1") == Errc::paused);
    bench.advance(4s);
    bench.wake("1");
    CHECK(bench.asked.back() == "1");
}

TEST_CASE("preview waker: tries of one user's conversations leave others theirs") {
    Bench bench;
    for (std::size_t i = 0; i < base::k_max_wake_pauses; ++i) {
        const std::size_t asked = bench.asked.size();
        bench.wake("ann/" + std::to_string(i));
        if (bench.asked.size() > asked)
            bench.replies.back()(base::Error(Errc::capacity, "full", 7s));
    }
    CHECK(bench.asked.size() == base::k_max_wake_pauses / 2);
    CHECK(bench.refused("ann/new") == Errc::user_share);
    bench.wake("bob/1");
    CHECK(bench.asked.back() == "bob/1");
    CHECK(bench.waker.tries().used() == base::k_max_wake_pauses / 2 + 1);
}

TEST_CASE("preview waker: a wake that fails late leaves the minute to another one") {
    Bench bench(1);
    const auto slow = bench.wake("a", 60s);
    bench.advance(11s);
    CHECK(bench.refused("b") == Errc::capacity);
    bench.replies.back()(base::Error(Errc::internal));
    CHECK((*slow)->has_error());
    bench.wake("b");
    CHECK(bench.asked.back() == "b");
}

TEST_CASE("preview waker: a server may wake none") {
    Bench bench(0);
    const auto answered = bench.wake("a");
    REQUIRE(answered->has_value());
    CHECK((*answered)->error().code() == Errc::paused);
    CHECK(bench.asked.empty());
}

TEST_CASE("preview waker: what ends after it is told to nobody") {
    std::optional<Bench> bench(std::in_place);
    const auto answered = bench->wake("a");
    const auto late = bench->replies.back();
    bench.reset();
    late({});
    CHECK_FALSE(answered->has_value());
}

}  // namespace preview_waker_test
