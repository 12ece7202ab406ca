#include "http/proxy/exchange.hpp"

#include <string.h>  // NOLINT: explicit_bzero() is not in <cstring>

#include <algorithm>
#include <utility>

#include "http/proxy/tunnel.hpp"
#include "http/server/server_state.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr unsigned k_continue = 100;
constexpr unsigned k_switching = 101;

bool is_idempotent(const Request& request) {
    return request.method == Method::get || request.method == Method::head ||
           request.method == Method::options;
}

// Lets other work of the loop run. The wake that is posted here, or an earlier one, resumes the exchange.
base::Task<Io> async_yield_exchange(Connection& connection) {
    connection.wake()->post();
    co_return co_await connection.async_pause();
}

}  // namespace

void Exchange::Outbox::take(std::size_t count) {
    sent += count;
    if (empty())
        drop();
}

void Exchange::Outbox::drop() {
    if (std::exchange(is_secret, false)) {
        ::explicit_bzero(bytes.data(), bytes.size());
        std::string().swap(bytes);
    }
    bytes.clear();
    sent = 0;
}

Exchange::Exchange(std::shared_ptr<UpstreamPort> port, std::unique_ptr<HeadPolicy> heads, Refusal refuse,
                   ExchangeDeadlines deadlines)
    : port_(std::move(port)),
      heads_(std::move(heads)),
      refuse_(std::move(refuse)),
      deadlines_(deadlines),
      answer_(base::k_max_answer_head_bytes) {}

Exchange::~Exchange() {
    to_upstream_.drop();
}

base::Task<Relay::Outcome> Exchange::async_run(Connection& connection, RequestParser& request,
                                               const ServerState& state) {
    client_ = &connection;
    request_ = &request;
    state_ = &state;
    const bool is_repeatable = is_idempotent(request.request()) && request.done();
    Ending ending = Ending::retry;
    for (Reuse reuse = is_repeatable ? Reuse::allowed : Reuse::no; ending == Ending::retry;
         reuse = Reuse::no) {
        auto upstream = port_->connect(reuse);
        if (upstream.has_error()) {
            error_ = upstream.error();
            co_return outcome(Ending::refused);
        }
        is_reused_ = upstream->is_reused;
        upstream_ = std::make_shared<Connection>(std::move(upstream->stream), connection);
        if (turns_ != nullptr)
            upstream_->charge_to(connection.payer());
        begin(request.request());
        ending = co_await async_forward();
        if (ending == Ending::complete)
            keep_upstream();
        if (ending == Ending::tunnel)
            co_await async_tunnel_on();
        upstream_->close();
    }
    connection.clear_deadline();
    connection.use_buffer(BufferSize::small);
    co_return outcome(ending);
}

void Exchange::begin(const Request& request) {
    to_upstream_.drop();
    to_upstream_.is_secret = heads_->has_secret();
    reached_ = upstream_deaf_ = false;
    ending_.reset();
    answer_.begin(request.method == Method::head);
    request_ended_ = request_->done();
    request_form_ = {};
    if (!request_ended_) {
        request_form_.length = request_->content_length();
        request_form_.is_chunked = !request_form_.length;
    } else if (request_->content_length()) {
        request_form_.length = 0;
    }
    may_send_body_ = !request_->expects_continue();
    heads_->write_request(to_upstream_.bytes, request, request_form_);
    if (!request_ended_)
        client_->use_buffer(BufferSize::full);
}

base::Task<Exchange::Ending> Exchange::async_forward() {
    std::size_t moved_in_turn = 0;
    RelayTurn turn(turns_.get(), *client_, *upstream_);
    for (;;) {
        const std::size_t before = to_upstream_.bytes.size() + to_client_.bytes.size();
        const bool may_move = turn.may_move();
        const bool moved_up = may_move && pump_request();
        const bool moved_down = may_move && pump_response();
        if (ending_)
            co_return *ending_;
        const bool moved = moved_up || moved_down;
        // A head that comes byte by byte has no more time than one that comes at once.
        moved_ = moved_ || moved_up || (moved_down && began_answer_);
        if ((moved_up || (moved_down && began_answer_)) && on_traffic_)
            on_traffic_(Traffic::served);
        Io io = Io::ok;
        if (moved && moved_in_turn < base::k_relay_turn_bytes) {
            moved_in_turn += before;
            continue;
        }
        moved_in_turn = 0;
        if (moved) {
            io = co_await async_yield_exchange(*client_);
        } else {
            arm();
            io = co_await client_->async_pause();
            end_wait(io);
        }
        if (ending_)  // also by refuse_waiting()
            co_return *ending_;
        if (io != Io::ok && io != Io::deadline)
            co_return Ending::left;
    }
}

