#include "core/execution/execution.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "core/base/ids.hpp"
#include "core/base/json_writer.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/execution/execution_call.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::execution {

using base::Errc;
using base::Error;

namespace {

constexpr std::size_t k_event_overhead_bytes = 128;
// Kept free for the last entry of the logs.
constexpr std::size_t k_logs_end_bytes = 1024;
constexpr std::string_view k_logs_end_json =
    R"("logs end here: the run has used its bytes for events and calls")";
static_assert(k_logs_end_json.size() + 2 * k_event_overhead_bytes < k_logs_end_bytes);

std::string log_entry(std::string_view level, std::string_view text_json) {
    std::string data;
    base::JsonWriter json(data);
    json.begin_object();
    json.key("level").string(level);
    json.key("text").raw(text_json);
    json.end_object();
    return data;
}

constexpr std::string_view k_denial_begin = "the tool ";
constexpr std::string_view k_denial_end = " is denied";

std::string denial(const std::string& tool) {
    return std::string(k_denial_begin).append(tool).append(k_denial_end);
}

/// True if `message` contains the denial of one of `tools`. A single pass finds it: both may be long.
bool has_denial(std::string_view message, const std::set<std::string_view>& tools) {
    std::size_t at = tools.empty() ? std::string_view::npos : message.find(k_denial_begin);
    while (at != std::string_view::npos) {
        at += k_denial_begin.size();
        const std::string_view rest = message.substr(at, k_tool_name_bytes + k_denial_end.size());
        const std::size_t end = rest.find(k_denial_end);
        if (end != std::string_view::npos && tools.contains(rest.substr(0, end)))
            return true;
        at = message.find(k_denial_begin, at);
    }
    return false;
}

}  // namespace

Execution::Execution(ExecutionContext context, std::uint64_t key, ExecutionRequest request, Callbacks told)
    : context_(context),
      id_(base::new_id()),
      key_(key),
      request_(std::move(request)),
      callbacks_(std::move(told)),
      created_at_(context.clock.wall_now()),
      steps_left_(base::k_call_check_steps) {}

Execution::~Execution() {
    context_.timers.cancel(timer_);
}

sandbox::Limits limits_of_run(std::uint32_t memory_mb, std::uint32_t cpu_percent) {
    sandbox::Limits limits;
    limits.memory_mb = memory_mb;
    limits.cpu_percent = cpu_percent;
    limits.disk_mb = base::k_execution_file_mb;
    limits.max_processes = base::k_execution_processes;
    limits.max_sockets = base::k_execution_sockets;
    limits.max_open_files = base::k_execution_open_files;
    return limits;
}

sandbox::Limits Execution::limits() const {
    return limits_of_run(request_.memory_mb, request_.cpu_percent);
}

void Execution::start(std::optional<Runner> runner) {
    state_ = State::starting;
    auto on_exit = [self = weak_from_this()](const sandbox::Exit& exit) {
        if (const auto it = self.lock())
            it->on_sandbox_exit(exit);
    };
    if (runner) {
        is_from_pool_ = true;
        is_engine_ready_ = true;
        sandbox_id_ = std::move(runner->sandbox_id);
        program_ = std::move(runner->program);
        *runner->on_exit = std::move(on_exit);
        begin();
        return give_program();
    }
    auto made = context_.sandboxes.create_ephemeral({limits(), request_.holder}, std::move(on_exit));
    if (!made)
        return refuse(made.error());
    sandbox_id_ = std::move(*made);
    sandbox::AgentSpec agent;
    agent.dir = request_.engine->folder;
    context_.sandboxes.start(sandbox_id_, agent, [self = weak_from_this()](const base::Result<void>& ready) {
        if (const auto it = self.lock())
            it->on_sandbox_ready(ready);
    });
}

void Execution::refuse(const Error& why) {
    if (is_promised_)
        return fail("crashed", "the run could not begin: " + why.detail());
    refusal_ = why;
    state_ = State::ended;
    ended_at_ = context_.clock.wall_now();
    release();
}

