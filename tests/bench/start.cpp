#include <fcntl.h>
#include <unistd.h>

#include <stdexcept>

#include "core/plain/unique_fd.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/seed.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/temp_dir.hpp"

namespace atl::bench {
namespace {

// 1 GB of events, 10 KB a conversation.
constexpr std::size_t k_conversations = 100'000;
constexpr std::size_t k_events = 20;
constexpr std::size_t k_event_bytes = 520;
constexpr std::size_t k_rounds = 5;
constexpr double k_max_s = 2;
constexpr double k_ms_a_s = 1000;

base::UniqueFd open_database(const std::filesystem::path& data_dir) {
    base::UniqueFd file(::open((data_dir / "atoll.db").c_str(), O_RDONLY | O_CLOEXEC));
    if (!file)
        throw std::runtime_error("the seeded database cannot be opened");
    return file;
}

/// Drops the database from the page cache, as a boot does; only pages that somebody maps would stay.
void forget_pages(const std::filesystem::path& data_dir) {
    const base::UniqueFd file = open_database(data_dir);
    if (::fdatasync(file.get()) != 0 || ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) != 0)
        throw std::runtime_error("the page cache cannot be emptied");
}

/// Seconds to read the whole database, from the disk or from the page cache.
double read_s(const std::filesystem::path& data_dir) {
    const base::UniqueFd file = open_database(data_dir);
    std::vector<char> buffer(1UL << 20);
    const auto began = Clock::now();
    while (::read(file.get(), buffer.data(), buffer.size()) > 0) {
    }
    return ms_since(began) / k_ms_a_s;
}

/// Seconds from the start of the process to /readyz.
double start_s(const std::filesystem::path& data_dir) {
    const auto began = Clock::now();
    const Server server(seeded_options(), data_dir);
    return ms_since(began) / k_ms_a_s;
}

}  // namespace

Result measure_start(Scope scope) {
    Result result{.key = "start_s", .unit = "s", .target = "p95 <= 2 s"};
    const TempDir dir;
    const TempDir empty;
    const std::filesystem::path data_dir = dir.path() / "data";
    const auto began = Clock::now();
    if (has_product(scope)) {
        seed(data_dir, {sized(k_conversations), k_events, k_event_bytes});
        result.more["seeding_s"] = ms_since(began) / k_ms_a_s;
        start_s(data_dir);  // makes what only a first start makes
    }
    start_s(empty.path() / "data");
    Samples floors;
    Samples cold;
    Samples warm;
    for (std::size_t round = 0; round < sized(k_rounds); ++round) {
        floors.add(start_s(empty.path() / "data"));
        if (!has_product(scope))
            continue;
        forget_pages(data_dir);
        cold.add(start_s(data_dir));
        warm.add(start_s(data_dir));
    }
    result.floor = floors.p50();
    if (!has_product(scope))
        return result;
    forget_pages(data_dir);
    result.more["read_cold_s"] = read_s(data_dir);
    result.more["read_warm_s"] = read_s(data_dir);
    result.more["database_mb"] = static_cast<double>(std::filesystem::file_size(data_dir / "atoll.db")) / 1e6;
    result.p50 = cold.p50();
    result.p95 = cold.p95();
    result.ratio = *result.p50 / *result.floor;
    result.more["warm_p50"] = warm.p50();
    result.more["warm_max"] = warm.percentile(1);
    result.reached = *result.p95 <= k_max_s;
    return result;
}

}  // namespace atl::bench
