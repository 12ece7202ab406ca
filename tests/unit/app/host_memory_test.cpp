#include "app/host_memory.hpp"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "tests/unit/isolation/fixture.hpp"

namespace app_host_memory_test {

using namespace atl;

TEST_CASE("the host's memory is read as the kernel tells it") {
    const auto memory = app::read_host_memory("/proc/meminfo");
    REQUIRE(memory.has_value());
    CHECK(memory->total_bytes > 64UL * 1024 * 1024);
    CHECK(memory->available_bytes > 0);
    CHECK(memory->available_bytes <= memory->total_bytes);
}

TEST_CASE("what is no meminfo tells no memory") {
    const test::TempFolder folder;
    const auto file = folder.path() / "meminfo";
    CHECK_FALSE(app::read_host_memory(file).has_value());
    for (const char* text : {"", "MemTotal: x kB\n", "MemTotal: 1024 kB\nMemFree: 1 kB\n"}) {
        std::ofstream(file) << text;
        CHECK_FALSE(app::read_host_memory(file).has_value());
    }
    std::ofstream(file) << "MemTotal: 1024 kB\nMemFree: 1 kB\nMemAvailable: 512 kB\nBuffers: 7 kB\n";
    CHECK(app::read_host_memory(file)->total_bytes == 1024 * 1024);
    CHECK(app::read_host_memory(file)->available_bytes == 512 * 1024);
}

}  // namespace app_host_memory_test
