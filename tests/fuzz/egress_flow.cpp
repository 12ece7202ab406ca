// A request on the way out of a sandbox, between a hostile program and a hostile upstream: no byte of a
// tunnel passes before its beginning is known to be for the granted host, all pass from then on, and what is
// read as requests reaches the upstream as requests for that host.
#include "http/egress/egress_flow.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>

#include "core/base/task_group.hpp"
#include "http/egress/client_hello.hpp"
#include "http/server/server_state.hpp"
#include "tests/fuzz/bridge_peer.hpp"
#include "tests/fuzz/support.hpp"
#include "tests/unit/http/fake_stream.hpp"

using namespace atl;
using fuzz::require;
using http::EgressOpening;
using Found = http::ClientHelloReader::Found;

namespace {

constexpr std::string_view k_established = "HTTP/1.1 200 Connection Established\r\n\r\n";
constexpr const char* k_host = "a.example";
constexpr std::size_t k_most_bytes = 1'000'000;  // of a head or a body that the check reads

class StillClock final : public base::Clock {
  public:
    base::SteadyTime steady_now() const override { return base::SteadyTime(base::Millis(1000)); }
    base::WallTime wall_now() const override { return base::WallTime(base::Millis(1000)); }
};

class Reader final : public http::EgressOpeningReader {
  public:
    EgressOpening read(std::string_view input) override {
        const Found found = reader_.read(input);
        return found == Found::more      ? EgressOpening::more
               : found == Found::name    ? EgressOpening::name
               : found == Found::no_name ? EgressOpening::no_name
               : found == Found::request ? EgressOpening::request
                                         : EgressOpening::other;
    }
    const std::string& server_name() const override { return reader_.server_name(); }
    std::size_t size() const override { return reader_.size(); }

