// The heads that a proxy reads and writes on the way out of a sandbox: a target names a host in one way or is
// refused, and the upstream and the program inside read what was sent, but the fields of a hop.
#include <algorithm>
#include <set>

#include "core/egress/host.hpp"
#include "http/proxy/heads.hpp"
#include "http/wire/request_parser.hpp"
#include "http/wire/response_parser.hpp"
#include "http/wire/text.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

constexpr std::size_t k_head_bytes = 4096;

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string folded(std::string_view name) {
    std::string text(name);
    for (char& c : text)
        c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
}

bool is_of_hop(std::string_view name) {
    static const std::set<std::string> names{
        "connection", "keep-alive", "proxy-connection",   "transfer-encoding",   "content-length",
        "upgrade",    "te",         "proxy-authenticate", "proxy-authorization", "http2-settings",
        "trailer"};
    return names.contains(folded(name));
}

/// The fields that pass: neither of a hop, nor named by Connection, nor `without`.
Fields passing(const std::vector<http::HeaderField>& fields, std::string_view without) {
    std::vector<std::string> named;
    for (const auto& [name, value] : fields) {
        for (std::string_view list = value; http::iequals(name, "Connection") && !list.empty();)
            named.emplace_back(http::take_element(list, ','));
    }
    Fields kept;
    for (const auto& [name, value] : fields) {
        const bool is_named =
            std::any_of(named.begin(), named.end(),
                        [&field = name](const std::string& each) { return http::iequals(each, field); });
        if (!is_of_hop(name) && !is_named && !http::iequals(name, without))
            kept.emplace_back(name, value);
    }
    return kept;
}

Fields all(const std::vector<http::HeaderField>& fields) {
    Fields texts;
    for (const auto& [name, value] : fields)
        texts.emplace_back(name, value);
    return texts;
}

void check_host(const egress::Host& host) {
    const bool is_plain = std::all_of(host.name.begin(), host.name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    });
    require(host.address || (is_plain && !host.name.ends_with('.') && host.name.size() <= 253),
            "a host is a plain name or an address");
    require(egress::parse_host(host.in_url()) && egress::parse_host(host.in_url())->name == host.name,
            "a host has one spelling");
}

void check_upstream_head(const http::RequestParser& parser, const std::string& authority) {
    const http::Request& request = parser.request();
    http::BodyForm body;
    if (parser.content_length())
        body.length = *parser.content_length();
    else
        body.is_chunked = !parser.done();
    std::string out;
    http::ForwardHeads(authority).write_request(out, request, body);
    http::RequestParser reader({out.size() + 1, 0});
    const auto used = reader.feed(out);
    require(used.has_value() && *used == out.size() && reader.head_done(),
            "what the upstream gets is a head");
    const http::Request& read = reader.request();
    require(read.method_text == request.method_text && read.path == request.path &&
                read.query == request.query && read.has_query == request.has_query,
            "it is the same request");
    require(read.authority == authority, "its host is the one that was granted");
    Fields wanted{{"Host", authority}};
    for (auto& field : passing(request.fields, "Host"))
        wanted.push_back(std::move(field));
    if (body.is_chunked)
        wanted.emplace_back("Transfer-Encoding", "chunked");
    else if (body.length)
        wanted.emplace_back("Content-Length", std::to_string(*body.length));
    if (const auto upgrade = http::wanted_upgrade(request); !upgrade.empty()) {
        wanted.emplace_back("Connection", "Upgrade");
        wanted.emplace_back("Upgrade", upgrade);
    }
    require(all(read.fields) == wanted, "its fields are those that pass");
}

void check_request(std::string_view text) {
    http::RequestParser parser({k_head_bytes, 0, http::TargetForms::of_proxy});
    const auto used = parser.feed(text);
    if (used.has_error() || !parser.head_done())
        return;
    const http::Request& request = parser.request();
    const bool is_connect = request.method_text == "CONNECT";
    if (is_connect)
        require(parser.done(), "CONNECT has no body");
    const auto endpoint = egress::parse_endpoint(request.authority, is_connect ? 0 : 80);
    if (!endpoint)
        return;
    check_host(endpoint->host);
    require(egress::parse_endpoint(endpoint->text())->text() == endpoint->text(),
            "a target has one spelling");
    if (is_connect)
        return;
    require(request.path.starts_with('/'), "a path begins with /");
    check_upstream_head(parser, endpoint->port == 80 ? endpoint->host.in_url() : endpoint->text());
}

void check_answer(std::string_view text, bool to_head, http::ClientForm client) {
    http::ResponseParser parser(k_head_bytes);
    parser.begin(to_head);
    const auto used = parser.feed_head(text);
    if (used.has_error() || !parser.head_done())
        return;
    http::BodyForm body;
    body.is_chunked =
        parser.body_end() == http::BodyEnd::chunked || parser.body_end() == http::BodyEnd::close;
    if (parser.body_end() == http::BodyEnd::length)
        body.length = parser.content_length();
    std::string out;
    http::ForwardHeads("a.example").write_answer(out, parser, body, client);
    http::ResponseParser reader(out.size() + 1);
    reader.begin(to_head);
    const auto read = reader.feed_head(out);
    require(read.has_value() && *read == out.size() && reader.head_done(), "what the program gets is a head");
    require(reader.status() == parser.status() && reader.reason() == parser.reason(), "of the same answer");
    require(!body.is_chunked || reader.body_end() == http::BodyEnd::chunked, "its body ends as is said");
    require(!body.length || reader.content_length() == body.length, "its body has the same length");
    require(passing(reader.fields(), "") == passing(parser.fields(), ""), "its fields are those that pass");
    for (const auto& [name, value] : reader.fields())
        require(!is_of_hop(name) || folded(name) == "connection" || folded(name) == "upgrade" ||
                    folded(name) == "content-length" || folded(name) == "transfer-encoding",
                "fields of a hop are the proxy's own");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::uint8_t choices = input.byte();
    if ((choices & 1U) == 0)
        check_request(input.rest());
    else
        check_answer(input.rest(), (choices & 2U) != 0,
                     {.version = (choices & 4U) != 0 ? 10U : 11U, .keep_alive = (choices & 8U) != 0});
    return 0;
}
