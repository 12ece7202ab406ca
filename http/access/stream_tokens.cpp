#include "http/access/stream_tokens.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/base/ids.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::size_t k_min_signing_key_bytes = 32;
constexpr std::size_t k_signature_digits = 64;

constexpr std::array k_token_scopes{Scope::read, Scope::chat, Scope::files, Scope::terminal, Scope::preview};

constexpr std::string_view k_version = "v1.";
constexpr std::size_t k_max_claims_bytes = 128;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_signature_digit(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/// The claims of what begins like a token, up to its last dot; empty if it has not a token's form. No id,
/// scope or signature has a "v1." in it, so texts of this form do not overlap.
std::string_view claims_in(std::string_view text) {
    text = text.substr(0, k_max_claims_bytes + 1 + k_signature_digits);
    const auto scope_begin = k_version.size() + base::k_id_length + 1;
    if (text.size() < scope_begin || text[scope_begin - 1] != '.' ||
        !base::is_id(text.substr(k_version.size(), base::k_id_length)))
        return {};
    auto at = text.find('.', scope_begin);
    if (at == std::string_view::npos || at > k_max_claims_bytes)
        return {};
    const auto scope = text.substr(scope_begin, at - scope_begin);
    if (std::ranges::find(k_token_scopes, scope, scope_name) == k_token_scopes.end())
        return {};
    const auto expiry_begin = at + 1;
    for (at = expiry_begin; at < text.size() && is_digit(text[at]) && at <= k_max_claims_bytes;)
        ++at;
    const bool fits = at > expiry_begin && text.size() - at > k_signature_digits && text[at] == '.' &&
                      std::ranges::all_of(text.substr(at + 1, k_signature_digits), is_signature_digit);
    return fits ? text.substr(0, at) : std::string_view();
}

/// The signed text. It contains the version, so that a token of a later form never passes as this form.
std::string claims_of(std::string_view id, Scope scope, std::int64_t expiry) {
    std::string claims(k_version);
    claims.append(id).append(".").append(scope_name(scope)).append(".");
    return claims + std::to_string(expiry);
}

}  // namespace

std::string_view scope_name(Scope scope) noexcept {
    switch (scope) {
        case Scope::full:
            break;
        case Scope::chat:
            return "chat";
        case Scope::read:
            return "read";
        case Scope::files:
            return "files";
        case Scope::terminal:
            return "terminal";
        case Scope::preview:
            return "preview";
    }
    return "";
}

std::optional<Scope> scope_in(std::string_view token) noexcept {
    // Behind the version and the id, neither of which has a dot.
    for (int field = 0; field < 2; ++field) {
        const auto dot = token.find('.');
        if (dot == std::string_view::npos)
            return std::nullopt;
        token.remove_prefix(dot + 1);
    }
    const auto name = token.substr(0, token.find('.'));
    for (const Scope scope : k_token_scopes)
        if (name == scope_name(scope))
            return scope;
    return std::nullopt;
}

StreamTokens::StreamTokens(std::string signing_key, const base::Clock& clock)
    : signing_key_(std::move(signing_key)), clock_(clock) {
    if (signing_key_.size() < k_min_signing_key_bytes)
        throw std::invalid_argument("the key that signs tokens is too short");
}

std::string StreamTokens::signature_of(std::string_view claims) const {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned int size = 0;
    if (::HMAC(EVP_sha256(), signing_key_.data(), static_cast<int>(signing_key_.size()),
               reinterpret_cast<const unsigned char*>(claims.data()), claims.size(), raw.data(),
               &size) == nullptr)
        throw std::runtime_error("HMAC-SHA256 is not available in this OpenSSL");
    constexpr std::string_view k_digits = "0123456789abcdef";
    std::string out;
    for (unsigned int at = 0; at < size; ++at) {
        out += k_digits[raw[at] >> 4U];
        out += k_digits[raw[at] & 15U];
    }
    return out;
}

bool StreamTokens::is_signed(std::string_view claims, std::string_view signature) const {
    const std::string expected = signature_of(claims);
    // CRYPTO_memcmp(3) takes the same time wherever bytes differ.
    return signature.size() == expected.size() &&
           CRYPTO_memcmp(expected.data(), signature.data(), expected.size()) == 0;
}

// A signature is computed only for what has the form of a token.
bool StreamTokens::is_in(std::string_view text, std::size_t& tries) const {
    for (auto at = text.find(k_version); at != std::string_view::npos; at = text.find(k_version, at + 1)) {
        const std::string_view rest = text.substr(at);
        const std::string_view claims = claims_in(rest);
        if (claims.empty())
            continue;
        if (tries == 0 || is_signed(claims, rest.substr(claims.size() + 1, k_signature_digits)))
            return true;
        --tries;
    }
    return false;
}

StreamTokens::Issued StreamTokens::issue(std::string_view id, Scope scope, std::chrono::seconds ttl) const {
    const auto expires_at = std::chrono::floor<std::chrono::seconds>(clock_.wall_now()) + ttl;
    const std::string claims = claims_of(id, scope, expires_at.time_since_epoch().count());
    return {claims + '.' + signature_of(claims), expires_at};
}

base::Result<Principal> StreamTokens::verify(std::string_view token, std::string_view id) const {
    if (!token.starts_with(k_version))
        return Error(Errc::invalid_token,
                     "This is no token: one begins with `v1.`. A key belongs in `Authorization: Bearer KEY`, "
                     "never in an address.");
    const auto dot = token.rfind('.');
    if (dot == std::string_view::npos || token.size() - dot - 1 != k_signature_digits)
        return Error(Errc::invalid_token);
    const auto claims = token.substr(0, dot);
    const std::string_view signature = token.substr(dot + 1);
    // Nothing of the claims is believed before this.
    if (!is_signed(claims, signature))
        return Error(Errc::invalid_token);
    const auto expiry = parse_decimal(claims.substr(claims.rfind('.') + 1));
    if (!expiry)
        return Error(Errc::invalid_token);
    const auto seconds = static_cast<std::int64_t>(*expiry);
    for (const Scope scope : k_token_scopes) {
        if (claims != claims_of(id, scope, seconds))
            continue;
        const auto left = base::WallTime(std::chrono::seconds(seconds)) - clock_.wall_now();
        if (left <= base::Millis::zero())
            return Error(Errc::token_expired);
        Principal principal;
        principal.label = "stream-token";
        (is_of_sandbox(scope) ? principal.sandbox_id : principal.conversation_id) = id;
        principal.scope = scope;
        principal.limit_key = signature;
        principal.expires_at = clock_.steady_now() + left;
        return principal;
    }
    return Error(Errc::token_mismatch);
}

}  // namespace atl::http