// Each direction: what lies here goes on before more is taken in.
bool Exchange::pump_request() {
    if (upstream_deaf_)
        to_upstream_.drop();
    if (!to_upstream_.empty()) {
        const std::size_t sent = upstream_->send_some(to_upstream_.rest());
        to_upstream_.take(sent);
        reached_ = reached_ || sent > 0;
        // It may have answered, without having read all.
        upstream_deaf_ = is_upstream_deaf();
        return sent > 0;
    }
    if (request_ended_ || !wants_body())
        return false;
    return request_form_.length && !upstream_deaf_ ? pass_body() : read_body();
}

// A body whose length is known goes on from where it was read to.
bool Exchange::pass_body() {
    const std::string_view piece =
        client_->input().substr(0, std::min<std::uint64_t>(request_->body_left(), base::k_relay_piece_bytes));
    const std::size_t sent = piece.empty() ? 0 : upstream_->send_some(piece);
    upstream_deaf_ = is_upstream_deaf();
    if (sent == 0)
        return false;
    if (const auto passed = request_->pass_body(piece.substr(0, sent)); passed.has_error()) {
        fail(passed.error());
        return false;
    }
    client_->consume(sent);
    moved_of_client_ += sent;
    request_ended_ = request_->done();
    return true;
}

bool Exchange::is_upstream_deaf() const {
    return upstream_->has_peer_stopped_reading() || is_over(upstream_->status());
}

// True while it has not taken what lies here.
bool Exchange::is_upstream_full() const {
    return !to_upstream_.empty() ||
           (!request_ended_ && request_form_.length && may_send_body_ && !client_->input().empty());
}

bool Exchange::wants_body() const {
    // A client that does not wait for 100 Continue may have sent it already.
    return may_send_body_ || !client_->input().empty();
}

bool Exchange::read_body() {
    const std::string_view input = client_->input();
    if (input.empty())
        return false;
    std::string chunk;
    std::string& piece = request_form_.is_chunked ? chunk : to_upstream_.bytes;
    piece.resize(std::min(input.size(), base::k_relay_piece_bytes));
    const auto fed = request_->feed_body(input, piece);
    if (fed.has_error()) {
        fail(fed.error());
        return false;
    }
    client_->consume(fed->used);
    moved_of_client_ += fed->used;
    piece.resize(fed->written);
    if (request_form_.is_chunked)
        write_chunk(to_upstream_.bytes, chunk);
    request_ended_ = request_->done();
    if (request_ended_ && request_form_.is_chunked)
        heads_->write_request_end(to_upstream_.bytes, request_->request().fields,
                                  request_->request().trailers);
    return fed->used > 0;
}

bool Exchange::pump_response() {
    if (!to_client_.empty()) {
        const std::size_t sent = client_->send_some(to_client_.rest());
        to_client_.take(sent);
        moved_of_client_ += sent;
        count_head(sent);
        if (is_over(client_->status()))
            ending_ = Ending::left;
        return sent > 0;
    }
    if (answer_ended_) {
        ending_ = status_ == k_switching ? Ending::tunnel : Ending::complete;
        return false;
    }
    if (is_client_full())
        return pass_answer();
    return read_answer();
}

// A head that is given up before its end tells the browser nothing.
void Exchange::count_head(std::size_t sent) {
    if (clearing_left_ == 0 || sent == 0)
        return;
    clearing_left_ -= std::min(clearing_left_, sent);
    if (clearing_left_ == 0)
        heads_->on_cleared();
}

bool Exchange::is_client_full() const {
    return !to_client_.empty() || (began_answer_ && answer_.body_left() > 0 && !upstream_->input().empty());
}

// Sends a body whose length is known straight from the input, as pass_body() does.
bool Exchange::pass_answer() {
    fit_buffer(*upstream_);
    const std::string_view piece =
        upstream_->input().substr(0, std::min<std::uint64_t>(answer_.body_left(), base::k_relay_piece_bytes));
    const std::size_t sent = client_->send_some(piece);
    if (is_over(client_->status())) {
        ending_ = Ending::left;
        return false;
    }
    if (sent == 0)
        return false;
    if (const auto passed = answer_.pass_body(piece.substr(0, sent)); passed.has_error()) {
        fail(passed.error());
        return false;
    }
    upstream_->consume(sent);
    moved_of_client_ += sent;
    answer_ended_ = answer_.done();
    return true;
}

