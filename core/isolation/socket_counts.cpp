#include "core/isolation/socket_counts.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "core/plain/unique_fd.hpp"

namespace atl::isolation {
namespace {

// The file /proc/PID/net/protocols has about 40 rows of 100 bytes.
constexpr std::size_t k_max_protocols_bytes = 64UL * 1024;

std::string_view skip_blanks(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return text;
}

std::optional<std::uint32_t> leading_number(std::string_view text) {
    text = skip_blanks(text);
    std::uint32_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
        return std::nullopt;
    return value;
}

}  // namespace

std::optional<std::uint32_t> sockets_used(int sockstat) {
    constexpr std::string_view k_start = "sockets: used ";
    std::array<char, 64> bytes;
    const ssize_t count = ::pread(sockstat, bytes.data(), bytes.size(), 0);
    const std::string_view text(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    return text.starts_with(k_start) ? leading_number(text.substr(k_start.size())) : std::nullopt;
}

std::optional<std::uint32_t> sockets_of_protocol(int protocols, std::string_view name) {
    std::string text = "\n";
    std::array<char, 4096> chunk;
    ssize_t count = 0;
    while (text.size() < k_max_protocols_bytes && (count = ::read(protocols, chunk.data(), chunk.size())) > 0)
        text.append(chunk.data(), static_cast<std::size_t>(count));
    const std::size_t at = text.find("\n" + std::string(name) + " ");
    if (at == std::string::npos)
        return std::nullopt;
    // The name, the size of one, how many there are.
    std::string_view row = skip_blanks(std::string_view(text).substr(at + 1 + name.size()));
    row.remove_prefix(std::min(row.find(' '), row.size()));
    return leading_number(row);
}

bool can_count_sockets() {
    const base::UniqueFd own(::open("/proc/self/net/sockstat", O_RDONLY | O_CLOEXEC));
    return own && sockets_used(own.get()).has_value();
}

}  // namespace atl::isolation
