// The generations of one conversation's sandbox, as a part of it: starts, stops, freezes and thaws the living
// one through the sandbox manager, and starts the agent inside it. What comes of it goes to the owner, from
// the loop. Internal to core/conversation.
#pragma once

#include <memory>
#include <string>

#include "core/conversation/actions.hpp"
#include "core/conversation/admission.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

class GenerationOwner {
  public:
    /// A place was given: it begins to live.
    virtual void on_living() = 0;
    virtual void on_started(const base::Result<void>& result) = 0;
    virtual void on_agent_started(const base::Result<void>& result) = 0;
    virtual void on_frozen(const base::Result<void>& result) = 0;

  protected:
    ~GenerationOwner() = default;
};

class Generations {
  public:
    /// `conversation` and `sandbox` are read at each call.
    Generations(Context& context, Admission& admission, GenerationOwner& owner, const Record& conversation,
                const sandbox::Record& sandbox);
    ~Generations() { *self_ = nullptr; }
    Generations(const Generations&) = delete;
    Generations& operator=(const Generations&) = delete;

    /// Waits for a place if it must.
    void start(AgentStart agent);
    /// The first one: the pool may have started it already.
    void claim_or_start();
    void start_agent();
    void stop(const std::string& reason);
    void freeze();
    void thaw();
    /// It will not start any more.
    void cancel_start();

  private:
    void launch(AgentStart agent, const base::Result<void>& admitted);
    void take_over_warm();
    /// `call` from the loop, if this is still there.
    template <class Call>
    void later(Call call);

    Context& context_;
    Admission& admission_;
    GenerationOwner& owner_;
    const Record& conversation_;
    const sandbox::Record& sandbox_;
    std::shared_ptr<Generations*> self_;  // null inside once it is destroyed
};

}  // namespace atl::conversation
