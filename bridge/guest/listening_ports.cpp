#include "bridge/guest/listening_ports.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/plain/preview_limits.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::guest {
namespace {

constexpr std::string_view k_listening = "0A";  // TCP_LISTEN, include/net/tcp_states.h
// Any, and loopback, as the kernel writes them: each 32 bits of the address as a number of this host's.
constexpr std::array<std::string_view, 6> k_reached = {
    "00000000",
    "0100007F",
    "00000000000000000000000000000000",
    "00000000000000000000000001000000",
    "0000000000000000FFFF000000000000",  // of IPv4, on a socket of IPv6
    "0000000000000000FFFF00000100007F",
};
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

std::string_view take_word(std::string_view& line) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
    return word;
}

// At most base::k_max_port_table_bytes, less where the end is not known yet.
std::string read_file(const char* path) {
    const base::UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
    std::string text;
    std::array<char, 4096> chunk;
    ssize_t count = 0;
    while (file && text.size() < base::k_max_port_table_bytes &&
           (count = read(file.get(), chunk.data(), chunk.size())) > 0)
        text.append(chunk.data(), static_cast<std::size_t>(count));
    return text;
}

std::optional<std::uint64_t> count_in(const char* path, std::string_view row) {
    const std::string text = "\n" + read_file(path);
    const std::size_t at = text.find("\n" + std::string(row) + ": inuse ");
    if (at == std::string::npos)
        return std::nullopt;
    const char* const begin = text.data() + at + row.size() + 9;
    std::uint64_t count = 0;
    if (std::from_chars(begin, text.data() + text.size(), count).ec != std::errc())
        return std::nullopt;
    return count;
}

}  // namespace

void add_listening_ports(std::string_view table, std::vector<std::uint16_t>& ports) {
    table.remove_prefix(std::min(table.find('\n'), table.size()));  // its head
    for (;;) {
        table.remove_prefix(std::min<std::size_t>(1, table.size()));
        const std::size_t newline = table.find('\n');
        if (newline == std::string_view::npos)
            return;
        std::string_view line = table.substr(0, newline);
        table.remove_prefix(newline);
        take_word(line);  // its number
        const std::string_view local = take_word(line);
        take_word(line);  // the other end
        const std::size_t colon = local.find(':');
        if (take_word(line) != k_listening || colon == std::string_view::npos)
            return;
        if (std::find(k_reached.begin(), k_reached.end(), local.substr(0, colon)) == k_reached.end())
            continue;
        std::uint16_t port = 0;
        const char* const end = local.data() + local.size();
        const auto parsed = std::from_chars(local.data() + colon + 1, end, port, 16);
        if (parsed.ec != std::errc() || parsed.ptr != end)
            return;
        ports.push_back(port);
    }
}

std::vector<std::uint16_t> told_ports(std::vector<std::uint16_t> ports) {
    std::erase_if(ports, [](std::uint16_t port) { return port == 0 || base::is_reserved_port(port); });
    std::sort(ports.begin(), ports.end());
    ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
    if (ports.size() > base::k_max_told_ports)
        ports.resize(base::k_max_told_ports);
    return ports;
}

std::vector<std::uint16_t> listening_ports() {
    std::vector<std::uint16_t> ports;
    for (const char* const path : {"/proc/net/tcp", "/proc/net/tcp6"})
        add_listening_ports(read_file(path), ports);
    return told_ports(std::move(ports));
}

std::optional<TcpCounts> tcp_counts() {
    const auto ipv4 = count_in("/proc/net/sockstat", "TCP");
    if (!ipv4)
        return std::nullopt;
    // A host without IPv6 has no such file.
    return TcpCounts{*ipv4, count_in("/proc/net/sockstat6", "TCP6").value_or(0)};
}

}  // namespace atl::guest
