#include "core/execution/executions.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::execution {

using base::Errc;
using base::Error;

Executions::Executions(ExecutionContext context, Engines engines, ExecutionSettings settings, Room room,
                       Look look)
    : context_(context),
      engines_(std::move(engines)),
      settings_(std::move(settings)),
      room_(std::move(room)),
      look_(std::move(look)),
      places_({"programs",
               "programs that run",
               "A program that has ended gives its place to one that waits.",
               settings_.queue.running,
               1,
               {}},
              settings_.user_share_percent),
      queue_(settings_.queue, &places_),
      pool_({context.timers, context.sandboxes, context.programs, room_,
             [this] { return queue_.running() >= settings_.queue.running; },
             [this](const Engine& engine, std::string_view why) { on_engine_start(engine, why); }},
            engines_, settings_.pools,
            limits_of_run(settings_.memory_of_default_run(), settings_.default_cpu_percent)) {}

Executions::~Executions() {
    *self_ = nullptr;
    context_.timers.cancel(timer_);
    for (const auto& [engine, rest] : rests_)
        context_.timers.cancel(rest);
}

const Engines& Executions::engines_now() {
    look_again();
    return engines_;
}

base::Result<const Engine*> Executions::choose(std::string_view executor, std::optional<Language>& language) {
    auto engine = engines_.choose(executor, language);
    if (!engine && engine.error().code() == Errc::executor_unavailable && look_again())
        return engines_.choose(executor, language);
    return engine;
}

// The operator may have installed engines meanwhile. Looking reads some small files in the loop, as the start
// did, so it is rare, however many ask.
bool Executions::look_again() {
    const base::SteadyTime now = context_.clock.steady_now();
    if (!look_ || now < look_at_ || !engines_.is_incomplete())
        return false;
    look_at_ = now + base::k_engine_look_pause;
    const auto fresh = look_();
    // An engine that ended at its start has its package, and its time to rest.
    const auto may = [this](const Engine& engine) {
        const auto rest = rests_.find(&engine);
        return rest == rests_.end() || rest->second == 0;
    };
    if (!fresh || !engines_.renew(*fresh, may))
        return false;
    pool_.extend(engines_);
    return true;
}

base::Result<std::shared_ptr<Execution>> Executions::begin(ExecutionRequest request) {
    if (shutting_down_)
        return Error(Errc::shutting_down);
    const sandbox::Limits limits = limits_of_run(request.memory_mb, request.cpu_percent);
    // The run needs no room of its own if a waiting runner can take it, or if runners can give way to it.
    if (auto room = room_({limits, request.holder});
        !room && (room.error().code() != Errc::capacity ||
                  (!pool_.has(*request.engine, limits) && !can_make_room(limits))))
        return room.error();
    const std::uint64_t key = ++last_key_;
    if (request.on_disconnect == ExecutionRequest::OnDisconnect::finish) {
        if (auto room = make_room(key, request.holder, base::k_execution_reserved_bytes, GivingWay::all);
            !room)
            return room.error();
    }
    if (auto entered = queue_.enter(request.holder, key); !entered) {
        shares_.erase(key);
        return entered.error();
    }
    Execution::Callbacks told;
    told.may_keep = [self = self_](const Execution& it, std::size_t bytes) {
        return *self != nullptr &&
               (*self)->make_room(it.key(), it.holder(), bytes, GivingWay::all).has_value();
    };
    told.ready = [self = self_](const Execution& it) {
        if (*self != nullptr)
            (*self)->on_engine_start(it.engine(), "");
    };
    told.ended = [self = self_](Execution& it) {
        if (*self != nullptr)
            (*self)->on_ended(it);
    };
    told.left = [self = self_](const Execution& it) {
        if (*self != nullptr)
            (*self)->on_left(it);
    };
    auto made = std::make_shared<Execution>(context_, key, std::move(request), std::move(told));
    all_.emplace(key, made);
    keys_.emplace(made->id(), key);
    pump();
    return made;
}

// A start that is refused gives its place back at once, from inside.
void Executions::pump() {
    if (std::exchange(pumping_, true))
        return;
    while (const auto next = queue_.next()) {
        const auto found = all_.find(*next);
        if (found == all_.end() || found->second->has_ended()) {
            queue_.leave(*next);
            continue;
        }
        admit(std::shared_ptr<Execution>(found->second));
    }
    pumping_ = false;
}

void Executions::admit(const std::shared_ptr<Execution>& execution) {
    if (start_pooled(*execution))
        return;
    // It may have waited for long.
    if (!execution->engine().is_available()) {
        if (const auto other = choose_again(*execution); !other)
            return execution->refuse(other.error());
        if (start_pooled(*execution))
            return;
    }
    const sandbox::Limits limits = execution->limits();
    const auto room = room_({limits, execution->holder()});
    if (room) {
        ++begun_cold_;
        return execution->start(std::nullopt);
    }
    // A runner that waits gives way.
    const auto again = [self = self_, execution] {
        if (*self != nullptr && !execution->has_ended())
            (*self)->admit(execution);
    };
    if (!can_make_room(limits) || !pool_.shrink(again))
        execution->refuse(room.error());
}

bool Executions::start_pooled(Execution& execution) {
    pool_.note_run(execution.engine());
    if (!context_.sandboxes.has_share({execution.limits(), execution.holder()}))
        return false;
    auto runner = pool_.take(execution.engine(), execution.limits());
    if (!runner)
        return false;
    context_.sandboxes.give_to(runner->sandbox_id, execution.holder()).value();
    ++begun_pooled_;
    execution.start(std::move(runner));
    return true;
}

