// The streamed form of an exec: Server-Sent Events whose data is {type:"stdout"|"stderr", text | base64},
// and at the end {type:"exit", …}, or `stream_closed {code, detail}` where it is not known how the program
// ended. Text is never cut inside a character. A reader that is slow holds the program.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "http/access/client_limits.hpp"
#include "http/api/event_stream.hpp"
#include "http/api/exec_run.hpp"
#include "http/api/output_room.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

class ExecStream final : public BodyStream, private ExecSink {
  public:
    /// `lease` is kept as long as the stream. `max_output_bytes`: of stdout, and of stderr; what comes behind
    /// is dropped, and the program goes on.
    ExecStream(StreamLease lease, EventNames names, std::size_t max_output_bytes)
        : lease_(std::move(lease)), names_(names), max_output_bytes_(max_output_bytes) {}

    /// Starts the program. Once, first. As the constructor of ExecRun.
    ExecRun& start(std::unique_ptr<conversation::Lease> lease, sandbox::Operations& operations, ExecForm form,
                   const base::Clock& clock, base::Timers& timers);

    /// Output that waits for the client is of this room from now on.
    void keep_within(OutputRoom room) { room_ = std::move(room); }

    State pull(std::string& out, std::size_t limit_bytes) override;
    void on_wake(StreamWake wake) override { run_->on_change(std::move(wake)); }
    void heartbeat(std::string& out) override;
    void end_early(base::Errc reason, std::string& out) override;

  private:
    struct Piece {
        sandbox::OutputKind kind;
        std::string bytes;
    };
    struct Output {
        std::size_t taken_bytes = 0;
        bool is_truncated = false;
        std::string open;  // the beginning of a character
    };

    void take(sandbox::OutputKind kind, std::string_view bytes) override;
    bool is_full() const override { return kept_bytes() >= room_.bytes(); }
    std::size_t kept_bytes() const noexcept { return waiting_bytes_ + waiting_.size() * sizeof(Piece); }

    void write_piece(std::string& out, Piece piece);
    void write_data(std::string& out, sandbox::OutputKind kind, std::string_view bytes) const;
    void write_end(std::string& out);
    void write_exit(std::string& out, const ExecEnd& end) const;
    void write_closed(std::string& out, const base::Error& error) const;
    void begin_frame(std::string& out, std::string_view type) const;

    StreamLease lease_;
    EventNames names_;
    std::size_t max_output_bytes_;
    std::array<Output, 2> outputs_;
    std::deque<Piece> waiting_;
    std::size_t waiting_bytes_ = 0;
    OutputRoom room_;
    std::unique_ptr<ExecRun> run_;
};

}  // namespace atl::http
