#include "http/server/router.hpp"
#include "core/plain/utf8.hpp"

#include <algorithm>
#include <stdexcept>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

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

// A pattern as its place in a description: without the dots of a parameter that spans segments.
std::string plain(std::string_view pattern) {
    std::string text(pattern);
    if (const auto dots = text.rfind("...}"); dots != std::string::npos)
        text.erase(dots, 3);
    return text;
}

void allow(std::string& list, Method method) {
    const auto name = to_string(method);
    if (list.find(name) != std::string::npos)
        return;
    list.append(list.empty() ? "" : ", ").append(name);
    if (method == Method::get)
        list += ", HEAD";
}

}  // namespace

std::optional<PathParameter> path_parameter(std::string_view segment) noexcept {
    constexpr std::string_view k_dots = "...";
    if (segment.size() <= 2 || segment.front() != '{' || segment.back() != '}')
        return std::nullopt;
    auto name = segment.substr(1, segment.size() - 2);
    const bool spans = name.size() > k_dots.size() && name.ends_with(k_dots);
    if (spans)
        name.remove_suffix(k_dots.size());
    return PathParameter{name, spans};
}

Router::Router(std::vector<Route> routes) : routes_(std::move(routes)) {
    for (std::size_t i = 0; i < routes_.size(); ++i) {
        const Route& route = routes_[i];
        if (route.pattern.empty() || route.pattern.front() != '/' || !route.handler)
            throw std::logic_error("route without a pattern or a handler: " + std::string(route.name));
        for (std::size_t j = 0; j < i; ++j) {
            const bool same =
                plain(routes_[j].pattern) == plain(route.pattern) && routes_[j].method == route.method;
            if (same || routes_[j].name == route.name)
                throw std::logic_error("route given twice: " + std::string(route.name));
        }
        Pattern pattern{segments_of(route.pattern), i};
        for (const auto segment : pattern.segments) {
            if (pattern.spans)
                throw std::logic_error("only the last parameter spans segments: " + std::string(route.name));
            const auto parameter = path_parameter(segment);
            pattern.spans = parameter && parameter->spans;
        }
        patterns_.push_back(std::move(pattern));
    }
    std::stable_sort(patterns_.begin(), patterns_.end(), [](const Pattern& a, const Pattern& b) {
        if (a.spans != b.spans)
            return b.spans;
        return a.spans && a.segments.size() > b.segments.size();
    });
}

bool Router::fits(const Pattern& pattern, const std::vector<std::string_view>& path) noexcept {
    const auto& segments = pattern.segments;
    const std::size_t fixed = segments.size() - (pattern.spans ? 1 : 0);
    if (pattern.spans ? path.size() < fixed : path.size() != fixed)
        return false;
    return std::equal(
        segments.begin(), segments.begin() + static_cast<std::ptrdiff_t>(fixed), path.begin(),
        [](std::string_view p, std::string_view s) { return path_parameter(p) ? !s.empty() : p == s; });
}

Router::Match Router::match(Method method, std::string_view path) const {
    const Method wanted = method == Method::head ? Method::get : method;
    const auto segments = segments_of(path);
    Match result;
    for (const auto& pattern : patterns_) {
        if (!fits(pattern, segments))
            continue;
        const Route& route = routes_[pattern.route];
        if (route.method != wanted) {
            allow(result.allow, route.method);
            continue;
        }
        result.route = &route;
        for (std::size_t i = 0; i < pattern.segments.size(); ++i) {
            const auto parameter = path_parameter(pattern.segments[i]);
            if (!parameter)
                continue;
            // Nothing is left of a path that ends before a parameter that spans segments.
            const bool is_left = i < segments.size();
            auto text = is_left ? segments[i] : std::string_view();
            if (parameter->spans && is_left)
                text = path.substr(static_cast<std::size_t>(text.data() - path.data()));
            auto value = percent_decoded(text);
            const bool sound =
                value && (parameter->spans ? value->find('\0') == std::string::npos : base::is_utf8(*value));
            if (!sound) {
                result.malformed = true;
                return result;
            }
            result.params.emplace_back(parameter->name, std::move(*value));
        }
        return result;
    }
    return result;
}

}  // namespace atl::http
