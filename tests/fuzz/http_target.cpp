// Paths and queries: the router finds the same route as a plain comparison of segments, and percent-encoding
// is decoded once and exactly.
#include <algorithm>

#include "core/plain/utf8.hpp"
#include "http/server/context.hpp"
#include "http/server/router.hpp"
#include "http/wire/text.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

const http::Router& router() {
    static const http::Router made = [] {
        const http::Handler none = [](http::RequestContext&) -> base::Task<base::Result<http::Response>> {
            std::abort();
        };
        std::vector<http::Route> routes;
        routes.push_back({http::Method::get, "/", "root", "", none});
        routes.push_back({http::Method::get, "/v1/things", "things", "", none});
        routes.push_back({http::Method::post, "/v1/things", "make", "", none});
        routes.push_back({http::Method::get, "/v1/things/{id}", "thing", "", none});
        routes.push_back({http::Method::delete_, "/v1/things/{id}", "remove", "", none});
        routes.push_back({http::Method::get, "/v1/things/{id}/parts/{part}", "part", "", none});
        routes.push_back({http::Method::get, "/v1/things/{id}/files/{path...}", "file", "", none});
        return http::Router(std::move(routes));
    }();
    return made;
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts(1);
    for (const char c : text)
        if (c == separator)
            parts.emplace_back();
        else
            parts.back().push_back(c);
    return parts;
}

std::string encoded(std::string_view text) {
    static constexpr char k_hex[] = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        out.append("%").push_back(k_hex[byte >> 4U]);
        out.push_back(k_hex[byte & 15U]);
    }
    return out;
}

bool fits(std::string_view pattern, std::string_view path) {
    auto want = split(pattern, '/');
    auto have = split(path, '/');
    if (pattern.ends_with("...}")) {
        if (have.size() < want.size())
            return false;
        want.pop_back();
        have.resize(want.size());
    }
    return want.size() == have.size() &&
           std::equal(want.begin(), want.end(), have.begin(),
                      [](const auto& w, const auto& h) { return w.starts_with('{') ? !h.empty() : w == h; });
}

void check_route(http::Method method, std::string_view path) {
    const auto match = router().match(method, path);
    const auto wanted = method == http::Method::head ? http::Method::get : method;
    const http::Route* expected = nullptr;
    bool other_methods = false;
    for (const auto& route : router().routes())
        if (fits(route.pattern, path)) {
            other_methods |= route.method != wanted;
            if (route.method == wanted && expected == nullptr)
                expected = &route;
        }
    require(match.route == expected, "the route is the one that fits");
    require(expected != nullptr || match.allow.empty() == !other_methods, "other methods are told");
    if (expected == nullptr || match.malformed)
        return;
    std::string built;
    auto param = match.params.begin();
    for (const auto& segment : split(std::string_view(match.route->pattern).substr(1), '/')) {
        const bool given = segment.starts_with('{');
        built += '/' + (given ? encoded((param++)->second) : segment);
    }
    const auto again = router().match(method, built);
    require(again.route == match.route && again.params == match.params, "parameters survive a new encoding");
    for (const auto& [name, value] : match.params)
        require(name == "path" ? value.find('\0') == std::string::npos : base::is_utf8(value),
                "a parameter is UTF-8, and the rest of a path holds no NUL");
}

void check_query(std::string_view query) {
    const auto items = http::parse_query(query);
    if (!items)
        return;
    std::string built;
    for (const auto& [name, value] : *items) {
        require(base::is_utf8(name), "names of a query are UTF-8");
        built += (built.empty() ? "" : "&") + encoded(name) + '=' + encoded(value);
    }
    const auto again = http::parse_query(built);
    require(again == items, "a query survives a new encoding");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto method = static_cast<http::Method>(input.byte() % 8U);
    const auto text = input.rest();
    const auto mark = std::min(text.find('?'), text.size());
    check_route(method, "/" + std::string(text.substr(0, mark)));
    check_query(text.substr(std::min(mark + 1, text.size())));
    require(http::percent_decoded(encoded(text)) == text, "encoding is undone exactly");
    const auto decoded = http::percent_decoded(text);
    require(!decoded || decoded->size() <= text.size(), "decoding never grows");
    return 0;
}
