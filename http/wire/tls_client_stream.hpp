// TLS towards a server, as a byte stream over another one: who reads and writes need not know of it. The
// handshake begins by itself, at the first read, write or wait, and does one step in a turn of the loop.
// Nothing of the server's own is needed beside the two. Not here: deadlines, which are those of the reader
// and the writer; the rules (tls_context.hpp) and the protocol (tls_stream.hpp).
#pragma once

#include <memory>
#include <string>

#include "http/wire/byte_stream.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::http {

class TlsClientStream final : public ByteStream {
  public:
    /// Comes once, from the loop, unless close() comes first: null once the server was verified, else the
    /// reason why it was not, such as "certificate has expired"; static.
    using Opened = boost::asio::any_completion_handler<void(const char* failure)>;

    /// `below` is a socket's, non-blocking, and may still be connecting. `context` is one of make_client().
    /// `server_name`: a host name, which the server is asked for, or an address literal without brackets; a
    /// certificate for another is refused.
    TlsClientStream(std::unique_ptr<ByteStream> below, std::shared_ptr<const TlsContext> context,
                    std::string server_name, Opened opened = {});
    ~TlsClientStream() override;
    TlsClientStream(const TlsClientStream&) = delete;
    TlsClientStream& operator=(const TlsClientStream&) = delete;

    base::Executor executor() override;
    /// -1 while decrypted bytes wait, which the socket does not show.
    int native_handle() override;
    /// error::connection_reset after a failed handshake, and where the server ends without close_notify: it
    /// may have been cut off.
    void async_read_some(std::span<char> room, ReadDone done) override;
    void async_wait(Socket::wait_type event, WaitDone done) override;
    /// Takes nothing before the handshake is done. What is repeated begins with the first byte that was not
    /// taken.
    std::size_t write_some(std::string_view bytes, boost::system::error_code& error) override;
    /// Says close_notify before.
    void shutdown_send() override;
    void cut() override;
    void close() override;

  private:
    class State;
    std::shared_ptr<State> state_;
};

}  // namespace atl::http
