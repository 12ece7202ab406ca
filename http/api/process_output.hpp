// The output of a process without a WebSocket: a page of what is kept, and all of it as Server-Sent
// Events until the process ends. A cursor counts the bytes of both streams in the order read, as the
// WebSocket's does; it is the id of each frame. Invariants: no byte is lost or shown twice between cursors; a
// character at the end whose rest may still come is not shown yet; bytes that are no text come as base64; of
// output that the client does not read the server holds no more than an OutputRoom. Not here: the
// WebSocket (process_socket.hpp), the right to read (process_follow.cpp).
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/clock.hpp"
#include "core/conversation/leases.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/sandbox/operations.hpp"
#include "http/access/client_limits.hpp"
#include "http/api/event_stream.hpp"
#include "http/api/output_room.hpp"

namespace atl::http {

/// Output of one page. As JSON a byte takes six at most.
inline constexpr std::size_t k_output_page_bytes = 64UL * 1024;

struct OutputPage {
    std::uint64_t after = 0;               // the byte with which it begins
    std::uint64_t dropped = 0;             // bytes at its beginning that are not kept
    std::array<std::string, 2> output;     // stdout or the terminal; stderr
    std::optional<sandbox::RunExit> exit;  // the process has ended, and nothing comes behind this page

    /// The byte with which the next page begins.
    std::uint64_t next() const noexcept { return after + dropped + output[0].size() + output[1].size(); }
};

std::string output_page_json(const OutputPage& page);

/// Reads a page: what there was when it was asked for, up to k_output_page_bytes.
class OutputQuestion final : public sandbox::Question, private sandbox::RunObserver {
  public:
    using Reply = sandbox::Answer<OutputPage>;

    /// `after`: a byte beyond the end means the end. `timers` outlive this. `reply` is called once, from the
    /// loop. Errors: not_found, capacity (too many follow), bridge_failed, deadline_exceeded.
    OutputQuestion(sandbox::Operations& operations, const std::string& id, std::uint64_t after,
                   base::Timers& timers, Reply reply);
    ~OutputQuestion() override;
    OutputQuestion(const OutputQuestion&) = delete;
    OutputQuestion& operator=(const OutputQuestion&) = delete;

  private:
    void on_started(pid_t) override {}
    void on_position(std::uint64_t from, sandbox::StreamKind kind) override;
    void on_output(sandbox::OutputKind kind, std::string_view bytes) override;
    void on_dropped(std::uint64_t bytes) override;
    void on_exit(const sandbox::RunExit& exit) override;
    void on_failed(const base::Error& error) override { answer(error); }

    void on_listed(const base::Result<std::vector<sandbox::ProcessInfo>>& found);
    void settle();
    void finish();
    void answer(base::Result<OutputPage> result);

    base::Timers& timers_;
    Reply reply_;  // empty: it is answered
    OutputPage page_;
    sandbox::OutputKind last_ = sandbox::OutputKind::standard;
    std::size_t last_bytes_ = 0;  // at the end of the page, all of the stream `last_`
    bool is_placed_ = false;      // page_.after is known
    std::optional<sandbox::ProcessInfo> info_;
    base::TimerId deadline_ = 0;
    std::unique_ptr<sandbox::Question> list_;
    std::unique_ptr<sandbox::Run> run_;
};

/// Frames are `started`, `stdout` and `stderr` {text | base64}, `dropped`, and last `exit`; or `stream_closed
/// {code, detail, after}`, which has no id, where the server ends it. The process does not end with it.
class ProcessStream final : public BodyStream, private sandbox::RunObserver {
  public:
    /// `lease` and `place` are kept as long as the stream. `timers` outlive it.
    ProcessStream(std::unique_ptr<conversation::Lease> lease, StreamLease place, EventNames names,
                  base::Timers& timers);
    ~ProcessStream() override;
    ProcessStream(const ProcessStream&) = delete;
    ProcessStream& operator=(const ProcessStream&) = delete;

    /// Begins to follow the process `id` from byte `after` on. Once. `operations` are those of the lease.
    void attach(sandbox::Operations& operations, const std::string& id, std::uint64_t after);
    /// True once it is known whether it can be followed; a wake comes then.
    bool is_known() const noexcept { return is_placed_ || end_; }
    /// Why it cannot be followed; nothing if it is. Precondition: is_known().
    std::optional<base::Error> refusal() const;

    /// Output that waits for the client is of this room from now on.
    void keep_within(OutputRoom room) { room_ = std::move(room); }

    State pull(std::string& out, std::size_t limit_bytes) override;
    void on_wake(StreamWake wake) override { changed_ = std::move(wake); }
    void heartbeat(std::string& out) override;
    void end_early(base::Errc reason, std::string& out) override;

  private:
    struct Piece {
        sandbox::OutputKind kind;
        std::string bytes;
        std::uint64_t dropped = 0;  // bytes ahead of it that are not kept
    };

    // sandbox::RunObserver
    void on_started(pid_t pid) override { pid_ = pid; }
    void on_position(std::uint64_t from, sandbox::StreamKind kind) override;
    void on_output(sandbox::OutputKind kind, std::string_view bytes) override;
    void on_dropped(std::uint64_t bytes) override;
    void on_exit(const sandbox::RunExit& exit) override { finish(exit); }
    void on_failed(const base::Error& error) override;
    bool is_full() const override { return kept_bytes() >= room_.bytes(); }

    std::size_t kept_bytes() const noexcept { return waiting_bytes_ + waiting_.size() * sizeof(Piece); }

    void finish(base::Result<sandbox::RunExit> end);
    void changed() const;
    bool write_first(std::string& out);
    void write_output(std::string& out, sandbox::OutputKind kind, std::string_view bytes) const;
    void write_event(std::string& out, std::string_view type, std::string_view json) const;
    void write_closed(std::string& out, const base::Error& why) const;

    std::unique_ptr<conversation::Lease> lease_;
    StreamLease place_;
    EventNames names_;
    base::Timers& timers_;
    StreamWake changed_;
    pid_t pid_ = 0;
    bool is_placed_ = false;  // offset_ is known
    sandbox::StreamKind kind_ = sandbox::StreamKind::pipes;
    bool has_begun_ = false;    // `started` is written
    std::uint64_t offset_ = 0;  // of the output behind what is written
    std::deque<Piece> waiting_;
    std::size_t waiting_bytes_ = 0;  // of output
    OutputRoom room_;
    std::optional<base::Result<sandbox::RunExit>> end_;
    base::TimerId cause_ = 0;  // while the end of the lease may say why the guest is gone
    std::unique_ptr<sandbox::Run> run_;
};

}  // namespace atl::http