bool Exchange::read_answer() {
    const std::size_t before = upstream_->input().size();
    if (before > 0) {
        const bool is_unsent = !answer_.head_done();
        if (is_unsent)
            read_head();
        // Sends the head with any body bytes already received.
        if (answer_.head_done() && !answer_ended_ && !ending_ && !upstream_->input().empty())
            read_answer_body();
        if (is_unsent && ending_ == Ending::cut)
            ending_ = Ending::refused;
        if (ending_ || upstream_->input().size() < before || !to_client_.empty())
            return !ending_;
    }
    if (upstream_->status() != Io::ok)
        end_input();
    else if (is_over(client_->status()) ||
             (client_->status() != Io::ok && (request_ended_ || client_->input().empty())))
        ending_ = Ending::left;
    return !to_client_.empty() || (answer_ended_ && !ending_);
}

void Exchange::read_head() {
    const auto used = answer_.feed_head(upstream_->input());
    if (used.has_error())
        return fail(used.error());
    upstream_->consume(*used);
    if (!answer_.head_done())
        return;
    const unsigned status = answer_.status();
    if (status >= 200 || status == k_switching)
        return begin_answer();
    if (++interim_ > base::k_max_interim_answers)
        return fail(Error(Errc::upstream_failed, "What answers inside the sandbox sends no final answer."));
    may_send_body_ = may_send_body_ || status == k_continue;
    if (request_->request().version >= 11 && (status != k_continue || request_->expects_continue()))
        heads_->write_answer(to_client_.bytes, answer_, {}, {});
    answer_.begin(request_->request().method == Method::head);
}

// A part of the request that is not sent yet would be taken for the other protocol.
bool Exchange::may_switch(const Request& request) const {
    const std::string_view wanted = wanted_upgrade(request);
    return !wanted.empty() && iequals(hop_fields(answer_.fields()).upgrade, wanted) && request_ended_ &&
           to_upstream_.empty();
}

void Exchange::begin_answer() {
    const Request& request = request_->request();
    status_ = answer_.status();
    if (status_ == k_switching && !may_switch(request))
        return fail(
            Error(Errc::upstream_failed,
                  "What answers inside the sandbox speaks another protocol, which nobody asked for."));
    answer_form_ = {};
    keep_alive_ =
        request_->wants_keep_alive() && !state_->stopping && (answer_.keeps_alive() || !ends_with_upstream_);
    switch (answer_.body_end()) {
        case BodyEnd::none:
            if (status_ >= 200 && status_ != 204)
                answer_form_.length = answer_.content_length();
            break;
        case BodyEnd::length:
            answer_form_.length = answer_.content_length();
            break;
        case BodyEnd::chunked:
        case BodyEnd::close:
            answer_form_.is_chunked = request.version >= 11;
            keep_alive_ = keep_alive_ && answer_form_.is_chunked;
            break;
    }
    const bool clears = status_ != k_switching && heads_->clears_site_data();
    heads_->write_answer(to_client_.bytes, answer_, answer_form_,
                         {.version = request.version, .keep_alive = keep_alive_, .clears_site_data = clears});
    clearing_left_ = clears ? to_client_.rest().size() : 0;
    began_answer_ = true;
    answer_ended_ = answer_.done();
    if (on_traffic_)
        on_traffic_(Traffic::served);
}

void Exchange::read_answer_body() {
    fit_buffer(*upstream_);
    std::string& out = to_client_.bytes;
    std::string piece;
    const auto used = answer_.feed_body(upstream_->input(), answer_form_.is_chunked ? piece : out,
                                        base::k_relay_piece_bytes);
    if (used.has_error())
        return fail(used.error());
    upstream_->consume(*used);
    if (answer_form_.is_chunked)
        write_chunk(out, piece);
    answer_ended_ = answer_.done();
    if (answer_ended_ && answer_form_.is_chunked)
        write_last_chunk(out, answer_.fields(), answer_.trailers(), {});
}

// The dev server sends no more.
void Exchange::end_input() {
    if (is_over(upstream_->status()) || !answer_.head_done() || answer_.body_end() != BodyEnd::close)
        return fail_unfinished();
    if (const auto ended = answer_.end_input(); ended.has_error())
        return fail(ended.error());
    answer_ended_ = true;
    if (answer_form_.is_chunked)
        to_client_.bytes += k_last_chunk;
}

void Exchange::fail_unfinished() {
    if (is_reused_ && !answer_.started() && interim_ == 0)
        ending_ = Ending::retry;
    else if (!reached_)
        fail(heads_->unreachable());
    else
        fail(Error(Errc::upstream_failed, "What answers inside the sandbox ended its connection too early."));
}

// A part of an interim answer may have gone out.
void Exchange::fail(Error error) {
    error_ = std::move(error);
    ending_ = began_answer_ || to_client_.sent > 0 ? Ending::cut : Ending::refused;
}

