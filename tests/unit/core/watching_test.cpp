// The server's counters and measurements of itself.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>

#include "core/base/histogram.hpp"
#include "core/base/process_usage.hpp"
#include "core/plain/unique_fd.hpp"

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

}  // namespace core_watching_test
