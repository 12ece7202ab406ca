#include "app/host_memory.hpp"

#include <cstdint>
#include <fstream>
#include <string>

namespace atl::app {

std::optional<sandbox::HostMemory> read_host_memory(const std::filesystem::path& meminfo) {
    constexpr std::uint64_t k_bytes_per_kb = 1024;
    std::ifstream in(meminfo);
    sandbox::HostMemory memory;
    std::string name;
    std::uint64_t kb = 0;
    std::string unit;
    // MemTotal, MemFree, MemAvailable are the first three lines.
    while (memory.available_bytes == 0 && in >> name >> kb >> unit) {
        if (name == "MemTotal:")
            memory.total_bytes = kb * k_bytes_per_kb;
        else if (name == "MemAvailable:")
            memory.available_bytes = kb * k_bytes_per_kb;
    }
    if (memory.total_bytes == 0 || memory.available_bytes == 0)
        return std::nullopt;
    return memory;
}

}  // namespace atl::app
