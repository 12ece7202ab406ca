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
    /// Counts the logs of the range that the store has, in LogShares, has the workspaces of their users
    /// measured, and looks. Call once.
    void count(const LogRange& range);

  private:
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