void Execution::on_sandbox_ready(const base::Result<void>& ready) {
    if (state_ != State::starting)
        return;
    if (!ready)
        return refuse(ready.error());
    sandbox::Operations* const operations = context_.sandboxes.operations(sandbox_id_);
    if (operations == nullptr)
        return refuse(Error(Errc::sandbox_failed, "the sandbox of the program ended at once"));
    begin();
    program_ = context_.programs.start(*operations, *request_.engine, *this);
    give_program();
}

void Execution::give_program() {
    ProgramSpec spec;
    spec.language = request_.language;
    spec.code = std::exchange(request_.code, {});
    spec.tools = request_.tool_names;
    spec.max_calls = request_.max_calls;
    spec.max_value_bytes = base::k_max_execution_value_bytes;
    spec.max_log_bytes = request_.max_output_bytes;
    spec.user = request_.holder.name();
    arm(base::k_engine_ready_deadline,
        [this] { fail("crashed", "the engine was not ready within its time"); });
    program_->run(std::move(spec), *this);
}

void Execution::begin() {
    state_ = State::running;
    has_begun_ = true;
    began_ = context_.clock.steady_now();
    std::string data;
    base::JsonWriter json(data);
    json.begin_object();
    json.key("executionId").string(id_);
    json.key("executor").string(request_.engine->name);
    if (!warnings().empty())
        json.key("warnings").raw(warnings());
    json.end_object();
    add(event::start, std::move(data));
}

void Execution::on_running() {
    if (state_ != State::running)
        return;
    if (!std::exchange(is_engine_ready_, true))
        callbacks_.ready(*this);
    began_ = context_.clock.steady_now();
    arm(request_.time, [this] {
        fail("timeout",
             "the program did not end within " + std::to_string(request_.time.count()) + " milliseconds");
    });
}

void Execution::on_log(const std::string& level, const std::string& text_json) {
    if (state_ != State::running || have_logs_ended_)
        return;
    // The logs may be longer as JSON than the engine counts them.
    std::string data = log_entry(level, text_json);
    if (!has_room(data.size())) {
        have_logs_ended_ = true;
        data = log_entry("warn", k_logs_end_json);
    }
    add(event::log, std::move(data));
}

bool Execution::has_room(std::size_t bytes) const {
    return event_bytes_ + bytes + k_event_overhead_bytes + k_logs_end_bytes <=
               base::k_max_execution_event_bytes &&
           may_keep(bytes);
}

bool Execution::may_keep(std::size_t bytes) const {
    return !is_detached() ||
           callbacks_.may_keep(*this, event_bytes_ + bytes + k_event_overhead_bytes + k_logs_end_bytes);
}

void Execution::on_call(std::uint64_t id, const std::string& name, const std::string& args_json) {
    if (state_ != State::running)
        return;
    in_program_ = true;
    if (!may_keep(sizeof(Call))) {
        fail("no_room", "the calls of this run found no room in the budget `results`");
        in_program_ = false;
        return;
    }
    Call& call = *calls_.emplace_back(std::make_unique<Call>());
    call.id = id;
    call.name = name;
    // Also of those that nobody sees: they are kept for the result.
    event_bytes_ += sizeof(Call);
    call.began = context_.clock.steady_now();
    using Verdict = ToolSet::Verdict;
    const auto verdict = request_.tools ? request_.tools->check_call(name, args_json, steps_of_turn())
                                        : base::Result<Verdict>(Error(Errc::internal, "no tools"));
    if (!verdict) {
        reject(call, "refused", verdict.error().detail());
    } else if (verdict->policy == Policy::deny) {
        reject(call, "denied", denial(name));
    } else if (!has_room(args_json.size())) {
        reject(call, "refused", "the calls of this run have more bytes of arguments than one may have");
    } else {
        call.policy = verdict->policy;
        call.args_json = args_json;
        if (verdict->arguments == Verdict::Arguments::fit)
            show(call);
        else
            check_elsewhere(call);
    }
    in_program_ = false;
}

