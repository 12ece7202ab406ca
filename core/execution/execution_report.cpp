// The JSON in which the API describes an execution and its result.
#include <utility>

#include "core/base/json_writer.hpp"
#include "core/execution/execution.hpp"
#include "core/execution/execution_call.hpp"

namespace atl::execution {

namespace {

void write_failure(base::JsonWriter& json, const Failure& failure) {
    json.begin_object();
    json.key("kind").string(failure.kind);
    json.key("message").string(failure.message);
    if (failure.line)
        json.key("line").number(*failure.line);
    json.end_object();
}

}  // namespace

std::string_view to_string(Execution::State state) noexcept {
    switch (state) {
        case Execution::State::waiting:
            return "waiting";
        case Execution::State::starting:
            return "starting";
        case Execution::State::running:
            return "running";
        case Execution::State::ended:
            return "ended";
    }
    return "";
}

void ExecutionEvent::write(std::string& out) const {
    base::JsonWriter json(out);
    json.begin_object();
    json.key("seq").number(seq);
    json.key("type").string(type);
    json.key("at").string(base::rfc3339(at));
    json.key("data").raw(data);
    json.end_object();
}

std::string Execution::make_outcome(const std::optional<std::string>& value_json,
                                    const std::optional<Failure>& failure, Calls calls) {
    std::string out = "{";
    if (value_json)
        out.append("\"result\":").append(*value_json).append(",");
    if (failure) {
        out += "\"error\":";
        base::JsonWriter json(out);
        write_failure(json, *failure);
        out += ',';
    }
    if (!warnings().empty())
        out.append("\"warnings\":").append(warnings()).append(",");
    logs_at_ = out.size();
    write_calls(out, calls);
    out.append(",\"durationMs\":").append(std::to_string(took_.count())).append(",\"executor\":\"");
    out.append(request_.engine->name).append("\"}");
    return out;
}

void Execution::write_calls(std::string& out, Calls calls) const {
    out += "\"calls\":";
    base::JsonWriter json(out);
    json.begin_array();
    for (const auto& call : calls_) {
        if (calls == Calls::dropped)
            break;
        json.begin_object();
        json.key("callId").string(call_name(call->id));
        json.key("name").string(call->name);
        json.key("status").string(call->status);
        json.key("durationMs").number(static_cast<std::uint64_t>(call->took.count()));
        json.end_object();
    }
    json.end_array();
}

void Execution::write_result(std::string& out) const {
    // The calls may be very many: they are written once, at the end, and kept in the event `result`.
    const std::string_view outcome = events_.end()[-2].data;
    out.append("{\"executionId\":\"").append(id_).append("\",").append(outcome.substr(1, logs_at_ - 1));
    out += "\"logs\":[";
    bool is_first = true;
    for (const ExecutionEvent& one : events_) {
        if (one.type == event::log)
            out.append(std::exchange(is_first, false) ? "" : ",").append(one.data);
    }
    out.append("],").append(outcome.substr(logs_at_));
}

void Execution::write(std::string& out, Detail detail) const {
    base::JsonWriter json(out);
    json.begin_object();
    json.key("executionId").string(id_);
    json.key("userId").string_or_null(request_.user_id);
    json.key("status").string(to_string(state_));
    json.key("executor").string(request_.engine->name);
    json.key("language").string(to_string(request_.language));
    json.key("detached").raw(is_detached() ? "true" : "false");
    json.key("createdAt").string(base::rfc3339(created_at_));
    json.key("endedAt");
    if (ended_at_)
        json.string(base::rfc3339(*ended_at_));
    else
        json.null();
    json.key("lastSeq").number(last_seq());
    json.key("openCalls").begin_array();
    // After the end none is, and there may be very many.
    for (auto at = has_ended() ? calls_.end() : calls_.begin(); at != calls_.end(); ++at) {
        const Call& call = **at;
        if (!call.is_open())
            continue;
        json.begin_object();
        json.key("callId").string(call_name(call.id));
        json.key("name").string(call.name);
        json.key("status").string(call.status);
        json.end_object();
    }
    json.end_array();
    if (detail == Detail::whole) {
        json.key("outcome");
        if (has_ended() && !refusal_) {
            std::string outcome;
            write_result(outcome);
            json.raw(outcome);
        } else {
            json.null();
        }
    }
    json.end_object();
}

}  // namespace atl::execution