void Exchange::refuse_waiting(Error error) {
    if (!is_unanswered())
        return;
    fail(std::move(error));
    client_->wake()->post();
}

void Exchange::arm() {
    if (!is_client_full())
        upstream_->begin_read();
    // Also once all of the request is here: a client that leaves is to be noticed.
    if (request_ended_ || (!is_upstream_full() && !upstream_deaf_))
        client_->begin_read();
    set_deadline();
}

// The deadline is for the side that has to act next; each byte that moves starts it again. Once the answer
// has begun, both sides talk as in a tunnel: either may be silent, and there is no deadline but `idle`.
void Exchange::set_deadline() {
    const Waiting waiting = is_client_full() ? Waiting::client_reads
                            : began_answer_  ? Waiting::none
                            : !request_ended_ && may_send_body_ && !upstream_deaf_ && !is_upstream_full()
                                ? Waiting::client_sends
                                : Waiting::answer;
    const auto now = client_->now();
    if (waiting != waiting_ || moved_) {
        waiting_ = waiting;
        moved_ = false;
        const base::Millis time = time_to_move();
        move_until_ = time == base::Millis(0) ? base::SteadyTime::max() : now + time;
    }
    wait_began_ = now;
    auto until = move_until_;
    if (waits_for_client())
        until = std::min(until, now + (base::k_least_pace_time - waited_for_client_));
    if (until == base::SteadyTime::max())
        client_->clear_deadline();
    else
        client_->set_deadline(std::chrono::ceil<base::Millis>(until - now));
}

base::Millis Exchange::time_to_move() const {
    switch (waiting_) {
        case Waiting::client_reads:
            return state_->settings.write_deadline;
        case Waiting::client_sends:
            return state_->settings.body_deadline;
        case Waiting::none:
            return deadlines_.idle;
        case Waiting::answer:
            break;
    }
    return deadlines_.answer;
}

bool Exchange::waits_for_client() const noexcept {
    return waiting_ == Waiting::client_reads || waiting_ == Waiting::client_sends;
}

void Exchange::end_wait(Io io) {
    const auto now = client_->now();
    if (ending_ || (io != Io::ok && io != Io::deadline))
        return;
    if (io == Io::deadline && now >= move_until_)
        return on_deadline();
    if (!waits_for_client())
        return;
    waited_for_client_ += now - wait_began_;
    if (waited_for_client_ < base::k_least_pace_time)
        return;
    if (moved_of_client_ < base::k_least_pace_bytes && port_->is_crowded())
        fail_slow_client();
    waited_for_client_ = {};
    moved_of_client_ = 0;
}

void Exchange::fail_slow_client() {
    if (waiting_ == Waiting::client_reads)
        ending_ = Ending::cut;
    else
        fail(Error(Errc::request_timeout,
                   "The body of the request came too slowly for a preview that many others use now."));
}

void Exchange::on_deadline() {
    switch (waiting_) {
        case Waiting::client_reads:
            ending_ = Ending::cut;
            break;
        case Waiting::client_sends:
            fail(Error(Errc::request_timeout, "The body of the request did not arrive in time."));
            break;
        case Waiting::answer:
        case Waiting::none:
            fail(Error(Errc::deadline_exceeded, "What answers inside the sandbox did not answer in time."));
            break;
    }
}

void Exchange::keep_upstream() {
    const bool is_clean = request_ended_ && to_upstream_.empty() && !upstream_deaf_ &&
                          answer_.keeps_alive() && upstream_->input().empty() &&
                          upstream_->status() == Io::ok;
    if (!is_clean)
        return;
    if (auto stream = upstream_->release())
        port_->keep(std::move(stream));
}

base::Task<> Exchange::async_tunnel_on() {
    to_client_ = {};
    Connection& client = *client_;
    Connection& upstream = *upstream_;
    const ServerState& state = *state_;
    const TunnelTimes times{deadlines_.stuck, deadlines_.idle};
    co_await async_tunnel(client, upstream, state, times, on_traffic_, turns_.get());
}

Relay::Outcome Exchange::outcome(Ending ending) {
    switch (ending) {
        case Ending::complete:
            if (!keep_alive_ || !request_->done())
                return {request_->done() && client_->input().empty() ? After::close : After::linger, status_};
            return {After::again, status_};
        case Ending::refused:
        case Ending::retry:
            return {After::close, 0, refuse_(error_)};
        case Ending::cut:
            client_->cut();
            return {After::close, status_};
        case Ending::tunnel:
        case Ending::left:
            return {After::close, status_};
    }
    return {};
}

}  // namespace atl::http