/// The steps that checks may still take in this turn of the loop: a program sends many calls at once.
std::size_t& Execution::steps_of_turn() {
    if (!std::exchange(steps_return_, true))
        context_.timers.defer([self = weak_from_this()] {
            if (const auto it = self.lock()) {
                it->steps_left_ = base::k_call_check_steps;
                it->steps_return_ = false;
            }
        });
    return steps_left_;
}

// The program is held meanwhile: what it says behind this call is told behind it.
void Execution::check_elsewhere(Call& call) {
    if (context_.checks == nullptr)
        return reject(call, "refused", call.name + ": this takes more work to check than the server may do");
    call.status = "checking";
    program_->hold();
    auto done = [self = weak_from_this(), id = call.id](const base::Result<void>& checked) {
        if (const auto it = self.lock(); it && it->state_ == State::running)
            it->on_checked(id, checked);
    };
    check_ = context_.checks->check(request_.holder.name(), call.name, request_.tools->schema_of(call.name),
                                    call.args_json, std::move(done));
}

void Execution::on_checked(std::uint64_t id, const base::Result<void>& checked) {
    check_.reset();
    Call& call = *calls_[id - 1];
    if (checked)
        show(call);
    else if (checked.error().code() == Errc::invalid_field)
        reject(call, "refused", checked.error().detail());
    else
        reject(call, "refused",
               call.name + ": the arguments could not be checked: " + checked.error().detail());
    program_->resume();
}

/// To the caller, or to the host.
void Execution::show(Call& call) {
    call.is_hosted = request_.host && request_.host->has(call.name);
    call.status = call.policy == Policy::ask ? "asked" : "open";
    std::string data;
    base::JsonWriter json(data);
    json.begin_object();
    json.key("callId").string(call_name(call.id));
    json.key("name").string(call.name);
    json.key("args").raw(call.args_json);
    json.key("policy").string(policy_name(call.policy));
    json.key("answeredBy").string(call.is_hosted ? "sandbox" : "caller");
    json.end_object();
    add(event::tool_call, std::move(data));
    if (call.is_hosted && call.policy == Policy::allow)
        hand_to_host(call);
}

void Execution::hand_to_host(Call& call) {
    call.status = "open";
    auto done = [self = weak_from_this(), id = call.id](base::Result<std::string> answer) {
        if (const auto it = self.lock(); it && it->state_ == State::running && it->calls_[id - 1]->is_open())
            it->on_hosted(id, std::move(answer));
    };
    call.hosted = request_.host->call(call.name, call.args_json, std::move(done));
}

void Execution::on_hosted(std::uint64_t id, base::Result<std::string> answer) {
    Call& call = *calls_[id - 1];
    // Not destroyed inside of its own call.
    context_.timers.defer([hosted = std::shared_ptr<HostedCall>(std::move(call.hosted))] {});
    if (!answer)
        return reject(call, "failed", answer.error().detail());
    if (answer->size() > base::k_small_answer_bytes && context_.checks != nullptr) {
        auto done = [self = weak_from_this(), id](const base::Result<std::string>& value) {
            if (const auto it = self.lock(); it && it->state_ == State::running)
                it->on_hosted_read(id, value);
        };
        call.reading =
            context_.checks->read_value(request_.holder.name(), std::move(*answer), std::move(done));
        return;
    }
    if (program_->answer(id, *answer))
        settle(call, "answered");
    else
        reject(call, "failed", "the tool's answer is too long");
}

