// Cuts the largest logs of the user whose logs are largest together, and reports it in the server's log. It
// cuts while all logs exceed their budget, as those of an older data directory may. It also cuts while the
// disk has less free than its reserve and the database has no room of its own for what must be written. A log
// at rest is loaded for it. It looks when it is told to, and then again until nothing is left to do, or
// nothing could be cut.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/conversation/residents.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

class LogCuts {
  public:
    using Get = std::function<void(const std::string& id, Residents::Found found)>;
    LogCuts(Context& context, Get get) : context_(context), get_(std::move(get)) {}
    ~LogCuts();
    LogCuts(const LogCuts&) = delete;
    LogCuts& operator=(const LogCuts&) = delete;

    void look();
    /// Counts the logs that the store has up to this key, in LogShares, and looks. Then has the workspaces of
    /// their users measured, as many at a time as the disk's guard takes. Call once.
    void count(std::int64_t last_key) { read({0, last_key}, Pass::count); }

  private:
    enum class Pass : std::uint8_t { count, measure };

    /// Reads the logs of the range page by page.
    void read(const LogRange& range, Pass pass);
    void read_later(base::Millis pause, const LogRange& range, Pass pass);
    std::uint64_t excess() const;
    void cut(const std::vector<std::string>& ids);
    void arm();

    Context& context_;
    Get get_;
    bool is_asked_ = false;
    std::uint64_t left_ = 0;  // the bytes to cut in this round
    base::TimerId timer_ = 0;
    std::shared_ptr<LogCuts*> self_ = std::make_shared<LogCuts*>(this);  // null inside once destroyed
};

}  // namespace atl::conversation
