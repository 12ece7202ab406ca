// Passes one request through the proxy: its head and body go to the dev server while they arrive, the answer
// goes to the client while it arrives, both at once and in constant memory, each direction as fast as its
// reader. After a 101 the connection is a tunnel until both sides have ended. Invariants: what cannot be
// completed is cut, so that no client takes a part for the whole; a request is sent twice only if it is
// idempotent, has no body, and a kept connection closed without a byte of an answer; where connections are
// scarce, a client for whom the proxy waits keeps a least pace, or loses its connection. Not here: which
// fields pass (heads.hpp), who may ask (a service).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/preview_times.hpp"
#include "core/plain/preview_limits.hpp"
#include "http/proxy/heads.hpp"
#include "http/proxy/tunnel.hpp"
#include "http/proxy/upstream.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/request_parser.hpp"
#include "http/wire/response_parser.hpp"

namespace atl::http {

struct ExchangeDeadlines {
    /// From the last byte of the request that moved to the end of the answer's head.
    base::Millis answer = base::k_relay_answer_time;
    /// For a tunnel's side that takes nothing, or does not end after the other.
    base::Millis stuck = base::k_relay_stuck_time;
    /// Without a byte, once the answer has begun, and of a tunnel; 0: it may stay.
    base::Millis idle{0};
};

class Exchange final : public Relay {
  public:
    using Refusal = std::function<std::unique_ptr<Response>(const base::Error& error)>;

    /// `refuse` makes the answer to a request that got none.
    Exchange(std::shared_ptr<UpstreamPort> port, std::unique_ptr<HeadPolicy> heads, Refusal refuse,
             ExchangeDeadlines deadlines = {});
    ~Exchange() override;
    /// `told` is called often: when the dev server has taken bytes of the request, when bytes of an answer
    /// have come, or have passed a tunnel. Set before it runs.
    void on_traffic(std::function<void(Traffic)> told) { on_traffic_ = std::move(told); }

    /// Its bytes, in both directions, are of these turns, and what the upstream does not take is charged as
    /// the client's output is. Set before it runs.
    void take_turns(std::shared_ptr<RelayTurns> turns) { turns_ = std::move(turns); }

    base::Task<Outcome> async_run(Connection& connection, RequestParser& request,
                                  const ServerState& state) override;

    /// True if the dev server has the request, or a part of it, and has not begun its answer.
    bool is_waiting() const noexcept { return reached_ && is_unanswered(); }
    /// The client gets `error` unless an answer has begun. Resumes nothing from inside the call.
    void refuse_waiting(base::Error error);
    /// From now on the client's connection ends with the upstream's, and answers say so.
    void end_with_upstream() noexcept { ends_with_upstream_ = true; }

  private:
    // Bytes on their way, of which the first `sent` are gone.
    struct Outbox {
        std::string bytes;
        std::size_t sent = 0;
        bool is_secret = false;  // wiped once it is gone
        std::string_view rest() const { return std::string_view(bytes).substr(sent); }
        bool empty() const { return sent == bytes.size(); }
        void take(std::size_t count);
        void drop();
    };
    enum class Ending : std::uint8_t {
        complete,  // the answer went out as a whole
        tunnel,    // so did the 101
        retry,     // a kept connection was closed: a new one may answer
        refused,   // nothing was sent: the client gets `error_`
        cut,       // a part was sent
        left,      // the client has gone
    };

    enum class Waiting : std::uint8_t { none, client_reads, client_sends, answer };

    bool is_unanswered() const noexcept { return client_ != nullptr && !began_answer_ && !ending_; }
    void begin(const Request& request);
    base::Task<Ending> async_forward();
    bool pump_request();
    bool read_body();
    bool pass_body();
    bool pump_response();
    void count_head(std::size_t sent);
    bool read_answer();
    bool pass_answer();
    void read_head();
    bool may_switch(const Request& request) const;
    void begin_answer();
    void read_answer_body();
    void end_input();
    void fail(base::Error error);
    void fail_unfinished();
    bool wants_body() const;
    bool is_upstream_deaf() const;
    bool is_upstream_full() const;
    bool is_client_full() const;
    void arm();
    void set_deadline();
    base::Millis time_to_move() const;
    bool waits_for_client() const noexcept;
    void end_wait(Io io);
    void on_deadline();
    void fail_slow_client();
    void keep_upstream();
    base::Task<> async_tunnel_on();
    Outcome outcome(Ending ending);

    std::shared_ptr<UpstreamPort> port_;
    std::unique_ptr<HeadPolicy> heads_;
    Refusal refuse_;
    ExchangeDeadlines deadlines_;
    std::function<void(Traffic)> on_traffic_;
    std::shared_ptr<RelayTurns> turns_;  // null: nobody shares

    // While it runs:
    Connection* client_ = nullptr;
    RequestParser* request_ = nullptr;
    const ServerState* state_ = nullptr;
    std::shared_ptr<Connection> upstream_;
    bool is_reused_ = false;
    Outbox to_upstream_;
    Outbox to_client_;
    ResponseParser answer_;
    BodyForm request_form_;
    BodyForm answer_form_;
    bool reached_ = false;           // it has taken a byte
    bool request_ended_ = false;     // all of it is in to_upstream_
    bool upstream_deaf_ = false;     // takes no more of the request
    bool may_send_body_ = true;      // false: 100 Continue is awaited
    bool began_answer_ = false;      // a byte of a final answer is in to_client_
    bool answer_ended_ = false;      // all of it is
    bool keep_alive_ = false;        // as the client was told
    std::size_t clearing_left_ = 0;  // bytes of to_client_ up to the end of a head that clears site data
    std::size_t interim_ = 0;        // answers before the final one
    unsigned status_ = 0;
    Waiting waiting_ = Waiting::none;
    bool moved_ = true;  // bytes, since the time for them began
    base::SteadyTime move_until_ = base::SteadyTime::max();
    base::SteadyTime wait_began_{};
    base::SteadyTime::duration waited_for_client_{};  // since the client's pace was measured
    std::size_t moved_of_client_ = 0;                 // bytes since then
    std::optional<Ending> ending_;
    base::Error error_;
    bool ends_with_upstream_ = false;
};

}  // namespace atl::http