  private:
    http::ClientHelloReader reader_;
};

base::Task<> run(http::EgressFlow& flow, http::Connection& client, http::RequestParser& request,
                 const http::ServerState& state, bool& has_ended) {
    const auto outcome = co_await flow.async_run(client, request, state);
    require(!outcome.instead || outcome.status == 0, "an answer is the flow's or the session's");
    client.close();
    has_ended = true;
}

/// The bytes that both sides have sent, in turns, and got.
struct Talk {
    std::string client;
    std::string upstream;
    std::string to_client;
    std::string to_upstream;
};

/// `pieces`: of the client and the upstream in turns, the client's first.
Talk play(http::EgressForm form, const http::EgressGrant& grant, http::RequestParser& request,
          const std::vector<std::string_view>& pieces, std::uint8_t seed) {
    const StillClock clock;
    boost::asio::io_context loop{1};
    fuzz::HandTimers timers(loop);
    base::TaskGroup tasks(loop.get_executor(), "fuzz");
    http::ServerState state(clock, timers, http::Settings{});
    const auto settle = [&] {
        do
            loop.restart();
        while (loop.poll() != 0);
    };
    const auto client = std::make_shared<test::FakePeer>(loop.get_executor());
    const auto upstream = std::make_shared<test::FakePeer>(loop.get_executor());
    const auto connection = std::make_shared<http::Connection>(std::make_unique<test::FakeStream>(client),
                                                               clock, timers, state.settings);
    http::EgressFlow flow(form, grant, std::make_unique<test::FakeStream>(upstream),
                          {[](http::Connection&) { return std::shared_ptr<const void>(); },
                           [](const base::Error&) { return std::make_unique<http::Response>(); },
                           [] { return std::make_unique<Reader>(); }});
    Talk talk;
    bool has_ended = false;
    tasks.spawn(run(flow, *connection, request, state, has_ended));
    settle();
    bool is_of_client = true;
    for (const auto piece : pieces) {
        for (const auto part : fuzz::cut(piece, seed)) {
            (is_of_client ? talk.client : talk.upstream) += part;
            (is_of_client ? *client : *upstream).send(part);
            settle();
        }
        is_of_client = !is_of_client;
    }
    client->end_sending();
    upstream->end_sending();
    settle();
    require(has_ended, "a flow ends with both of its ends");
    talk.to_client = client->take();
    talk.to_upstream = upstream->take();
    return talk;
}

/// Counts the requests in what the upstream has got, the last of which may be cut. What follows an upgrade is
/// another protocol.
std::size_t count_requests(std::string_view bytes) {
    http::RequestParser parser({k_most_bytes, k_most_bytes});
    std::size_t count = 0;
    while (!bytes.empty()) {
        parser.reset();
        auto used = parser.feed(bytes);
        require(used.has_value(), "the upstream gets requests");
        if (!parser.head_done())
            return count;
        require(parser.request().authority == k_host, "they are for the granted host");
        ++count;
        const bool upgrades = !http::wanted_upgrade(parser.request()).empty();
        bytes.remove_prefix(*used);
        parser.set_body_limit(k_most_bytes);
        while (!parser.done()) {
            used = parser.feed(bytes);
            require(used.has_value(), "their bodies end as they say");
            if (*used == 0)
                return count;
            bytes.remove_prefix(*used);
        }
        if (upgrades)
            return count;
    }
    return count;
}

enum class Answer { other, retry, in_parts };

/// The kind of an answer: a HelloRetryRequest (RFC 8446 section 4.1.3) is told only where one record,
/// the first, has its random.
Answer answer_of(std::string_view bytes) {
    constexpr std::string_view k_random =
        "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
        "\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c";
    if (bytes.empty() || bytes[0] < 20 || bytes[0] > 22)
        return Answer::other;
    if (bytes.size() < 43 || !bytes.starts_with("\x16\x03") ||
        (bytes[3] == 0 && static_cast<unsigned char>(bytes[4]) < 38))
        return Answer::in_parts;
    return bytes[5] == 2 && bytes.substr(11, 32) == k_random ? Answer::retry : Answer::other;
}

/// The upstream has got `bytes` behind the first ClientHello, and has asked for a second one.
void check_second(std::string_view bytes) {
    while (bytes.size() >= 5 && (bytes[0] == 20 || bytes[0] == 21 || bytes[0] == 23)) {
        const std::size_t record = 5 + (std::size_t{static_cast<unsigned char>(bytes[3])} << 8U |
                                        static_cast<unsigned char>(bytes[4]));
        bytes.remove_prefix(std::min(record, bytes.size()));
    }
    http::ClientHelloReader second;
    require(bytes.empty() || (second.read(bytes) == Found::name && second.server_name() == k_host),
            "a second ClientHello is for the granted host");
}

void check_tunnel(const Talk& talk, const http::EgressGrant& grant) {
    http::ClientHelloReader reader;
    const Found found = grant.any_bytes ? Found::more : reader.read(talk.client);
    const bool is_open = grant.any_bytes || (found == Found::name && reader.server_name() == grant.host);
    const Answer answer = grant.any_bytes ? Answer::other : answer_of(talk.upstream);
    if (is_open && answer != Answer::other) {
        require(talk.client.starts_with(talk.to_upstream), "a tunnel passes on what was sent");
        if (answer == Answer::retry)
            check_second(std::string_view(talk.to_upstream).substr(reader.size()));
    } else if (is_open) {
        require(talk.to_upstream == talk.client, "a tunnel passes all on");
        require(talk.to_client == std::string(k_established) + talk.upstream, "and all back");
    } else if (found == Found::request && grant.port == 80) {
        count_requests(talk.to_upstream);
    } else {
        require(talk.to_upstream.empty(), "nothing passes that does not begin as it should");
        require(talk.to_client == k_established, "and nothing comes back");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::uint8_t choices = input.byte();
    const std::uint8_t seed = input.byte();
    const http::EgressGrant grant{k_host, (choices & 2U) != 0 ? std::uint16_t{80} : std::uint16_t{443},
                                  std::nullopt, (choices & 4U) != 0};
    // The turns of the talk end with this byte.
    std::vector<std::string_view> pieces;
    for (std::string_view rest = input.rest(); !rest.empty();) {
        const auto end = std::min(rest.find('\xff'), rest.size());
        pieces.push_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    http::RequestParser request({16UL * 1024, 0, http::TargetForms::of_proxy});
    if ((choices & 1U) == 0) {
        check_tunnel(play(http::EgressForm::connect, grant, request, pieces, seed), grant);
        return 0;
    }
    // The session has read the head.
    if (pieces.empty())
        return 0;
    const auto used = request.feed(pieces.front());
    if (used.has_error() || !request.head_done() || request.request().method_text == "CONNECT")
        return 0;
    pieces.front().remove_prefix(*used);
    request.stream_body();
    const http::EgressGrant plain{k_host, 80};
    const Talk talk = play(http::EgressForm::absolute, plain, request, pieces, seed);
    require(count_requests(talk.to_upstream) <= 1, "one request makes one");
    return 0;
}
