// The load client: HTTP/1.1 over kept-alive loopback connections, one request at a time on each. It does as
// little as it can, so that what is measured is the server. It trusts the server: no limits, no security.
// Failures are exceptions, as everywhere in this program: main() reports them under the measurement's name.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plain/unique_fd.hpp"
#include "tests/bench/sample.hpp"

namespace atl::bench {

/// Reads one response as it arrives: Content-Length or chunked bodies.
class ResponseReader {
  public:
    void feed(std::string_view data);
    bool done() const { return state_ == State::done; }
    int status() const { return status_; }
    const std::string& body() const { return body_; }
    void reset();

  private:
    enum class State { head, sized, chunk_size, chunk_data, chunk_end, trailer, done };

    bool step();
    bool read_head();
    bool read_chunk_size();
    bool take(std::size_t end_bytes);

    State state_ = State::head;
    std::string pending_;
    std::size_t at_ = 0;
    std::size_t left_ = 0;
    int status_ = 0;
    std::string body_;
};

struct Response {
    int status = 0;
    std::string body;
};

enum class Accept { json, event_stream };

/// The bytes of a request. `key` is the API key, may be empty.
std::string request_text(std::string_view method, std::string_view target, std::string_view key,
                         std::string_view body, Accept accept = Accept::json);

/// A connection to a port of the loopback that sends at once and waits so long for what comes. Throws.
base::UniqueFd connect_to(std::uint16_t port, int wait_seconds);

class Connection {
  public:
    /// Connects to the loopback port; throws if it is refused.
    explicit Connection(std::uint16_t port);

    /// Sends and waits for the whole response. Throws if nothing comes for 30 s.
    Response exchange(std::string_view request);

    // For drive(): one step at a time.
    void send(std::string_view request);
    /// Takes what has arrived without waiting; true when the response is complete.
    bool receive();
    int fd() const { return fd_.get(); }
    const ResponseReader& response() const { return reader_; }
    double ms() const { return ms_since(sent_); }

  private:
    base::UniqueFd fd_;
    ResponseReader reader_;
    Clock::time_point sent_;
};

/// Called for each response with the connection's index. Returns the next request to send on it, which must
/// stay valid, or an empty view for none.
using OnResponse = std::function<std::string_view(std::size_t index, const Connection& connection)>;

/// Sends `first[i]` on connection i, all at once, and goes on until no connection waits for a response or the
/// deadline has passed. Returns the number of responses still missing.
std::size_t drive(std::vector<Connection>& connections, std::span<const std::string> first,
                  const OnResponse& on_response, Clock::time_point deadline);

}  // namespace atl::bench
