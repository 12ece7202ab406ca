#include "http/proxy/heads.hpp"

#include <fmt/format.h>
#include <string.h>  // NOLINT: explicit_bzero() is not in <cstring>

#include <algorithm>
#include <array>

#include "core/base/base64.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

// Fields of one connection (RFC 9110 section 7.6.1), and of the framing, which the proxy makes itself.
constexpr std::array<std::string_view, 11> k_hop_fields{
    "Connection", "Keep-Alive", "Proxy-Connection",   "Transfer-Encoding",   "Content-Length",
    "Upgrade",    "TE",         "Proxy-Authenticate", "Proxy-Authorization", "HTTP2-Settings",
    "Trailer"};

// Said by this proxy alone: what a client says of them would be believed.
constexpr std::array<std::string_view, 6> k_forwarded_fields{
    "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Real-IP", "Forwarded"};

// Other addresses of the same server, which are of no use behind a preview's address.
constexpr std::string_view k_alternative_services = "Alt-Svc";
// The key of the API, which has no business inside.
constexpr std::string_view k_api_key_field = "X-API-Key";

// They say who asks: towards the upstream of a route that is the route's alone.
constexpr std::array<std::string_view, 4> k_credential_fields{"Authorization", "Cookie", k_api_key_field,
                                                              "X-Goog-Api-Key"};

// To some servers they count before the method and the path of the request line, which a route has looked at.
constexpr std::array<std::string_view, 5> k_override_fields{
    "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL"};

// Trailers that would change what was already acted upon (RFC 9110 section 6.5.1).
constexpr std::array<std::string_view, 12> k_never_trailers{
    "Host",         "Cache-Control", "Expect",           "Range",    "Authorization",           "Set-Cookie",
    "Content-Type", "Content-Range", "Content-Encoding", "Location", "Content-Security-Policy", "Cookie"};

// They ask for no more than what changed, or is missing, of what a browser has.
constexpr std::array<std::string_view, 4> k_cache_fields{"If-None-Match", "If-Modified-Since", "If-Range",
                                                         "Range"};

constexpr std::array<std::string_view, 5> k_loopback_names{"localhost", "127.0.0.1", "[::1]", "0.0.0.0",
                                                           "[::]"};

// Room that a head is given at once.
constexpr std::size_t k_usual_head_bytes = 1000;

// The same to a dev server by the rules of CGI, in which a field's name becomes that of a variable (RFC 3875
// section 4.1.18): "-" and "_" are one there.
bool is_like(std::string_view name, std::string_view own) {
    return std::ranges::equal(name, own, [](char a, char b) {
        const auto folded = [](char c) {
            return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        };
        return folded(a) == folded(b);
    });
}

template <class Names>
bool is_one_of(std::string_view name, const Names& names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view each) { return is_like(name, each); });
}

bool is_said_here(std::string_view name) {
    return is_like(name, k_api_key_field) || is_one_of(name, k_forwarded_fields);
}

bool iless(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return std::ranges::lexicographical_compare(a, b, {}, lower, lower);
}

// Sorted: a hostile head has thousands of fields, and names thousands.
bool stays_here(std::string_view name, const HopFields& hop) {
    return is_one_of(name, k_hop_fields) || std::ranges::binary_search(hop.named, name, iless);
}

void add(std::string& out, std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
}

// True if `text` began with `prefix`, which is then gone.
bool take(std::string_view& text, std::string_view prefix) {
    if (text.size() < prefix.size() || !iequals(text.substr(0, prefix.size()), prefix))
        return false;
    text.remove_prefix(prefix.size());
    return true;
}

std::string public_origin(const ProxiedHost& host) {
    return fmt::format("{}://{}", host.public_scheme, host.public_host);
}

// Origin and Referer keep their relation to Host: the preview's own become the dev server's own, others stay.
std::string upstream_address(std::string_view value, const ProxiedHost& host) {
    std::string_view rest = value;
    const bool is_own = take(rest, public_origin(host)) && (rest.empty() || rest.front() == '/');
    return is_own ? fmt::format("http://localhost:{}{}", host.port, rest) : std::string(value);
}

