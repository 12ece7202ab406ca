// The events of an execution as Server-Sent Events, from a number on, to its `done`: `id` is the number and
// `data` {seq, type, at, data}. Also what ends a run whose client leaves. Not here: the events
// (core/execution).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/execution/execution.hpp"
#include "http/access/client_limits.hpp"
#include "http/api/event_stream.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// The client that began a run; the run ends with it, unless it is detached.
class CancelOnDisconnect {
  public:
    explicit CancelOnDisconnect(std::shared_ptr<execution::Execution> execution)
        : execution_(std::move(execution)) {}
    ~CancelOnDisconnect() {
        if (!execution_->is_detached())
            execution_->cancel("the client that began the run has left");
    }
    CancelOnDisconnect(const CancelOnDisconnect&) = delete;
    CancelOnDisconnect& operator=(const CancelOnDisconnect&) = delete;

  private:
    std::shared_ptr<execution::Execution> execution_;
};

class ExecutionStream final : public BodyStream {
  public:
    /// `cancel_on_disconnect` is null where the stream only follows.
    ExecutionStream(std::shared_ptr<execution::Execution> execution, std::uint64_t after, EventNames names,
                    StreamLease lease, std::unique_ptr<CancelOnDisconnect> cancel_on_disconnect)
        : cancel_on_disconnect_(std::move(cancel_on_disconnect)),
          lease_(std::move(lease)),
          follower_(std::move(execution)),
          cursor_(after),
          names_(names) {}

    State pull(std::string& out, std::size_t limit_bytes) override;
    void on_wake(StreamWake wake) override { follower_.on_wake(std::move(wake)); }
    void heartbeat(std::string& out) override { out += ": heartbeat\n\n"; }
    void end_early(base::Errc reason, std::string& out) override;

  private:
    std::unique_ptr<CancelOnDisconnect> cancel_on_disconnect_;
    StreamLease lease_;
    execution::Execution::Follower follower_;
    std::uint64_t cursor_;
    EventNames names_;
};

}  // namespace atl::http