void Execution::on_hosted_read(std::uint64_t id, const base::Result<std::string>& value) {
    Call& call = *calls_[id - 1];
    call.reading.reset();
    if (value && program_->answer_checked(id, *value))
        return settle(call, "answered");
    if (value)
        return reject(call, "failed", "the tool's answer is too long");
    const Errc code = value.error().code();
    const bool is_no_json = code == Errc::invalid_json || code == Errc::invalid_utf8;
    reject(call, "failed",
           is_no_json ? "the tool's answer is no JSON"
                      : "the tool's answer could not be read: " + value.error().detail());
}

void Execution::settle(Call& call, std::string_view status) {
    call.status = status;
    call.args_json = {};
    call.took = std::chrono::duration_cast<base::Millis>(context_.clock.steady_now() - call.began);
}

void Execution::reject(Call& call, std::string_view status, const std::string& message) {
    program_->answer_error(call.id, message);
    settle(call, status);
}

Execution::Call* Execution::find_call(std::string_view call_id) const {
    // The program numbers them from 1.
    std::uint64_t id = 0;
    if (!call_id.starts_with('c'))
        return nullptr;
    const auto parsed = std::from_chars(call_id.data() + 1, call_id.data() + call_id.size(), id);
    const bool is_one = parsed.ec == std::errc() && id >= 1 && id <= calls_.size();
    // A call has a single name: `c1`, not `c01`.
    return is_one && call_id == call_name(id) ? calls_[id - 1].get() : nullptr;
}

base::Result<void> Execution::awaits_answer(std::string_view call_id) const {
    const Call* const call = find_call(call_id);
    if (call == nullptr || call->is_unseen())
        return Error(Errc::not_found, "The execution has no such call.");
    if (has_ended())
        return Error(Errc::execution_ended);
    if (!call->is_open())
        return Error(Errc::call_answered);
    return {};
}

base::Result<void> Execution::answer(std::string_view call_id, const CallAnswer& answer) {
    if (auto awaited = awaits_answer(call_id); awaited.has_error())
        return awaited;
    Call* const call = find_call(call_id);
    const bool is_asked = call->status == "asked";
    if (answer.decision == CallAnswer::Decision::deny && is_asked) {
        reject(*call, "denied", denial(call->name));
        return {};
    }
    if (answer.decision != CallAnswer::Decision::none) {
        if (!is_asked)
            return Error(Errc::call_answered, "No decision is asked for: this call waits for its answer.");
        call->status = "open";
        if (call->is_hosted)
            hand_to_host(*call);
        return {};
    }
    if (call->is_hosted)
        return Error(Errc::invalid_field, "The sandbox answers this call itself.");
    if (is_asked)
        return Error(Errc::invalid_field, "This call waits for a decision first: send `decision`.");
    if (answer.error) {
        reject(*call, "failed", *answer.error);
        return {};
    }
    const bool is_taken = answer.result_text == CallAnswer::Text::checked
                              ? program_->answer_checked(call->id, *answer.result_json)
                              : program_->answer(call->id, *answer.result_json);
    if (!is_taken)
        return Error(Errc::invalid_field, "The result is longer than 1 MiB as JSON, or too deep.")
            .at("/result");
    settle(*call, "answered");
    return {};
}

// A program that lets the refusal of a tool through has failed for that.
void Execution::on_end(std::optional<std::string> value_json, std::optional<Failure> failure) {
    in_program_ = true;
    if (failure && failure->kind == "runtime") {
        std::set<std::string_view> denied;
        for (const auto& call : calls_) {
            if (call->status == "denied")
                denied.insert(call->name);
        }
        if (has_denial(failure->message, denied))
            failure->kind = "denied";
    }
    finish(value_json, failure);
    in_program_ = false;
}

void Execution::on_broken(Failure failure) {
    in_program_ = true;
    // The kernel ends the processes of a group that is out of memory, and tells it a moment later.
    const auto limit =
        state_ == State::running ? context_.sandboxes.limit_reached(sandbox_id_) : std::nullopt;
    if (!is_engine_ready_ && !limit)
        engine_failure_ = failure.message;
    if (limit)
        on_sandbox_exit(*limit);
    else
        finish(std::nullopt, std::move(failure));
    in_program_ = false;
}

