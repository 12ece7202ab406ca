#include "http/access/access.hpp"

#include <arpa/inet.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/base/base64.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "http/access/ip_address.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

enum class Literal : std::uint8_t { none, loopback, other };

Literal ip_literal(std::string_view host) {
    in_addr v4{};
    if (::inet_pton(AF_INET, std::string(host).c_str(), &v4) == 1)
        return (ntohl(v4.s_addr) >> 24U) == 127 ? Literal::loopback : Literal::other;
    if (host.size() < 2 || host.front() != '[' || host.back() != ']')
        return Literal::none;
    in6_addr v6{};
    if (::inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), &v6) != 1)
        return Literal::none;
    return IN6_IS_ADDR_LOOPBACK(&v6) ? Literal::loopback : Literal::other;
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
    return std::any_of(list.begin(), list.end(),
                       [&](const std::string& entry) { return iequals(entry, text); });
}

// Adds a byte to the hash of a piece of text, of which the first one can be taken away again (Rabin and
// Karp).
constexpr std::uint64_t k_hash_base = 0x9e3779b97f4a7c15;
std::uint64_t with_byte(std::uint64_t hash, char byte) {
    return hash * k_hash_base + static_cast<unsigned char>(byte);
}

// Keys of a store and tokens are longer.
constexpr std::size_t k_least_secret_bytes = 32;

std::size_t least_base64_digits(std::size_t bytes) {
    return (bytes * 8 + 5) / 6;
}

// Both alphabets (RFC 4648 sections 4 and 5); -1 for any other byte.
constexpr auto k_base64_values = [] {
    std::array<std::int8_t, 256> values{};
    values.fill(-1);
    for (std::size_t i = 0; i < base::k_base64_digits.size(); ++i)
        values[static_cast<unsigned char>(base::k_base64_digits[i])] = static_cast<std::int8_t>(i);
    values['-'] = values['+'];
    values['_'] = values['/'];
    return values;
}();

bool is_base64_digit(char digit) {
    return k_base64_values[static_cast<unsigned char>(digit)] >= 0;
}

// All of `digits` are base64 digits. The bits of an incomplete byte at the end are dropped.
std::string decoded_digits(std::string_view digits) {
    std::string out;
    out.reserve(digits.size() * 3 / 4);
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (const char digit : digits) {
        bits = bits << 6U | static_cast<std::uint32_t>(k_base64_values[static_cast<unsigned char>(digit)]);
        count += 6;
        if (count >= 8) {
            count -= 8;
            out += static_cast<char>(bits >> count & 255U);
        }
    }
    return out;
}

Principal holder_of_the_key() {
    Principal principal;
    principal.label = "api-key";
    return principal;
}

}  // namespace

bool is_localhost(std::string_view host) noexcept {
    constexpr std::string_view k_name = "localhost";
    constexpr std::string_view k_below = ".localhost";  // RFC 6761 section 6.3
    return iequals(host, k_name) ||
           (host.size() > k_below.size() && iequals(host.substr(host.size() - k_below.size()), k_below));
}

KeyAuthenticator::KeyAuthenticator(std::string key, KeyStore* more, const TokenVerifier* tokens)
    : key_(std::move(key)), more_(more), tokens_(tokens) {
    if (key_.empty())
        throw std::invalid_argument("the API key is empty");
    for (const char byte : key_)
        key_hash_ = with_byte(key_hash_, byte);
    for (std::size_t i = 1; i < key_.size(); ++i)
        first_weight_ *= k_hash_base;
}

base::Result<Principal> KeyAuthenticator::authenticate(const Request& request) const {
    const auto given = credential(request);
    // The length of the key is no secret; CRYPTO_memcmp(3) takes the same time wherever the bytes differ.
    if (given.size() == key_.size() && CRYPTO_memcmp(given.data(), key_.data(), key_.size()) == 0)
        return holder_of_the_key();
    if (more_ != nullptr && !given.empty()) {
        if (auto found = more_->find(given))
            return std::move(*found);
    }
    if (!given.empty())
        return Error(Errc::invalid_key);
    return Error(request.header("Authorization").empty() ? Errc::unauthorized : Errc::invalid_authorization);
}

base::Result<Principal> KeyAuthenticator::authenticate_token(std::string_view token,
                                                             std::string_view id) const {
    if (tokens_ == nullptr)
        return Error(Errc::invalid_token);
    return tokens_->verify(token, id);
}

// An address may be decoded by each of the servers that read it one after another.
bool KeyAuthenticator::holds_secret(std::string_view text) const {
    constexpr int k_decodings = 2;
    std::size_t tries = base::k_max_token_tries;
    std::string decoded;
    for (int done = 0;; ++done) {
        if (has_plain(text, tries) || has_base64(text, tries))
            return true;
        if (done == k_decodings || text.find('%') == std::string_view::npos)
            return false;
        decoded = loosely_percent_decoded(text);
        text = decoded;
    }
}

