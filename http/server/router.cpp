#include "http/server/router.hpp"

#include <algorithm>
#include <stdexcept>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

bool is_parameter(std::string_view segment) noexcept {
    return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

// "/a/b" is two segments, "/a/" is two, the second empty. `path` begins with '/'.
std::vector<std::string_view> segments_of(std::string_view path) {
    constexpr std::size_t k_usual_segments = 6;
    std::vector<std::string_view> segments;
    segments.reserve(k_usual_segments);
    while (!path.empty()) {
        path.remove_prefix(1);
        const auto end = std::min(path.find('/'), path.size());
        segments.push_back(path.substr(0, end));
        path.remove_prefix(end);
    }
    return segments;
}

bool fits(const std::vector<std::string_view>& pattern, const std::vector<std::string_view>& path) noexcept {
    return std::equal(
        pattern.begin(), pattern.end(), path.begin(), path.end(),
        [](std::string_view p, std::string_view s) { return is_parameter(p) ? !s.empty() : p == s; });
}

void allow(std::string& list, Method method) {
    const auto name = to_string(method);
    list.append(list.empty() ? "" : ", ").append(name);
    if (method == Method::get)
        list += ", HEAD";
}

}  // namespace

Router::Router(std::vector<Route> routes) : routes_(std::move(routes)) {
    for (std::size_t i = 0; i < routes_.size(); ++i) {
        const Route& route = routes_[i];
        if (route.pattern.empty() || route.pattern.front() != '/' || !route.handler)
            throw std::logic_error("route without a pattern or a handler: " + std::string(route.name));
        for (std::size_t j = 0; j < i; ++j) {
            const bool same = routes_[j].pattern == route.pattern && routes_[j].method == route.method;
            if (same || routes_[j].name == route.name)
                throw std::logic_error("route given twice: " + std::string(route.name));
        }
        patterns_.push_back({segments_of(route.pattern), i});
    }
}

Router::Match Router::match(Method method, std::string_view path) const {
    const Method wanted = method == Method::head ? Method::get : method;
    const auto segments = segments_of(path);
    Match result;
    for (const auto& pattern : patterns_) {
        if (!fits(pattern.segments, segments))
            continue;
        const Route& route = routes_[pattern.route];
        if (route.method != wanted) {
            allow(result.allow, route.method);
            continue;
        }
        result.route = &route;
        for (std::size_t i = 0; i < segments.size(); ++i) {
            if (!is_parameter(pattern.segments[i]))
                continue;
            auto value = percent_decoded(segments[i]);
            if (!value || !is_utf8(*value)) {
                result.malformed = true;
                return result;
            }
            const auto name = pattern.segments[i].substr(1, pattern.segments[i].size() - 2);
            result.params.emplace_back(name, std::move(*value));
        }
        return result;
    }
    return result;
}

}  // namespace atl::http