void Execution::on_lost(const Error& error) {
    in_program_ = true;
    const auto limit =
        state_ == State::running ? context_.sandboxes.limit_reached(sandbox_id_) : std::nullopt;
    if (limit)
        on_sandbox_exit(*limit);
    else if (state_ == State::running)
        arm(base::k_end_cause_wait, [this, why = error.detail()] { fail("crashed", why); });
    in_program_ = false;
}

void Execution::on_sandbox_exit(const sandbox::Exit& exit) {
    if (state_ != State::running)
        return;
    if (exit.exit_class == sandbox::ExitClass::oom)
        return fail("memory", "the program and its engine needed more than the memory limit of " +
                                  std::to_string(request_.memory_mb) + " MB");
    fail("crashed", "the sandbox of the program has ended: " + exit.detail);
}

void Execution::cancel(std::string_view why) {
    if (!has_ended())
        fail("cancelled", std::string(why));
}

void Execution::fail(std::string kind, std::string message) {
    finish(std::nullopt, Failure{std::move(kind), std::move(message), std::nullopt});
}

void Execution::finish(const std::optional<std::string>& value_json, const std::optional<Failure>& failure) {
    if (has_ended())
        return;
    if (state_ == State::running)
        took_ = std::chrono::duration_cast<base::Millis>(context_.clock.steady_now() - began_);
    for (const auto& call : calls_) {
        if (call->is_open() || call->is_unseen())
            settle(*call, "unanswered");
        call->hosted.reset();
        call->reading.reset();
    }
    check_.reset();
    has_begun_ = true;
    state_ = State::ended;
    ended_at_ = context_.clock.wall_now();
    base::LogLine line(base::evt::execution_ended);
    line.field("exec", id_).field("sbx", sandbox_id_).field("executor", request_.engine->name);
    line.field("dur_ms", took_.count()).field("pooled", is_from_pool_ ? "yes" : "no");
    if (failure)
        line.field("err", failure->kind);
    line.info();
    std::string outcome = make_outcome(value_json, failure);
    if (!may_keep(outcome.size()))
        outcome =
            make_outcome(std::nullopt,
                         Failure{"no_room", "the result found no room in the budget `results`", std::nullopt},
                         Calls::dropped);
    add(event::result, std::move(outcome));
    add(event::done, "{}");
    release();
}

// The place is free once the sandbox is gone.
void Execution::release() {
    const auto self = shared_from_this();
    context_.timers.cancel(std::exchange(timer_, 0));
    request_.code = {};
    drop_program();
    followers_.wake_all();
    callbacks_.ended(*this);
    if (sandbox_id_.empty())
        return context_.timers.defer([self] { self->callbacks_.left(*self); });
    context_.sandboxes.remove(
        sandbox_id_, [] {}, [self] { self->callbacks_.left(*self); });
}

void Execution::drop_program() {
    if (in_program_)
        context_.timers.defer([program = std::shared_ptr<Program>(std::move(program_))] {});
    else
        program_.reset();
}

void Execution::arm(base::Millis time, std::function<void()> fire) {
    context_.timers.cancel(timer_);
    timer_ = context_.timers.arm(time, [this, fire = std::move(fire)] {
        timer_ = 0;
        fire();
    });
}

void Execution::add(std::string_view type, std::string data) {
    event_bytes_ += data.size() + k_event_overhead_bytes;
    events_.push_back({events_.size() + 1, type, context_.clock.wall_now(), std::move(data)});
    followers_.wake_all();
}

std::span<const ExecutionEvent> Execution::events(std::uint64_t after) const {
    const std::span<const ExecutionEvent> all(events_);
    return after < all.size() ? all.subspan(after) : std::span<const ExecutionEvent>();
}

}  // namespace atl::execution
