// The first bytes of a tunnel: the server name of a TLS client, or a request line of plain HTTP. Hostile
// input: each byte is looked at once, and at most k_max_client_hello_bytes are kept. The messages are those
// of RFC 8446 section 4.1.2 and RFC 5246 section 7.4.1.2, which have the same form. With ECH the outer name
// counts, which is all that can be seen. Not here: deadlines, the comparison with the name of the tunnel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace atl::http {

/// With the headers of its records. A key share for post-quantum cryptography makes it 1.8 KB.
inline constexpr std::size_t k_max_client_hello_bytes = 16UL * 1024;

class ClientHelloReader {
  public:
    enum class Found : std::uint8_t {
        more,     // no verdict yet: again when more bytes have come
        name,     // a whole ClientHello with one server name
        no_name,  // a whole ClientHello without a server name
        invalid,  // TLS that no honest client speaks; reason() says why
        request,  // plain HTTP: a method, a space and then `/` or `*`
        other,    // neither TLS nor HTTP
    };

    /// `input`: all bytes so far, from the first; those of the last call must be its beginning. Never `more`
    /// once it has k_max_client_hello_bytes. Anything but `more` is the last answer.
    Found read(std::string_view input);

    /// In lower case, without a dot at the end; at most 253 of `a-z0-9._-`.
    const std::string& server_name() const noexcept { return name_; }
    /// After `name` and `no_name`: the bytes of the ClientHello, with the headers of its records.
    std::size_t size() const noexcept { return read_; }
    /// Static.
    const char* reason() const noexcept { return reason_; }

  private:
    Found read_request(std::string_view input);
    Found read_records(std::string_view input);
    Found read_message();
    Found read_names(std::string_view list);
    Found refuse(const char* reason) noexcept;

    std::size_t read_ = 0;         // of the input
    std::size_t record_left_ = 0;  // of the record that read_ stands in
    std::string message_;          // the handshake message, without the headers of records
    std::string name_;
    const char* reason_ = "";
};

}  // namespace atl::http
