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
                         const Record& conversation, const sandbox::Record& sandbox, const EventLog& log)
    : context_(context),
      admission_(admission),
      owner_(owner),
      conversation_(conversation),
      sandbox_(sandbox),
      log_(log),
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
    past_.reset();  // for an agent in a generation that is gone
    place_.reset();
    if (agent == AgentStart::on_demand)
        return admit(agent, {});
    const sandbox::AgentSpec* const configured = context_.settings.find_agent(conversation_.agent);
    if (configured == nullptr)
        return later([](Generations& it) { it.owner_.on_started(no_agent()); });
    // Reads the past turns before a place is asked for, which must be taken in that call.
    is_start_reading_ = true;
    place_ = context_.sandboxes.reserve({sandbox_.limits, sandbox_.holder});
    read_past(*configured, [this](std::string past) {
        place_.reset();
        admit(AgentStart::at_once, std::move(past));
    });
}

/// Calls `go_on` with the turns that `agent` is to be told; at once where the agent is no program.
void Generations::read_past(const sandbox::AgentSpec& agent, PastRead go_on) {
    const bool is_told = agent.kind == sandbox::AgentSpec::Kind::command;
    if (!is_told || log_.finished_before(log_.last_seq(), 0).last_seq == 0)
        return go_on({});
    past_.emplace(context_.timers, log_, conversation_.id, [this, go_on](std::string turns) {
        past_.reset();
        go_on(std::move(turns));
    });
}

void Generations::admit(AgentStart agent, std::string past) {
    admission_.admit(conversation_.id, {sandbox_.limits, sandbox_.holder},
                     [self = self_, agent, past = std::move(past)](const Result<void>& admitted) {
                         if (*self != nullptr)
                             (*self)->launch(agent, past, admitted);
                     });
}

/// The conversation's agent, with its `resume` line for this generation.
sandbox::AgentSpec Generations::told(const std::string& past, std::uint32_t generation) const {
    sandbox::AgentSpec spec;
    if (const sandbox::AgentSpec* const configured = context_.settings.find_agent(conversation_.agent))
        spec = *configured;
    const bool is_first = generation == 1 && past.empty();
    if (spec.kind == sandbox::AgentSpec::Kind::command && !is_first)
        spec.resume = resume_command(conversation_.id, generation, past);
    return spec;
}

void Generations::launch(AgentStart agent, const std::string& past, const Result<void>& admitted) {
    if (!admitted)
        return later([error = admitted.error()](Generations& it) { it.owner_.on_started(error); });
    owner_.on_living();
    const sandbox::Record* const known = context_.sandboxes.find(conversation_.sandbox_id);
    sandbox::AgentSpec spec = told(past, known != nullptr ? known->generation + 1 : 1);
    if (agent == AgentStart::on_demand) {
        spec.kind = sandbox::AgentSpec::Kind::none;  // its folder is shown all the same
        spec.resume.clear();
    }
    // A generation that is still going down ends first; the machine has been told already.
    context_.sandboxes.start(conversation_.sandbox_id, spec, [self = self_](const Result<void>& result) {
        if (*self != nullptr)
            (*self)->owner_.on_started(result);
    });
}

void Generations::start_agent() {
    const sandbox::AgentSpec* const agent = context_.settings.find_agent(conversation_.agent);
    if (agent == nullptr)
        return later([](Generations& it) { it.owner_.on_agent_started(no_agent()); });
    past_.reset();
    is_start_reading_ = false;
    read_past(*agent, [this](const std::string& past) { launch_agent(past); });
}

void Generations::launch_agent(const std::string& past) {
    sandbox::Channel* const guest = context_.sandboxes.channel(conversation_.sandbox_id);
    // Where the generation is going down, its exit follows.
    if (guest == nullptr)
        return later([](Generations& it) {
            it.owner_.on_agent_started(Error(Errc::sandbox_failed, "the sandbox went down"));
        });
    const std::uint32_t generation = context_.sandboxes.find(conversation_.sandbox_id)->generation;
    guest->start_agent(told(past, generation), [self = self_](const Result<void>& result) {
        if (*self != nullptr)
            (*self)->owner_.on_agent_started(result);
    });
}

void Generations::stop(sandbox::ExitClass exit_class, const std::string& reason) {
    if (cancel_start())
        return later([](Generations& it) {
            it.owner_.on_started(Error(Errc::sandbox_failed, "it was stopped first"));
        });
    context_.sandboxes.stop(conversation_.sandbox_id, exit_class, reason, [] {});
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

bool Generations::cancel_start() {
    const bool was_reading = past_ && is_start_reading_;
    past_.reset();
    place_.reset();
    return admission_.cancel(conversation_.id) || was_reading;
}

}  // namespace atl::conversation
