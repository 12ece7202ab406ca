// The generations of a conversation's sandbox, as a part of the conversation. This starts, stops, freezes and
// thaws the living generation through the sandbox manager, and starts the agent inside it. A program in a
// later generation is told of the turns before it. The result goes to the owner, from the loop. Internal to
// core/conversation.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/conversation/actions.hpp"
#include "core/conversation/admission.hpp"
#include "core/conversation/past_turns.hpp"
#include "core/conversation/settings.hpp"
#include "core/sandbox/reservation.hpp"

namespace atl::conversation {

class GenerationOwner {
  public:
    /// The generation has its place: it begins to live.
    virtual void on_living() = 0;
    virtual void on_started(const base::Result<void>& result) = 0;
    virtual void on_agent_started(const base::Result<void>& result) = 0;
    virtual void on_frozen(const base::Result<void>& result) = 0;

  protected:
    ~GenerationOwner() = default;
};

class Generations {
  public:
    /// `conversation`, `sandbox` and `log` are read at each call.
    Generations(Context& context, Admission& admission, GenerationOwner& owner, const Record& conversation,
                const sandbox::Record& sandbox, const EventLog& log);
    ~Generations() { *self_ = nullptr; }
    Generations(const Generations&) = delete;
    Generations& operator=(const Generations&) = delete;

    /// Starts a generation. It first reads the turns that the agent is told, then waits for a place if it
    /// must.
    void start(AgentStart agent);
    /// Starts the first generation: the pool may have started it already.
    void claim_or_start();
    void start_agent();
    void stop(sandbox::ExitClass exit_class, const std::string& reason);
    void freeze();
    void thaw();
    /// Cancels a start of the generation or of an agent. Returns true if the generation waited to be started.
    bool cancel_start();

  private:
    using PastRead = std::function<void(std::string turns)>;

    void read_past(const sandbox::AgentSpec& agent, PastRead go_on);
    void admit(AgentStart agent, std::string past);
    void launch(AgentStart agent, const std::string& past, const base::Result<void>& admitted);
    void launch_agent(const std::string& past);
    sandbox::AgentSpec told(const std::string& past, std::uint32_t generation) const;
    void take_over_warm();
    /// Calls `call` from the loop, if this is still there.
    template <class Call>
    void later(Call call);

    Context& context_;
    Admission& admission_;
    GenerationOwner& owner_;
    const Record& conversation_;
    const sandbox::Record& sandbox_;
    const EventLog& log_;
    std::optional<PastTurns> past_;                // the turns that are being read
    std::unique_ptr<sandbox::Reservation> place_;  // while it is read for a start
    bool is_start_reading_ = false;                // the read is for a generation, not for an agent in one
    std::shared_ptr<Generations*> self_;           // null inside once it is destroyed
};

}  // namespace atl::conversation