bool holds_secret(std::string_view text, const ProxiedHost& host) {
    return host.holds_secret && host.holds_secret(text);
}

// Also as a user's name or password (RFC 7617 section 2).
bool is_hidden_authorization(std::string_view value, const ProxiedHost& host) {
    if (host.hides_authorization || holds_secret(value, host))
        return true;
    const auto pair = take(value, "Basic ") ? base::decode_base64(trimmed(value)) : std::nullopt;
    return pair && holds_secret(*pair, host);
}

// The value of Cookie without those of this server.
std::string guest_cookies(std::string_view value, const ProxiedHost& host) {
    std::string kept;
    while (!value.empty()) {
        const std::string_view pair = take_element(value, ';');
        if (pair.empty() || sets_cookie(pair, host.hidden_cookies) || holds_secret(pair, host))
            continue;
        if (!kept.empty())
            kept += "; ";
        kept += pair;
    }
    return kept;
}

// Without what would clear cookies: they go for all names below a registrable domain, those of other previews
// too (W3C Clear Site Data, section 3.1).
void add_clear_site_data(std::string& out, std::string_view value) {
    std::string kept;
    while (!value.empty()) {
        const std::string_view type = take_element(value, ',');
        if (iequals(type, "\"cache\"") || iequals(type, "\"storage\""))
            kept.append(kept.empty() ? "" : ", ").append(type);
    }
    if (!kept.empty())
        add(out, "Clear-Site-Data", kept);
}

void add_framing(std::string& out, BodyForm body) {
    if (body.is_chunked)
        add(out, "Transfer-Encoding", "chunked");
    else if (body.length)
        add(out, "Content-Length", std::to_string(*body.length));
}

// To the end of Host.
void begin_request(std::string& out, const Request& request, std::string_view path, std::string_view host) {
    out.reserve(k_usual_head_bytes);
    out.append(request.method_text).append(" ").append(path);
    if (request.has_query)
        out.append("?").append(request.query);
    out.append(" HTTP/1.1\r\nHost: ").append(host).append("\r\n");
}

void add_upgrade(std::string& out, std::string_view protocol) {
    add(out, "Connection", "Upgrade");
    add(out, "Upgrade", protocol);
}

// Without the empty line.
void end_request(std::string& out, const Request& request, BodyForm body) {
    add_framing(out, body);
    if (const std::string_view upgrade = wanted_upgrade(request); !upgrade.empty())
        add_upgrade(out, upgrade);
}

void begin_answer(std::string& out, const ResponseParser& response) {
    out.reserve(out.size() + k_usual_head_bytes);
    out.append("HTTP/1.1 ").append(std::to_string(response.status())).append(" ");
    out.append(response.reason()).append("\r\n");
}

// From the framing on.
void end_answer(std::string& out, const ResponseParser& response, const HopFields& hop, BodyForm body,
                ClientForm client) {
    add_framing(out, body);
    const bool is_interim = response.status() < 200;
    if (client.clears_site_data)
        add(out, k_clear_field, k_clear_all);
    if (response.status() == 101)
        add_upgrade(out, hop.upgrade);
    else if (!is_interim && !client.keep_alive)
        add(out, "Connection", "close");
    else if (!is_interim && client.version < 11)
        add(out, "Connection", "keep-alive");
    out += "\r\n";
}

}  // namespace

namespace {

// Calls `call` for each element of the lists in the fields of this name.
template <class Call>
void for_each_element(const std::vector<HeaderField>& fields, std::string_view name, Call call) {
    for (const HeaderField& field : fields) {
        if (!iequals(field.name, name))
            continue;
        for (std::string_view list = field.value; !list.empty();)
            call(take_element(list, ','));
    }
}

std::string_view upgrade_of(const std::vector<HeaderField>& fields) {
    bool is_named = false;
    for_each_element(fields, "Connection",
                     [&](std::string_view name) { is_named = is_named || iequals(name, "upgrade"); });
    std::string_view upgrade;
    for_each_element(fields, "Upgrade", [&](std::string_view protocol) {
        if (is_named && upgrade.empty() && !iequals(protocol, "h2c"))
            upgrade = protocol;
    });
    return upgrade;
}

}  // namespace