// Where a run of digits begins is not where the encoding began: each of the four offsets is tried.
bool KeyAuthenticator::has_base64(std::string_view text, std::size_t& tries) const {
    const std::size_t least_digits = least_base64_digits(std::min(key_.size(), k_least_secret_bytes));
    while (!text.empty()) {
        const auto end = std::ranges::find_if_not(text, is_base64_digit);
        const std::string_view run = text.substr(0, static_cast<std::size_t>(end - text.begin()));
        for (std::size_t offset = 0; offset < 4 && run.size() >= least_digits + offset; ++offset) {
            if (has_plain(decoded_digits(run.substr(offset)), tries))
                return true;
        }
        text.remove_prefix(std::min(run.size() + 1, text.size()));
    }
    return false;
}

// Compared are hashes of all pieces that are as long as the key: the time tells nothing of how much of it a
// text has.
bool KeyAuthenticator::has_plain(std::string_view text, std::size_t& tries) const {
    const std::size_t size = key_.size();
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (i >= size)
            hash -= first_weight_ * static_cast<unsigned char>(text[i - size]);
        hash = with_byte(hash, text[i]);
        if (hash == key_hash_ && i + 1 >= size &&
            CRYPTO_memcmp(text.data() + i + 1 - size, key_.data(), size) == 0)
            return true;
    }
    return (more_ != nullptr && more_->is_in(text)) || (tokens_ != nullptr && tokens_->is_in(text, tries));
}

std::string_view credential(const Request& request) noexcept {
    constexpr std::string_view k_scheme = "Bearer ";
    const auto authorization = request.header("Authorization");
    if (authorization.size() > k_scheme.size() && iequals(authorization.substr(0, k_scheme.size()), k_scheme))
        return trimmed(authorization.substr(k_scheme.size()));
    return request.header("X-API-Key");
}

std::string comparable_host(std::string_view host) {
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        const auto address = parse_address(host.substr(1, host.size() - 2));
        if (address)
            return address->is_v6() ? '[' + address->to_string() + ']' : address->to_string();
    }
    return std::string(host);
}

base::Result<void> check_host(std::string_view authority, ListenerScope reach,
                              const std::vector<std::string>& allowed) {
    if (reach == ListenerScope::unix_socket || (reach == ListenerScope::network && allowed.empty()))
        return {};
    const auto host = host_without_port(authority);
    const bool absent = authority.empty();  // HTTP/1.0; a browser always sends it
    if (absent || (host && (contains(allowed, *host) || contains(allowed, comparable_host(*host)))))
        return {};
    if (host) {
        const Literal literal = ip_literal(*host);
        if (literal == Literal::loopback || (literal == Literal::other && reach == ListenerScope::network))
            return {};
        if (is_localhost(*host))
            return {};
    }
    return Error(Errc::host_not_allowed,
                 "The Host `" + base::escaped(authority) +
                     "` is not a name of this server. The operator can allow it: start the server with "
                     "`--allowed-host " +
                     (host ? base::escaped(*host) : "NAME") + "` or ATOLL_ALLOWED_HOSTS.");
}

bool is_web_origin(std::string_view origin) noexcept {
    const auto scheme_end = std::min(origin.find("://"), origin.size());
    const auto scheme = origin.substr(0, scheme_end);
    if (!iequals(scheme, "http") && !iequals(scheme, "https"))
        return false;
    const auto authority = origin.substr(std::min(scheme_end + 3, origin.size()));
    const auto host = host_without_port(authority);
    const bool plain =
        std::all_of(authority.begin(), authority.end(), [](char c) { return c > ' ' && c < 0x7f; });
    return plain && host && !host->empty() && authority.back() != ':' &&
           authority.find_first_of("/?#*@,\\") == std::string_view::npos;
}

bool is_allowed_origin(std::string_view origin, const std::vector<std::string>& allowed) {
    return !origin.empty() && contains(allowed, origin);
}

Site site_of(const Request& request, const Client& client) noexcept {
    return {client.scheme, client.host.empty() ? request.authority : client.host};
}

base::Result<void> check_origin(const Request& request, const Site& own,
                                const std::vector<std::string>& allowed) {
    const auto origin = request.header("Origin");
    if (origin.empty() && !request.has_header("Origin"))
        return {};
    const bool is_web = is_web_origin(origin);
    if (is_web && contains(allowed, origin))
        return {};
    const auto scheme_end = origin.find("://");
    if (is_web && scheme_end != std::string_view::npos && !own.authority.empty() &&
        iequals(origin.substr(scheme_end + 3), own.authority) &&
        (own.scheme.empty() || iequals(origin.substr(0, scheme_end), own.scheme)))
        return {};
    return Error(
        Errc::origin_not_allowed,
        "Pages of `" + base::escaped(origin) + "` may not ask here. " +
            (is_web ? "The operator can allow them: start the server with `--allowed-origin " +
                          base::escaped(origin) + "` or ATOLL_ALLOWED_ORIGINS."
                    : "`--allowed-origin` allows origins as https://app.example only, not this one."));
}

}  // namespace atl::http
