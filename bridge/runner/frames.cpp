#include "bridge/runner/frames.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.hpp"
#include "core/execution/json_depth.hpp"

namespace atl::bridge::runner {
namespace {

using Json = nlohmann::json;

constexpr auto k_levels = std::to_array<std::string_view>({"log", "info", "warn", "error", "debug"});
constexpr auto k_kinds =
    std::to_array<std::string_view>({"syntax", "runtime", "memory", "denied", "protocol"});

const std::string* text_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

template <class Words>
bool is_one_of(const Words& words, const std::string* text) {
    return text != nullptr && std::find(words.begin(), words.end(), *text) != words.end();
}

std::optional<Failure> failure_of(const Json& error) {
    if (!error.is_object())
        return std::nullopt;
    const std::string* const kind = text_of(error, "kind");
    const std::string* const message = text_of(error, "message");
    if (!is_one_of(k_kinds, kind) || message == nullptr)
        return std::nullopt;
    Failure failure{*kind, *message, std::nullopt};
    if (const auto line = error.find("line"); line != error.end()) {
        if (!line->is_number_unsigned())
            return std::nullopt;
        failure.line = line->get<std::uint64_t>();
    }
    return failure;
}

}  // namespace

bool append_frame(std::string& out, std::string_view json) {
    if (json.empty() || json.size() > k_runner_frame_bytes)
        return false;
    for (const unsigned shift : {24U, 16U, 8U, 0U})
        out.push_back(static_cast<char>(json.size() >> shift & 0xFF));
    out.append(json);
    return true;
}

void FrameReader::push(std::string_view bytes) {
    if (refused_)
        return;
    held_.erase(0, read_);
    read_ = 0;
    held_.append(bytes);
}

std::optional<std::string> FrameReader::next() {
    if (refused_ || held_.size() - read_ < k_runner_header_bytes)
        return std::nullopt;
    std::size_t size = 0;
    for (std::size_t i = 0; i < k_runner_header_bytes; ++i)
        size = size << 8U | static_cast<unsigned char>(held_[read_ + i]);
    if (size == 0 || size > k_runner_frame_bytes) {
        refused_ = true;
        held_ = {};
        read_ = 0;
        return std::nullopt;
    }
    if (held_.size() - read_ - k_runner_header_bytes < size)
        return std::nullopt;
    std::string json = held_.substr(read_ + k_runner_header_bytes, size);
    read_ += k_runner_header_bytes + size;  // the bytes go at the next push: many small frames stay cheap
    return json;
}

Received HostMachine::violation(const char* reason) {
    state_ = State::broken;
    open_.clear();
    return Violation{reason};
}

Received HostMachine::receive(std::string_view json) {
    if (state_ == State::broken)
        return violation("a frame after a violation");
    if (state_ == State::ended)
        return violation("a frame after the result");
    if (json.size() > k_runner_frame_bytes || execution::json_depth(json) > k_runner_json_depth)
        return violation("a frame that is too long or too deep");
    const Json frame = Json::parse(json, nullptr, false);
    const std::string* const type = frame.is_object() ? text_of(frame, "type") : nullptr;
    if (type == nullptr)
        return violation("a frame that is no JSON object with a type");
    if (state_ == State::starting) {
        const std::string* const engine = text_of(frame, "engine");
        const std::string* const version = text_of(frame, "version");
        if (*type != "ready" || engine == nullptr || version == nullptr || engine->size() > 64 ||
            version->size() > 64)
            return violation("the first frame is not ready");
        state_ = State::ready;
        return Ready{*engine, *version};
    }
    if (state_ == State::ready)
        return violation("a frame before start");
    const std::string* const run = text_of(frame, "run");
    const std::string* const nonce = text_of(frame, "nonce");
    if (run == nullptr || nonce == nullptr || *run != start_.run || *nonce != start_.nonce)
        return violation("a frame of another run or with a wrong nonce");
    if (*type == "log") {
        const std::string* const level = text_of(frame, "level");
        const std::string* const text = text_of(frame, "text");
        if (!is_one_of(k_levels, level) || text == nullptr)
            return violation("a log without a known level or without text");
        const std::uint64_t cost = text->size() + k_log_entry_bytes;
        if (cost > start_.limits.max_log_bytes + start_.limits.log_slack_bytes - log_bytes_)
            return violation("more logs than allowed");
        log_bytes_ += cost;
        return Log{*level, *text};
    }
    if (*type == "call") {
        const auto id = frame.find("id");
        const std::string* const name = text_of(frame, "name");
        const auto args = frame.find("args");
        if (id == frame.end() || !id->is_number_unsigned() || name == nullptr || args == frame.end() ||
            !args->is_array())
            return violation("a call without id, name or args");
        if (id->get<std::uint64_t>() != last_call_ + 1)
            return violation("a call whose id is not the next one");
        if (last_call_ >= start_.limits.max_calls)
            return violation("more calls than allowed");
        if (open_.size() >= k_open_calls)
            return violation("more than 32 calls open");
        if (std::find(start_.tools.begin(), start_.tools.end(), *name) == start_.tools.end())
            return violation("a call of a tool that was not offered");
        std::string text = args->dump();
        if (text.size() > start_.limits.max_value_bytes)
            return violation("arguments that are too long");
        open_.insert(++last_call_);
        return Call{last_call_, *name, std::move(text)};
    }
    if (*type != "result")
        return violation("a frame of an unknown type");
    const auto value = frame.find("value");
    const auto error = frame.find("error");
    Ended ended;
    if (error != frame.end()) {
        ended.failure = failure_of(*error);
        if (!ended.failure || value != frame.end())
            return violation("a result with a malformed error");
        if (ended.failure->message.size() > start_.limits.max_value_bytes)
            return violation("a result that is too long");
    } else if (value != frame.end()) {
        ended.value_json = value->dump();
        if (ended.value_json->size() > start_.limits.max_value_bytes)
            return violation("a result that is too long");
    }
    state_ = State::ended;
    open_.clear();
    return ended;
}

bool HostMachine::start(std::string& out, Start start) {
    if (state_ != State::ready || start.run.empty() || start.nonce.empty())
        return false;
    const Json frame{{"type", "start"},
                     {"run", start.run},
                     {"nonce", start.nonce},
                     {"language", start.language},
                     {"code", start.code},
                     {"tools", start.tools},
                     {"limits",
                      {{"maxCalls", start.limits.max_calls},
                       {"maxValueBytes", start.limits.max_value_bytes},
                       {"maxLogBytes", start.limits.max_log_bytes}}}};
    if (!append_frame(out, frame.dump(-1, ' ', false, Json::error_handler_t::replace)))
        return false;
    start_ = std::move(start);
    start_.code = {};  // not needed again
    state_ = State::running;
    return true;
}

bool HostMachine::reply(std::string& out, std::uint64_t id, std::string_view key, std::string_view json) {
    if (state_ != State::running || !open_.contains(id) || json.size() > start_.limits.max_value_bytes)
        return false;
    std::string frame = R"({"type":"call_result","run":)";
    base::append_json_string(frame, start_.run);
    frame += ",\"nonce\":";
    base::append_json_string(frame, start_.nonce);
    frame += ",\"id\":" + std::to_string(id) + ",\"";
    frame.append(key).append("\":").append(json).push_back('}');
    if (!append_frame(out, frame))
        return false;
    open_.erase(id);
    return true;
}

bool HostMachine::answer(std::string& out, std::uint64_t id, std::string_view value_json) {
    // Text that is more or less than one value would write members of the frame.
    return value_json.size() <= k_runner_frame_bytes &&
           execution::json_depth(value_json) <= k_runner_json_depth && Json::accept(value_json) &&
           reply(out, id, "result", value_json);
}

bool HostMachine::answer_error(std::string& out, std::uint64_t id, std::string_view message) {
    const Json error{{"message", std::string(message.substr(0, k_runner_frame_bytes + 1))}};
    return reply(out, id, "error", error.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace atl::bridge::runner
