#include "app/host_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "core/plain/unique_fd.hpp"

namespace atl::app {
namespace {

/// In bytes; 0 if `text` has no such line.
std::uint64_t value_of(std::string_view text, std::string_view name) {
    constexpr std::uint64_t k_bytes_per_kb = 1024;
    const std::size_t at = text.find(name);
    if (at == std::string_view::npos)
        return 0;
    text.remove_prefix(at + name.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    std::uint64_t kb = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), kb).ec != std::errc())
        return 0;
    return kb * k_bytes_per_kb;
}

}  // namespace

std::optional<sandbox::HostMemory> read_host_memory(const std::filesystem::path& meminfo) {
    const base::UniqueFd file(::open(meminfo.c_str(), O_RDONLY | O_CLOEXEC));
    // Both lines are among the first three.
    std::array<char, 256> bytes;
    const ssize_t count = file ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
    if (count <= 0)
        return std::nullopt;
    const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
    const sandbox::HostMemory memory{value_of(text, "MemTotal:"), value_of(text, "MemAvailable:")};
    if (memory.total_bytes == 0 || memory.available_bytes == 0)
        return std::nullopt;
    return memory;
}

}  // namespace atl::app