base::Result<void> Executions::choose_again(Execution& execution) {
    if (execution.choice() == ExecutionRequest::Choice::named)
        return execution.engine().unavailability();
    std::optional<Language> language = execution.language();
    const auto other = engines_.choose(k_auto_executor, language);
    if (!other)
        return other.error();
    execution.change_engine(**other);
    return {};
}

/// True if waiting runners hold the room that lacks; false if there is room, but others wait for it.
bool Executions::can_make_room(const sandbox::Limits& limits) const {
    const auto lacks = context_.sandboxes.room_for({limits});
    return !lacks && lacks.error().code() == Errc::capacity &&
           context_.sandboxes.room_for({limits}, pool_.held());
}

std::shared_ptr<Execution> Executions::find(const std::string& id) const {
    const auto key = keys_.find(id);
    return key == keys_.end() ? nullptr : all_.at(key->second);
}

std::vector<std::shared_ptr<Execution>> Executions::list(const std::optional<std::string>& user_id,
                                                         std::size_t limit, std::uint64_t below) const {
    std::vector<std::shared_ptr<Execution>> found;
    for (auto at = std::make_reverse_iterator(all_.lower_bound(below)); at != all_.rend(); ++at) {
        if (found.size() == limit)
            break;
        if (!user_id || at->second->user_id() == user_id)
            found.push_back(at->second);
    }
    return found;
}

void Executions::erase_user(const std::string& user_id) {
    for (const auto& execution : list(user_id, all_.size())) {
        execution->cancel("the user was erased");
        forget(execution->key());
    }
}

void Executions::shut_down() {
    shutting_down_ = true;
    pool_.close();
    for (const auto& execution : list(std::nullopt, all_.size()))
        execution->cancel("the server is stopping");
}

void Executions::on_ended(Execution& execution) {
    // A run with less memory than the default here may have too little for any engine.
    if (!execution.engine_failure().empty() &&
        execution.limits().memory_mb >= settings_.memory_of_default_run())
        on_engine_start(execution.engine(), execution.engine_failure());
    // A refused run is visible to its requester only.
    if (execution.refusal())
        return forget(execution.key());
    const std::uint64_t bytes = std::max(execution.event_bytes(), base::k_least_kept_execution_bytes);
    // The client of an attended run has its result.
    if (!execution.is_detached() && !make_room(execution.key(), execution.holder(), bytes, GivingWay::read))
        return forget(execution.key());
    base::Share& share = shares_.at(execution.key());
    share.shrink(share.amount() - std::min(bytes, share.amount()));
    ended_.emplace_back(context_.clock.steady_now(), execution.key());
    ended_of_[execution.holder().name()].push_back(execution.key());
    forget_old();
}

base::Result<void> Executions::make_room(std::uint64_t key, const base::ShareHolder& holder,
                                         std::uint64_t bytes, GivingWay giving_way) {
    base::Budget& budget = context_.results;
    const auto own = shares_.find(key);
    const std::uint64_t held = own == shares_.end() ? 0 : own->second.amount();
    if (bytes <= held)
        return {};
    const std::uint64_t lacking = bytes - held;
    std::vector<std::uint64_t> going;
    std::uint64_t given_back = 0;
    const auto ended = ended_of_.find(holder.name());
    for (const bool is_read : {true, false}) {
        if (ended == ended_of_.end() || (!is_read && giving_way == GivingWay::read))
            break;
        for (const std::uint64_t other : ended->second) {
            if (budget.room(holder, given_back) >= lacking)
                break;
            if (all_.at(other)->is_read() != is_read)
                continue;
            going.push_back(other);
            given_back += shares_.at(other).amount();
        }
    }
    if (budget.room(holder, given_back) < lacking)
        return budget.refusal(holder, lacking);
    for (const std::uint64_t other : going)
        forget(other);
    if (own != shares_.end())
        return own->second.grow(lacking);
    auto taken = budget.take(holder, lacking);
    if (taken)
        shares_.emplace(key, std::move(*taken));
    return taken ? base::Result<void>() : taken.error();
}

void Executions::on_engine_start(const Engine& engine, std::string_view why) {
    if (why.empty() && engine.is_available())
        return;
    base::TimerId& rest = rests_[&engine];
    context_.timers.cancel(std::exchange(rest, 0));
    if (why.empty())
        return engines_.set_reason(engine, "");
    if (engine.is_available())
        base::LogLine(base::evt::executor_failed).field("executor", engine.name).quoted("err", why).warn();
    engines_.set_reason(engine,
                        "it ended at its start and is tried again some minutes later: " + std::string(why));
    rest = context_.timers.arm(base::k_engine_rest, [this, &engine] {
        rests_[&engine] = 0;
        engines_.set_reason(engine, "");
    });
}

void Executions::on_left(const Execution& execution) {
    queue_.leave(execution.key());
    pump();
}

void Executions::forget(std::uint64_t key) {
    const auto found = all_.extract(key);
    if (found.empty())
        return;
    keys_.erase(found.mapped()->id());
    shares_.erase(key);
    if (std::erase_if(ended_, [key](const auto& one) { return one.second == key; }) == 0)
        return;
    const auto others = ended_of_.find(found.mapped()->holder().name());
    if (std::erase(others->second, key) > 0 && others->second.empty())
        ended_of_.erase(others);
}

void Executions::forget_old() {
    const base::SteadyTime now = context_.clock.steady_now();
    while (!ended_.empty() && now - ended_.front().first >= base::k_execution_kept)
        forget(ended_.front().second);
    context_.timers.cancel(std::exchange(timer_, 0));
    if (ended_.empty())
        return;
    const auto left = std::chrono::ceil<base::Millis>(ended_.front().first + base::k_execution_kept - now);
    timer_ = context_.timers.arm(std::max(left, base::Millis{0}), [this] {
        timer_ = 0;
        forget_old();
    });
}

}  // namespace atl::execution
