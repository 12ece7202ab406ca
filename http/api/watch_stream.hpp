// A watch of a sandbox's files as Server-Sent Events, without ids: changes are not kept. Frames are objects
// with `type`: started, changes, rescan, incomplete, paused, and at the end stream_closed {code, detail}.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/conversation/file_watches.hpp"
#include "http/access/client_limits.hpp"
#include "http/api/event_stream.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// Which changes a client wants to hear of: those below a directory, or only of its own entries.
class WatchScope {
  public:
    enum class Depth : std::uint8_t { all, entries };
    enum class Home : bool { left_out, shown };  // base::k_home_names of the workspace

    /// `path` is path text, relative to the workspace; empty is the workspace.
    explicit WatchScope(std::string_view path = {}, Depth depth = Depth::all, Home home = Home::shown);
    /// The change as it looks from in here. Nothing: it does not touch anything in here.
    std::optional<sandbox::FileChange> seen(const sandbox::FileChange& change) const;

  private:
    bool has(std::string_view path) const noexcept;

    std::string prefix_;  // with a slash at the end; empty: everything
    Depth depth_;
    bool without_home_ = false;
};

class FileWatchStream final : public BodyStream {
  public:
    /// `lease` is kept as long as the stream.
    FileWatchStream(std::unique_ptr<conversation::FileWatch> watch, StreamLease lease, WatchScope scope,
                    EventNames names)
        : watch_(std::move(watch)), lease_(std::move(lease)), scope_(std::move(scope)), names_(names) {}

    State pull(std::string& out, std::size_t limit_bytes) override;
    void on_wake(StreamWake wake) override { watch_->on_wake(std::move(wake)); }
    void heartbeat(std::string& out) override;
    void end_early(base::Errc reason, std::string& out) override;

  private:
    void begin_frame(std::string& out, std::string_view type) const;
    void write(std::string& out, const conversation::WatchNote& note) const;
    void write_changes(std::string& out, const sandbox::FileChanges& changes) const;
    void write_closed(std::string& out, const base::Error& why) const;

    std::unique_ptr<conversation::FileWatch> watch_;
    StreamLease lease_;
    WatchScope scope_;
    EventNames names_;
};

}  // namespace atl::http
