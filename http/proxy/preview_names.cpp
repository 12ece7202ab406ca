#include "http/proxy/preview_names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::string_view k_id = "{id}";
constexpr std::string_view k_port = "{port}";
// RFC 1035 section 2.3.4.
constexpr std::size_t k_max_label_bytes = 63;
constexpr std::size_t k_max_name_bytes = 253;  // as text, without the last dot
constexpr std::uint64_t k_max_port = 65'535;

bool is_label_text(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    });
}

std::string lower_letter(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
    return out;
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
    const auto number = text.size() <= 5 && !text.starts_with('0') ? parse_decimal(text) : std::nullopt;
    if (!number || *number == 0 || *number > k_max_port)
        return std::nullopt;
    return static_cast<std::uint16_t>(*number);
}

}  // namespace

std::optional<PreviewNames::Pattern> PreviewNames::parse(std::string_view text) {
    const auto id = text.find(k_id);
    const auto port = text.find(k_port);
    if (id == std::string_view::npos || text.find(k_id, id + 1) != std::string_view::npos)
        return std::nullopt;
    Pattern pattern;
    if (port == std::string_view::npos) {
        pattern.before = text.substr(0, id);
        pattern.behind = text.substr(id + k_id.size());
    } else {
        pattern.has_port = true;
        pattern.port_first = port < id;
        const auto first = std::min(id, port);
        const auto first_end = first + (pattern.port_first ? k_port : k_id).size();
        const auto second = std::max(id, port);
        pattern.before = text.substr(0, first);
        pattern.between = text.substr(first_end, second - first_end);
        pattern.behind = text.substr(second + (pattern.port_first ? k_id : k_port).size());
        if (pattern.between.empty())
            return std::nullopt;
    }
    for (std::string* part : {&pattern.before, &pattern.between, &pattern.behind}) {
        if (!is_label_text(*part))
            return std::nullopt;
        *part = lower_letter(*part);
    }
    return pattern;
}

bool PreviewNames::is_domain(std::string_view domain) noexcept {
    if (domain.empty() || domain.size() + 1 + k_max_label_bytes > k_max_name_bytes || domain.ends_with('.'))
        return false;
    while (!domain.empty()) {
        const std::string_view label = domain.substr(0, domain.find('.'));
        domain.remove_prefix(std::min(domain.size(), label.size() + 1));
        if (label.empty() || label.size() > k_max_label_bytes || !is_label_text(label) ||
            label.starts_with('-') || label.ends_with('-'))
            return false;
        // Browsers take it for an IPv4 address, below which there are no names (WHATWG URL, "ends in a
        // number").
        if (domain.empty() && label.find_first_not_of("0123456789") == std::string_view::npos)
            return false;
    }
    return true;
}

base::Result<PreviewNames> PreviewNames::make(std::string_view domain, std::string_view patterns) {
    if (!is_domain(domain))
        return Error(Errc::invalid_field, fmt::format("\"{}\" is not a domain", domain));
    PreviewNames names;
    names.domain_ = lower_letter(domain);
    while (!patterns.empty()) {
        const std::string_view text = take_element(patterns, ',');
        auto pattern = parse(text);
        if (!pattern)
            return Error(Errc::invalid_field,
                         fmt::format("the pattern \"{}\" needs {{id}} once, {{port}} at most "
                                     "once, and between them and elsewhere only letters, "
                                     "digits and hyphens",
                                     text));
        names.patterns_.push_back(std::move(*pattern));
    }
    if (names.patterns_.empty())
        return Error(Errc::invalid_field, "at least one pattern is needed");
    std::stable_sort(names.patterns_.begin(), names.patterns_.end(),
                     [](const Pattern& a, const Pattern& b) { return a.has_port > b.has_port; });
    return names;
}

// The parts of a label that fits; a port is what stands on its side of the outermost `between`.
std::optional<PreviewName> PreviewNames::match(const Pattern& pattern, std::string_view label) {
    if (label.size() < pattern.before.size() + pattern.behind.size() || !label.starts_with(pattern.before) ||
        !label.ends_with(pattern.behind))
        return std::nullopt;
    label = label.substr(pattern.before.size(), label.size() - pattern.before.size() - pattern.behind.size());
    if (!pattern.has_port) {
        if (label.empty())
            return std::nullopt;
        return PreviewName{std::string(label), std::nullopt};
    }
    const auto cut = pattern.port_first ? label.find(pattern.between) : label.rfind(pattern.between);
    if (cut == std::string_view::npos)
        return std::nullopt;
    const auto left = label.substr(0, cut);
    const auto right = label.substr(cut + pattern.between.size());
    const auto port = parse_port(pattern.port_first ? left : right);
    const auto id = pattern.port_first ? right : left;
    if (!port || id.empty())
        return std::nullopt;
    return PreviewName{std::string(id), port};
}

base::Result<PreviewName> PreviewNames::read(std::string_view authority) const {
    const auto bare = host_without_port(authority);
    std::string host = lower_letter(bare.value_or(""));
    if (host.ends_with('.'))
        host.pop_back();
    const std::string tail = '.' + domain_;
    if (!host.ends_with(tail) || host.find('.') != host.size() - tail.size())
        return Error(Errc::host_not_allowed, "This is not the name of a preview.");
    const std::string_view label = std::string_view(host).substr(0, host.size() - tail.size());
    if (label.size() <= k_max_label_bytes && is_label_text(label)) {
        for (const Pattern& pattern : patterns_) {
            if (auto name = match(pattern, label))
                return std::move(*name);
        }
    }
    return Error(Errc::invalid_request, "This is not the name of a preview: its form is another one.");
}

std::string PreviewNames::host(std::string_view sandbox_id, std::uint16_t first_port) const {
    return fill(patterns_.back(), sandbox_id, first_port);
}

std::optional<std::string> PreviewNames::host_of_port(std::string_view sandbox_id, std::uint16_t port) const {
    if (!patterns_.front().has_port)
        return std::nullopt;
    return fill(patterns_.front(), sandbox_id, port);
}

std::string PreviewNames::fill(const Pattern& pattern, std::string_view sandbox_id,
                               std::uint16_t port_number) const {
    const std::string port = std::to_string(port_number);
    const std::string_view first = pattern.port_first ? std::string_view(port) : sandbox_id;
    const std::string_view second = pattern.port_first ? sandbox_id : std::string_view(port);
    std::string host = pattern.before;
    host.append(first);
    if (pattern.has_port)
        host.append(pattern.between).append(second);
    return host.append(pattern.behind).append(1, '.').append(domain_);
}

}  // namespace atl::http
