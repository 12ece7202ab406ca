#include "http/websocket/handshake.hpp"

#include <openssl/evp.h>

#include <array>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::string_view k_guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr std::string_view k_version = "13";
constexpr std::size_t k_key_chars = 24;  // base64 of 16 bytes
constexpr std::size_t k_key_padding = 2;

bool names(std::string_view list, std::string_view wanted) {
    while (!list.empty()) {
        if (iequals(take_element(list, ','), wanted))
            return true;
    }
    return false;
}

bool is_key(std::string_view text) {
    if (text.size() != k_key_chars || !text.ends_with("=="))
        return false;
    std::array<unsigned char, k_key_chars> bytes;
    const auto* data = reinterpret_cast<const unsigned char*>(text.data());
    return text.substr(0, text.size() - k_key_padding).find('=') == std::string_view::npos &&
           EVP_DecodeBlock(bytes.data(), data, static_cast<int>(text.size())) > 0;
}

// RFC 6455 section 4.2.2, step 5.
std::string accept_of(std::string_view key) {
    const std::string text = std::string(key).append(k_guid);
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1)
        throw std::runtime_error("this OpenSSL has no SHA-1, which WebSockets need");
    std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> encoded;
    const int length = EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(size));
    return {reinterpret_cast<const char*>(encoded.data()), static_cast<std::size_t>(length)};
}

}  // namespace

base::Result<void> check_handshake(const Request& request) {
    const bool asks = names(request.header("Upgrade"), "websocket") && request.method == Method::get;
    if (!asks || request.header("Sec-WebSocket-Version") != k_version)
        return Error(
            Errc::upgrade_required,
            "Open a WebSocket here: a GET with `Upgrade: websocket` and `Sec-WebSocket-Version: 13`.");
    if (request.version < 11 || !names(request.header("Connection"), "upgrade"))
        return Error(Errc::invalid_request, "A WebSocket needs HTTP/1.1 and `Connection: Upgrade`.");
    if (!is_key(request.header("Sec-WebSocket-Key")))
        return Error(Errc::invalid_request, "Sec-WebSocket-Key must be 16 bytes in base64.");
    if (!request.body.empty())
        return Error(Errc::invalid_request, "A request that opens a WebSocket has no body.");
    return {};
}

Response accept_handshake(const Request& request, std::unique_ptr<Takeover> takeover) {
    Response response;
    response.status = 101;
    response.content_type = {};
    response.headers.emplace_back("Connection", "Upgrade");
    response.headers.emplace_back("Upgrade", "websocket");
    response.headers.emplace_back("Sec-WebSocket-Accept", accept_of(request.header("Sec-WebSocket-Key")));
    response.takeover = std::move(takeover);
    return response;
}

}  // namespace atl::http
