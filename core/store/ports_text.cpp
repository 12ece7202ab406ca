#include "core/store/ports_text.hpp"

#include <algorithm>
#include <charconv>

#include "core/plain/preview_limits.hpp"

namespace atl::store {

std::string ports_text(const std::vector<std::uint16_t>& ports) {
    std::string text;
    for (const std::uint16_t port : ports)
        text.append(text.empty() ? "" : ",").append(std::to_string(port));
    return text;
}

std::vector<std::uint16_t> ports_in(std::string_view text) {
    std::vector<std::uint16_t> ports;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(','));
        std::uint16_t port = 0;
        const auto read = std::from_chars(word.data(), word.data() + word.size(), port);
        if (read.ec == std::errc() && read.ptr == word.data() + word.size() && port > 0)
            ports.push_back(port);
        text.remove_prefix(std::min(text.size(), word.size() + 1));
    }
    if (ports.empty())
        ports.push_back(base::k_default_preview_port);
    return ports;
}

}  // namespace atl::store
