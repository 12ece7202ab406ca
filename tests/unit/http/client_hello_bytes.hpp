// The first bytes of a TLS client, by OpenSSL and by hand.
#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <vector>

namespace atl::test::tls_bytes {

struct Extension {
    unsigned type;
    std::string value;
};

inline int add_value(SSL*, unsigned, unsigned, const unsigned char** out, std::size_t* size, X509*,
                     std::size_t, int*, void* value) {
    const auto& text = *static_cast<const std::string*>(value);
    *out = reinterpret_cast<const unsigned char*>(text.data());
    *size = text.size();
    return 1;
}

/// The bytes that OpenSSL's client sends first.
inline std::string hello(const char* name, int version = 0, std::vector<Extension> more = {}) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                    &SSL_CTX_free);
    SSL_CTX_set_min_proto_version(context.get(), version);
    SSL_CTX_set_max_proto_version(context.get(), version);
    for (Extension& extension : more)
        REQUIRE(SSL_CTX_add_custom_ext(context.get(), extension.type, SSL_EXT_CLIENT_HELLO, add_value,
                                       nullptr, &extension.value, nullptr, nullptr) == 1);
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
    BIO* const out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
    SSL_set_connect_state(ssl.get());
    if (name != nullptr)
        SSL_set_tlsext_host_name(ssl.get(), name);
    SSL_do_handshake(ssl.get());
    char* data = nullptr;
    const long size = BIO_get_mem_data(out, &data);
    return {data, static_cast<std::size_t>(size)};
}

/// Clients of this context begin with a key share that the server's of this project does not take, so that it
/// asks for another ClientHello, in which they name `second`, of static storage.
inline void name_another_on_retry(SSL_CTX* context, const char* second) {
    REQUIRE(SSL_CTX_set1_groups_list(context, "P-521:X25519") == 1);
    SSL_CTX_set_msg_callback(
        context, [](int is_sent, int, int type, const void* data, std::size_t, SSL* ssl, void* name) {
            const bool is_answer = is_sent == 0 && type == SSL3_RT_HANDSHAKE &&
                                   *static_cast<const unsigned char*>(data) == SSL3_MT_SERVER_HELLO;
            if (is_answer)
                SSL_set_tlsext_host_name(ssl, static_cast<const char*>(name));
        });
    SSL_CTX_set_msg_callback_arg(context, const_cast<char*>(second));
}

inline std::string number(std::size_t value, std::size_t size) {
    std::string text;
    while (size-- > 0)
        text += static_cast<char>(value >> (8 * size) & 0xffU);
    return text;
}

inline std::string vector_of(const std::string& content, std::size_t size) {
    return number(content.size(), size) + content;
}

inline std::string record(const std::string& content) {
    return "\x16\x03\x01" + vector_of(content, 2);
}

/// The handshake message of one record, in records of `size` bytes.
inline std::string in_records(const std::string& one, std::size_t size) {
    std::string records;
    for (std::size_t at = 5; at < one.size(); at += size)
        records += record(one.substr(at, size));
    return records;
}

inline std::string server_name(const std::string& name, unsigned type = 0) {
    return number(type, 1) + vector_of(name, 2);
}

/// The value of the extension.
inline std::string names(const std::string& entries) {
    return vector_of(entries, 2);
}

inline std::string message_with(const std::vector<Extension>& extensions) {
    std::string list;
    for (const Extension& extension : extensions)
        list += number(extension.type, 2) + vector_of(extension.value, 2);
    const std::string body = "\x03\x03" + std::string(32, 'r') + vector_of("", 1) + vector_of("\xc0\x2b", 2) +
                             vector_of(std::string(1, '\0'), 1) + vector_of(list, 2);
    return '\x01' + vector_of(body, 3);
}

}  // namespace atl::test::tls_bytes
