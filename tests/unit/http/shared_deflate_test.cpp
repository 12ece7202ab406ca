#include "http/api/shared_deflate.hpp"

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "core/base/limits.hpp"
#include "tests/support/raw_deflate.hpp"

namespace shared_deflate_test {

using namespace atl;
using namespace std::chrono_literals;
using conversation::Event;
using conversation::EventPtr;
using http::SharedDeflate;

namespace {

constexpr base::SteadyTime k_now{1h};

EventPtr event_of(std::string json) {
    Event event{1, conversation::EventType::text_delta, 1, std::move(json)};
    return std::make_shared<const Event>(std::move(event));
}

}  // namespace

TEST_CASE("An event is compressed once, for all that read it") {
    SharedDeflate deflate;
    const EventPtr event = event_of(std::string(5000, 'x'));
    const auto first = deflate.payload_of(event, k_now);
    CHECK(test::raw_inflate(first.bytes) == event->json);
    CHECK(first.worked_bytes == 5000);
    const auto second = deflate.payload_of(event, k_now);
    CHECK(second.bytes.data() == first.bytes.data());
    CHECK(second.worked_bytes == 0);
}

TEST_CASE("An event that is too short, too long or does not shrink goes out as it is") {
    SharedDeflate deflate;
    const auto shrinks = [&](const EventPtr& event) {
        return !deflate.payload_of(event, k_now).bytes.empty();
    };
    CHECK_FALSE(shrinks(event_of(std::string(base::k_least_deflated_bytes - 1, 'x'))));
    CHECK(shrinks(event_of(std::string(base::k_least_deflated_bytes, 'x'))));
    CHECK(shrinks(event_of(std::string(base::k_most_deflated_bytes, 'x'))));
    CHECK_FALSE(shrinks(event_of(std::string(base::k_most_deflated_bytes + 1, 'x'))));
    std::string noise;
    for (std::uint32_t state = 1; noise.size() < 5000; state = state * 1'664'525 + 1'013'904'223)
        noise += static_cast<char>(state >> 24);
    const EventPtr useless = event_of(noise);
    const auto first = deflate.payload_of(useless, k_now);
    CHECK(first.bytes.empty());
    CHECK(first.worked_bytes == 5000);
    // That is remembered, too.
    CHECK(deflate.payload_of(useless, k_now).worked_bytes == 0);
}

TEST_CASE("Beyond its budget the server compresses nothing new until time has passed") {
    SharedDeflate deflate;
    const std::string text(base::k_most_deflated_bytes, 'x');
    const EventPtr early = event_of(text);
    std::size_t compressed = 0;
    const auto fresh = [&](base::SteadyTime now) {
        return !deflate.payload_of(event_of(text), now).bytes.empty();
    };
    CHECK_FALSE(deflate.payload_of(early, k_now).bytes.empty());
    while (fresh(k_now))
        REQUIRE(++compressed < 1000);
    CHECK(compressed + 1 == base::k_deflate_stored_bytes / text.size());
    const EventPtr late = event_of(text);
    CHECK(deflate.payload_of(late, k_now).bytes.empty());
    // An existing compressed form costs nothing; a refused event may be compressed later.
    CHECK_FALSE(deflate.payload_of(early, k_now).bytes.empty());
    CHECK_FALSE(deflate.payload_of(late, k_now + 5ms).bytes.empty());
    CHECK_FALSE(fresh(k_now + 5ms));
}

TEST_CASE("What is kept of compressed events is bounded, the newest stay") {
    SharedDeflate deflate;
    std::vector<EventPtr> events;
    base::SteadyTime now = k_now;
    for (int i = 0; i < 1000; ++i) {
        events.push_back(event_of(std::string(2000, static_cast<char>('a' + i % 26))));
        CHECK(deflate.payload_of(events.back(), now += 1s).worked_bytes == 2000);
    }
    CHECK(deflate.payload_of(events.back(), now).worked_bytes == 0);
    CHECK(deflate.payload_of(events.front(), now + 1s).worked_bytes == 2000);
}

TEST_CASE("An event at the address of one that is gone is another event") {
    SharedDeflate deflate;
    base::SteadyTime now = k_now;
    for (int i = 0; i < 100; ++i) {
        const EventPtr event = event_of(std::string(2000, static_cast<char>('a' + i % 26)));
        CHECK(test::raw_inflate(deflate.payload_of(event, now += 1s).bytes) == event->json);
    }
}

TEST_CASE("A budget fills with time, up to what it holds") {
    http::ByteBudget budget(1000, 500);
    CHECK(budget.take(500, k_now));
    CHECK_FALSE(budget.take(1, k_now));
    CHECK_FALSE(budget.take(101, k_now + 100ms));
    CHECK(budget.take(100, k_now + 100ms));
    CHECK_FALSE(budget.take(501, k_now + 1h));
    CHECK(budget.take(500, k_now + 1h));
}

}  // namespace shared_deflate_test