HopFields hop_fields(const std::vector<HeaderField>& fields) {
    HopFields hop;
    for_each_element(fields, "Connection", [&](std::string_view name) {
        if (!name.empty())
            hop.named.push_back(name);
    });
    std::ranges::sort(hop.named, iless);
    hop.upgrade = upgrade_of(fields);
    return hop;
}

std::string_view wanted_upgrade(const Request& request) {
    return request.version >= 11 ? upgrade_of(request.fields) : std::string_view();
}

void write_upstream_head(std::string& out, const Request& request, const ProxiedHost& host, BodyForm body) {
    const HopFields hop = hop_fields(request.fields);
    const bool wants_all = host.clears_site_data && host.clears_site_data();
    begin_request(out, request, request.path, "localhost:" + std::to_string(host.port));
    bool tells_public_host = true;
    for (const auto& [name, value] : request.fields) {
        if (stays_here(name, hop) || iequals(name, "Host") || is_said_here(name) ||
            (wants_all && is_one_of(name, k_cache_fields)))
            continue;
        if (iequals(name, "Cookie")) {
            if (const std::string cookies = guest_cookies(value, host); !cookies.empty())
                add(out, name, cookies);
        } else if (iequals(name, "Authorization")) {
            if (!is_hidden_authorization(value, host))
                add(out, name, value);
        } else if (holds_secret(value, host) || holds_secret(name, host)) {
            continue;
        } else if (iequals(name, "Origin") || iequals(name, "Referer")) {
            const std::string address = upstream_address(value, host);
            if (iequals(name, "Origin") && address != value)
                tells_public_host = false;
            add(out, name, address);
        } else {
            add(out, name, value);
        }
    }
    add(out, "X-Forwarded-For", host.client_address);
    // In each request, although such an origin has another scheme: what a dev server does by it, such as
    // names of cookies, must not differ between a page and its forms. And https in Origin would contradict
    // Host for those that do not know this field.
    add(out, "X-Forwarded-Proto", host.public_scheme);
    // Checks against forged requests compare Origin with this field, and with Host where it is missing: an
    // origin that is told as localhost agrees with Host alone.
    if (tells_public_host)
        add(out, "X-Forwarded-Host", host.public_host);
    add_framing(out, body);
    if (const std::string_view upgrade = wanted_upgrade(request);
        !upgrade.empty() && !holds_secret(upgrade, host))
        add_upgrade(out, upgrade);
    out += "\r\n";
}

void write_client_head(std::string& out, const ResponseParser& response, const ProxiedHost& host,
                       BodyForm body, ClientForm client) {
    const HopFields hop = hop_fields(response.fields());
    begin_answer(out, response);
    for (const auto& [name, value] : response.fields()) {
        if (stays_here(name, hop) || iequals(name, k_alternative_services))
            continue;
        if (iequals(name, "Location") || iequals(name, "Access-Control-Allow-Origin")) {
            add(out, name, public_location(value, host));
        } else if (iequals(name, "Set-Cookie")) {
            if (!sets_cookie(value, host.hidden_cookies))
                add(out, name, without_domain(value));
        } else if (iequals(name, "Clear-Site-Data")) {
            add_clear_site_data(out, value);
        } else {
            add(out, name, value);
        }
    }
    end_answer(out, response, hop, body, client);
}

base::Error PreviewHeads::unreachable() const {
    return {base::Errc::no_listener,
            "Nothing listens on port " + std::to_string(host_.port) + " of the sandbox."};
}

void ForwardHeads::write_request(std::string& out, const Request& request, BodyForm body) const {
    const HopFields hop = hop_fields(request.fields);
    begin_request(out, request, request.path, authority_);
    for (const auto& [name, value] : request.fields) {
        if (!stays_here(name, hop) && !iequals(name, "Host"))
            add(out, name, value);
    }
    end_request(out, request, body);
    out += "\r\n";
}

