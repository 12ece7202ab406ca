// Sandboxes without a conversation: made, kept in the store, listed, removed, ended when their time is up.
// Listing and looking up also cover those that belong to conversations. Internal to core/conversation.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "core/base/clock.hpp"
#include "core/conversation/admission.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

class StandaloneSandboxes {
  public:
    using SandboxView = Manager::SandboxView;

    StandaloneSandboxes(const base::Clock& clock, base::Timers& timers, sandbox::Manager& sandboxes,
                        Journal& journal, Admission& admission, const ManagerSettings& settings,
                        std::function<base::Result<void>()> room)
        : clock_(clock),
          timers_(timers),
          sandboxes_(sandboxes),
          journal_(journal),
          admission_(admission),
          settings_(settings),
          room_(std::move(room)) {}

    void create(Manager::SandboxRequest request, Manager::Reply<SandboxView> reply);
    base::Result<SandboxView> get(const std::string& id) const;
    base::Result<Page<SandboxView>> list(std::size_t limit, const std::string& cursor) const;
    void remove(const std::string& id, Manager::Reply<void> reply);
    base::Result<Manager::SandboxUsage> usage(const std::string& id) const;
    base::Result<sandbox::LogPage> log(const std::string& id, std::uint64_t after,
                                       std::optional<sandbox::LogStream> only) const;

    /// Those without a conversation that are there or being made.
    std::size_t count() const noexcept { return count_; }

    /// One that the store remembers, with a conversation or without.
    void adopt(const sandbox::Record& record);
    /// One that a conversation just made.
    void enlist(const sandbox::Record& record);
    /// It was removed with its conversation.
    void delist(const sandbox::Record& record);

  private:
    using Order = std::pair<base::WallTime, std::string>;

    SandboxView view(const sandbox::Record& record) const;
    void arm_time_to_live(const sandbox::Record& record);

    const base::Clock& clock_;
    base::Timers& timers_;
    sandbox::Manager& sandboxes_;
    Journal& journal_;
    Admission& admission_;
    const ManagerSettings& settings_;
    std::function<base::Result<void>()> room_;  // for one more
    std::size_t count_ = 0;
    std::map<Order, std::string> order_;
    std::unordered_map<std::string, base::TimerId> timers_of_;
};

}  // namespace atl::conversation
