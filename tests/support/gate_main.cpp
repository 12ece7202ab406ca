// Runs what the gate takes of a program's tests: without those tagged [full], and one of ATOLL_SAMPLED_OF of
// the rest, chosen by ATOLL_TEST_SEED. ATOLL_TEST_FULL=1 runs all, as does naming tests or tags. For those
// who start the program by hand: scripts/lib/run_tests.py names the tests that it has chosen.
#include <catch2/catch_session.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

/// The sample has one test of this many; 1: all tests.
constexpr unsigned k_sampled_of = ATOLL_SAMPLED_OF;

/// Another sample each day, unless a seed is given.
std::uint32_t sample_seed() {
    if (const char* given = std::getenv("ATOLL_TEST_SEED"))
        return static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10));
    const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::hours>(since_epoch).count() /
                                      24);
}

bool wants_all() {
    const char* const full = std::getenv("ATOLL_TEST_FULL");
    return full != nullptr && std::string(full) == "1";
}

}  // namespace

int main(int count, char** words) {
    Catch::Session session;
    const int status = session.applyCommandLine(count, words);
    if (status != 0)
        return status;
    auto& config = session.configData();
    if (!wants_all() && config.testsOrTags.empty() && config.shardCount == 1) {
        config.testsOrTags = {"~[full]"};
        if (k_sampled_of > 1) {
            // A shard is a part of the tests in their order, and that order is the seed's.
            config.runOrder = Catch::TestRunOrder::Randomized;
            config.rngSeed = sample_seed();
            config.shardCount = k_sampled_of;
            std::printf("one test of %u, ATOLL_TEST_SEED=%u\n", k_sampled_of, sample_seed());
        }
        std::printf("without the tests tagged [full]; ATOLL_TEST_FULL=1 runs all\n");
        std::fflush(stdout);
    }
    return session.run();
}
