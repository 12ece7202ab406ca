// The host's end of a watch: a call whose bytes are lines of JSON, each a change, a rescan or a count. A line
// that is too long, or not of that form, ends it. What a guest sends at a time is told by one call of each
// kind at the most: the changes, one rescan behind them for all, and the last count.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bridge/call_stream.hpp"
#include "core/sandbox/file_changes.hpp"

namespace atl::bridge {

class WatchStream final : public sandbox::Watch, private sandbox::CallObserver {
  public:
    /// `observer` must outlive this.
    WatchStream(std::shared_ptr<StreamContext> context, const std::string& path,
                sandbox::WatchObserver& observer);

    void resume() override { call_.resume(); }

  private:
    void on_reply(std::string_view) override { observer_.on_watching(); }
    void on_bytes(std::string_view bytes) override;
    void on_end() override;
    void on_failed(const base::Error& error) override { observer_.on_failed(error); }
    bool is_full() const override { return observer_.is_full(); }

    struct Lines {
        sandbox::FileChanges changes;
        bool rescan = false;
        std::optional<std::uint64_t> uncovered;
    };

    static bool handle_line(std::string_view line, Lines& lines);

    sandbox::WatchObserver& observer_;
    std::string open_line_;  // the beginning of a line
    CallStream call_;
};

}  // namespace atl::bridge
