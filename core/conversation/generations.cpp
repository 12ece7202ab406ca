#include "core/conversation/generations.hpp"

#include <utility>

#include "core/sandbox/manager.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;
using base::Result;

namespace {

Error no_agent() {
    return {Errc::unknown_agent, "the conversation's agent is no longer configured"};
}

}  // namespace

Generations::Generations(Context& context, Admission& admission, GenerationOwner& owner,
                         const Record& conversation, const sandbox::Record& sandbox)
    : context_(context),
      admission_(admission),
      owner_(owner),
      conversation_(conversation),
      sandbox_(sandbox),
      self_(std::make_shared<Generations*>(this)) {}

template <class Call>
void Generations::later(Call call) {
    context_.timers.defer([self = self_, call = std::move(call)] {
        if (*self != nullptr)
            call(**self);
    });
}

void Generations::claim_or_start() {
    if (context_.sandboxes.channel(conversation_.sandbox_id) == nullptr)
        return start(AgentStart::at_once);
    later([](Generations& it) { it.take_over_warm(); });
}

void Generations::take_over_warm() {
    if (context_.sandboxes.channel(conversation_.sandbox_id) == nullptr)
        return owner_.on_started(
            Error(Errc::sandbox_failed, "the sandbox from the pool had just ended; try again"));
    owner_.on_living();
    owner_.on_started(Result<void>());
}

void Generations::start(AgentStart agent) {
    if (agent == AgentStart::at_once && context_.settings.find_agent(conversation_.agent) == nullptr)
        return later([](Generations& it) { it.owner_.on_started(no_agent()); });
    admission_.admit(conversation_.id, sandbox_.limits, [self = self_, agent](const Result<void>& admitted) {
        if (*self != nullptr)
            (*self)->launch(agent, admitted);
    });
}

void Generations::launch(AgentStart agent, const Result<void>& admitted) {
    if (!admitted)
        return later([error = admitted.error()](Generations& it) { it.owner_.on_started(error); });
    owner_.on_living();
    sandbox::AgentSpec spec;
    if (const sandbox::AgentSpec* const configured = context_.settings.find_agent(conversation_.agent))
        spec = *configured;
    if (agent == AgentStart::on_demand)
        spec.kind = sandbox::AgentSpec::Kind::none;  // its folder is shown all the same
    // A generation that is still going down ends first; then the machine has been told already.
    context_.sandboxes.start(conversation_.sandbox_id, spec, [self = self_](const Result<void>& result) {
        if (*self != nullptr)
            (*self)->owner_.on_started(result);
    });
}

void Generations::start_agent() {
    sandbox::Channel* const guest = context_.sandboxes.channel(conversation_.sandbox_id);
    const sandbox::AgentSpec* const agent = context_.settings.find_agent(conversation_.agent);
    if (guest == nullptr || agent == nullptr) {
        // Where the generation is going down, its exit follows.
        const Error error =
            agent == nullptr ? no_agent() : Error(Errc::sandbox_failed, "the sandbox went down");
        return later([error](Generations& it) { it.owner_.on_agent_started(error); });
    }
    guest->start_agent(*agent, [self = self_](const Result<void>& result) {
        if (*self != nullptr)
            (*self)->owner_.on_agent_started(result);
    });
}

void Generations::stop(const std::string& reason) {
    if (admission_.cancel(conversation_.id))
        return later([](Generations& it) {
            it.owner_.on_started(Error(Errc::sandbox_failed, "it was stopped first"));
        });
    context_.sandboxes.stop(conversation_.sandbox_id, sandbox::ExitClass::killed, reason, [] {});
}

void Generations::freeze() {
    // It is on its way down: the exit follows.
    if (!context_.sandboxes.can_freeze(conversation_.sandbox_id))
        return later([](Generations& it) {
            it.owner_.on_frozen(Error(Errc::sandbox_failed, "the sandbox is not ready"));
        });
    context_.sandboxes.freeze(conversation_.sandbox_id, [self = self_](const Result<void>& result) {
        if (*self != nullptr)
            (*self)->owner_.on_frozen(result);
    });
}

void Generations::thaw() {
    context_.sandboxes.thaw(conversation_.sandbox_id);
}

void Generations::cancel_start() {
    admission_.cancel(conversation_.id);
}

}  // namespace atl::conversation
