// The server's counters and measurements of itself.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>

#include "core/base/histogram.hpp"
#include "core/base/process_usage.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/store/metered_store.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/support/store_calls.hpp"

namespace core_watching_test {

using namespace atl;
using namespace std::chrono_literals;

namespace {

constexpr std::array<base::Histogram::Micros, 2> k_bounds{{1ms, 10ms}};

std::vector<std::uint64_t> counts(const base::Histogram& histogram) {
    return {histogram.counts().begin(), histogram.counts().end()};
}

/// Keeps the loop busy for so long.
void stall(std::chrono::milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {
    }
}

}  // namespace

TEST_CASE("A sample that equals a bound is within it, and one above all bounds is kept") {
    base::Histogram histogram(k_bounds);
    histogram.add(-5s);
    histogram.add(1ms);
    histogram.add(1ms + 1ns);
    histogram.add(10ms);
    histogram.add(1h);
    CHECK(counts(histogram) == std::vector<std::uint64_t>{2, 2, 1});
    CHECK(histogram.count() == 5);
    CHECK(histogram.sum() == 1ms + 1ms + 1ns + 10ms + 1h);
    CHECK(histogram.max() == 1h);
    CHECK(histogram.quantile(0.4) == 1ms);
    CHECK(histogram.quantile(0.8) == 10ms);
    CHECK(histogram.quantile(1) == 1h);
}

TEST_CASE("The bounds of histograms ascend") {
    const auto ascends = [](const auto& bounds) {
        return std::ranges::adjacent_find(bounds, std::greater_equal<>()) == bounds.end();
    };
    CHECK(ascends(base::k_latency_bounds));
    CHECK(ascends(base::k_stall_bounds));
    CHECK(ascends(base::k_task_bounds));
    CHECK(ascends(base::k_quantile_bounds));
}

TEST_CASE("Open descriptors are counted alike with and without the kernel's own count") {
    const auto before = base::count_open_fds();
    CHECK(before == base::count_open_fds_by_poll());
    const base::UniqueFd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const base::UniqueFd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    CHECK(base::count_open_fds() == before + 2);
    CHECK(base::count_open_fds_by_poll() == before + 2);
}

TEST_CASE("The usage of the process follows what it takes") {
    constexpr std::size_t k_bytes = 64UL * 1024 * 1024;
    const auto before = base::process_usage();
    CHECK(before.max_fds >= 256);
    CHECK(before.resident_bytes > 1024 * 1024);
    CHECK(before.virtual_bytes >= before.resident_bytes);
    // Not from the heap, which may have room that is resident already.
    void* const taken =
        ::mmap(nullptr, k_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    REQUIRE(taken != MAP_FAILED);
    stall(50ms);
    const auto after = base::process_usage();
    ::munmap(taken, k_bytes);
    CHECK(after.resident_bytes > before.resident_bytes + k_bytes / 2);
    CHECK(after.cpu > before.cpu);
}

TEST_CASE("A metered store counts what was committed, and refusals apart") {
    using conversation::EventType;
    test::FakeStore behind;
    store::MeteredStore metered(behind);
    const auto event = conversation::make_event(1, EventType::text_delta, {}, 1, R"({"delta":"x"})");
    const std::vector<conversation::Write> writes{conversation::AppendEvent{1, event}};
    behind.fails = [] { return true; };
    CHECK_FALSE(test::commit(metered, writes).has_value());
    CHECK(metered.stats().refused_commits == 1);
    CHECK(metered.stats().events[EventType::text_delta] == 0);
    behind.fails = [] { return false; };
    REQUIRE(test::commit(metered, writes).has_value());
    CHECK(metered.stats().refused_commits == 1);
    CHECK(metered.stats().events[EventType::text_delta] == 1);
    CHECK(metered.stats().events[EventType::done] == 0);
    CHECK(metered.stats().event_bytes == event->json.size());
    CHECK(metered.stats().commit_duration.count() == 1);
    CHECK(test::read_events(metered, 1, 0, 1000)->size() == 1);
}

TEST_CASE(
    "A metered store counts and times a commit that ends later when it ends, before its caller is told") {
    test::FakeStore behind;
    store::MeteredStore metered(behind);
    std::function<void()> answer;
    behind.later = [&](std::function<void()> given) { answer = std::move(given); };
    auto batch = std::make_shared<conversation::WriteBatch>();
    batch->writes.emplace_back(conversation::AppendEvent{
        1, conversation::make_event(1, conversation::EventType::done, {}, 1, "{}")});
    std::uint64_t counted_when_told = 0;
    metered.commit(batch, [&](conversation::CommitEnd end, const base::Error&) {
        CHECK(end == conversation::CommitEnd::durable);
        counted_when_told = metered.stats().commit_duration.count();
    });
    CHECK(metered.stats().commit_duration.count() == 0);
    CHECK(metered.stats().event_bytes == 0);
    stall(5ms);
    REQUIRE(answer != nullptr);
    answer();
    CHECK(counted_when_told == 1);
    CHECK(metered.stats().events[conversation::EventType::done] == 1);
    CHECK(metered.stats().commit_duration.sum() >= 5ms);
    behind.is_fenced = true;
    behind.later = nullptr;
    CHECK_FALSE(test::commit(metered, {}).has_value());
    CHECK(metered.stats().refused_commits == 1);
}

}  // namespace core_watching_test
