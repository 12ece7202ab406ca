#include "http/server/services.hpp"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

bool fits(std::string_view name, bool is_domain, std::string_view host) noexcept {
    if (!is_domain)
        return iequals(name, host);
    return host.size() > name.size() && iequals(host.substr(host.size() - name.size()), name);
}

}  // namespace

Services& Services::add(std::string_view pattern, Service& service) {
    const bool is_domain = pattern.starts_with("*.");
    const auto name = pattern.substr(is_domain ? 1 : 0);
    const bool is_name = name.size() > (is_domain ? 1U : 0U) && !name.ends_with('.') &&
                         std::all_of(name.begin(), name.end(), [](char c) {
                             return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                                    c == '-' || c == '.' || c == '[' || c == ']';
                         });
    const auto same = [&](const Entry& entry) {
        return entry.is_domain == is_domain && iequals(entry.name, name);
    };
    if (!is_name || std::any_of(by_host_.begin(), by_host_.end(), same))
        throw std::invalid_argument("not a host name, or given twice: " + std::string(pattern));
    by_host_.push_back({std::string(name), is_domain, &service});
    std::stable_sort(by_host_.begin(), by_host_.end(), [](const Entry& a, const Entry& b) {
        return std::tuple(a.is_domain, b.name.size()) < std::tuple(b.is_domain, a.name.size());
    });
    return *this;
}

Service& Services::find_by_host(std::string_view authority) const noexcept {
    auto host = host_without_port(authority).value_or("");
    if (host.ends_with('.'))
        host.remove_suffix(1);
    const auto found = std::find_if(by_host_.begin(), by_host_.end(), [&](const Entry& entry) {
        return fits(entry.name, entry.is_domain, host);
    });
    return found == by_host_.end() ? any_ : *found->service;
}

}  // namespace atl::http