void ForwardHeads::write_answer(std::string& out, const ResponseParser& response, BodyForm body,
                                ClientForm client) const {
    const HopFields hop = hop_fields(response.fields());
    begin_answer(out, response);
    for (const auto& [name, value] : response.fields()) {
        if (!stays_here(name, hop))
            add(out, name, value);
    }
    end_answer(out, response, hop, body, client);
}

base::Error ForwardHeads::unreachable() const {
    return {base::Errc::upstream_failed, authority_ + " takes no connection."};
}

SetFields::~SetFields() {
    wipe();
}

void SetFields::wipe() noexcept {
    ::explicit_bzero(lines_.data(), lines_.size());
    std::string().swap(lines_);
}

void SetFields::add(std::string_view name, std::string_view text, std::string_view secret) {
    names_.emplace_back(name);
    lines_.append(name).append(": ").append(text).append(secret).append("\r\n");
}

bool SetFields::has(std::string_view name) const noexcept {
    return is_one_of(name, names_);
}

void RouteHeads::write_request(std::string& out, const Request& request, BodyForm body) const {
    const HopFields hop = hop_fields(request.fields);
    begin_request(out, request, path_, authority());
    for (const auto& [name, value] : request.fields) {
        if (!stays_here(name, hop) && !iequals(name, "Host") && !is_one_of(name, k_credential_fields) &&
            !is_one_of(name, k_override_fields) && !set_.has(name))
            add(out, name, value);
    }
    end_request(out, request, body);
    // Behind all else, in room that is there: a string that grows leaves a copy of them.
    out.reserve(out.size() + set_.lines().size() + 2);
    out.append(set_.lines()).append("\r\n");
    set_.wipe();
}

void write_last_chunk(std::string& out, const std::vector<HeaderField>& fields,
                      const std::vector<HeaderField>& trailers, const ProxiedHost& host) {
    const HopFields hop = trailers.empty() ? HopFields() : hop_fields(fields);
    out += "0\r\n";
    for (const auto& [name, value] : trailers) {
        if (!stays_here(name, hop) && !is_said_here(name) && !is_one_of(name, k_never_trailers) &&
            !holds_secret(value, host) && !holds_secret(name, host))
            add(out, name, value);
    }
    out += "\r\n";
}

std::string public_location(std::string_view value, const ProxiedHost& host) {
    std::string_view rest = value;
    const bool is_plain = take(rest, "http:");
    const bool is_secure = !is_plain && take(rest, "https:");
    const std::string port = ':' + std::to_string(host.port);
    const bool is_usual = host.port == (is_secure ? 443 : 80);
    const auto is_own = [&] {
        return take(rest, "//") &&
               std::any_of(k_loopback_names.begin(), k_loopback_names.end(),
                           [&](std::string_view name) { return take(rest, name); }) &&
               (take(rest, port) || is_usual) && (rest.empty() || rest.find_first_of("/?#") == 0);
    };
    if (!is_own())
        return std::string(value);
    return fmt::format("{}//{}{}", is_plain || is_secure ? fmt::format("{}:", host.public_scheme) : "",
                       host.public_host, rest);
}

bool sets_cookie(std::string_view set_cookie, std::string_view prefix) noexcept {
    std::string_view name = trimmed(set_cookie.substr(0, set_cookie.find(';')));
    // A cookie without a name is sent as its value alone.
    if (name.starts_with('='))
        name = trimmed(name.substr(1));
    return !prefix.empty() && iequals(name.substr(0, prefix.size()), prefix);
}

std::string without_domain(std::string_view set_cookie) {
    std::string kept(trimmed(set_cookie.substr(0, set_cookie.find(';'))));
    set_cookie.remove_prefix(std::min(set_cookie.size(), set_cookie.find(';')));
    if (!set_cookie.empty())
        set_cookie.remove_prefix(1);
    while (!set_cookie.empty()) {
        const std::string_view attribute = take_element(set_cookie, ';');
        if (!iequals(trimmed(attribute.substr(0, attribute.find('='))), "Domain"))
            kept.append("; ").append(attribute);
    }
    return kept;
}

}  // namespace atl::http
