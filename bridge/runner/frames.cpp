#include "bridge/runner/frames.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/execution_limits.hpp"
#include "core/base/json_dump.hpp"
#include "core/execution/json_depth.hpp"
#include "core/plain/json_text.hpp"
#include "core/plain/utf8.hpp"

namespace atl::bridge::runner {
namespace {

using Json = nlohmann::json;

constexpr auto k_levels = std::to_array<std::string_view>({"log", "info", "warn", "error", "debug"});
constexpr auto k_kinds =
    std::to_array<std::string_view>({"syntax", "runtime", "memory", "denied", "protocol"});

using Member = RunnerFrame::Member;
// A member that is compared with something short is not kept if it is longer.
constexpr std::size_t k_word_bytes = 256;

/// The word behind `key`; none if it is no string or longer than a word.
std::optional<std::string> word_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    const auto* const text = found == object.end() ? nullptr : found->get_ptr<const std::string*>();
    return text != nullptr && text->size() <= k_word_bytes ? std::optional(*text) : std::nullopt;
}

/// Takes the text out of `object`.
std::optional<std::string> text_of(Json& object, const char* key) {
    const auto found = object.find(key);
    auto* const text = found == object.end() ? nullptr : found->get_ptr<std::string*>();
    return text != nullptr ? std::optional(std::move(*text)) : std::nullopt;
}

std::optional<std::string> number_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    const bool is_number = found != object.end() && found->is_number_unsigned();
    return is_number ? std::optional(std::to_string(found->get<std::uint64_t>())) : std::nullopt;
}

/// Reads the text of a log in the form in which it is passed on: JSON.
void read_log_text(RunnerFrame& frame, const Json& object) {
    const auto found = object.find("text");
    const auto* const text = found == object.end() ? nullptr : found->get_ptr<const std::string*>();
    if (text == nullptr)
        return;
    base::append_json_string(frame.at(Member::text).emplace(), *text);
    frame.at(Member::text_bytes) = std::to_string(text->size());
}

/// A message that is longer than an error may be, between characters.
void cut_error(std::string& message) {
    constexpr std::string_view k_mark = " (cut at 64 KiB)";
    constexpr std::size_t k_ellipsis_bytes = 3;  // of excerpt()
    static_assert(base::k_max_execution_error_bytes == 64UL * 1024);
    if (message.size() > base::k_max_execution_error_bytes)
        message = base::excerpt(message, base::k_max_execution_error_bytes - k_mark.size() - k_ellipsis_bytes)
                      .append(k_mark);
}

void read_error(RunnerFrame& frame, Json& error) {
    frame.at(Member::error) = "";
    if (!error.is_object() || (error.contains("line") && !number_of(error, "line")))
        return;
    frame.at(Member::error_kind) = word_of(error, "kind");
    auto& message = frame.at(Member::error_message);
    message = text_of(error, "message");
    if (message)
        cut_error(*message);
    frame.at(Member::error_line) = number_of(error, "line");
}

void read_value(RunnerFrame& frame, Member member, const Json& value, std::uint64_t max_bytes) {
    std::string text = base::json_dump(value);
    if (text.size() > max_bytes) {
        frame.at(Member::too_long) = "";
        text = {};
    }
    frame.at(member) = std::move(text);
}

template <class Words>
bool is_one_of(const Words& words, const std::string* text) {
    return text != nullptr && std::find(words.begin(), words.end(), *text) != words.end();
}

std::optional<std::uint64_t> number_at(const RunnerFrame& frame, Member member) {
    const std::string* const text = frame.find(member);
    std::uint64_t number = 0;
    if (text == nullptr)
        return std::nullopt;
    const auto parsed = std::from_chars(text->data(), text->data() + text->size(), number);
    const bool is_whole = parsed.ec == std::errc() && parsed.ptr == text->data() + text->size();
    return is_whole ? std::optional(number) : std::nullopt;
}

std::optional<Failure> failure_of(RunnerFrame& frame) {
    const std::string* const kind = frame.find(Member::error_kind);
    if (!is_one_of(k_kinds, kind) || !frame.at(Member::error_message))
        return std::nullopt;
    return Failure{*kind, std::move(*frame.at(Member::error_message)), number_at(frame, Member::error_line)};
}

/// `json` with each integer beyond 2^53 as a tagged bigint: JavaScript would read another number.
std::string with_tagged_integers(std::string_view json) {
    constexpr std::string_view k_greatest = "9007199254740991";
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = 0; at < json.size();) {
        if (json[at] == '"') {
            for (++at; at < json.size() && json[at] != '"'; ++at)
                at += json[at] == '\\' ? 1 : 0;
            ++at;
            continue;
        }
        const std::size_t end = std::min(json.find_first_not_of("+-.0123456789Ee", at), json.size());
        const std::string_view number = json.substr(at, end - at);
        const std::string_view digits = number.substr(number.starts_with('-') ? 1 : 0);
        if (digits.find_first_not_of("0123456789") == std::string_view::npos &&
            (digits.size() > k_greatest.size() ||
             (digits.size() == k_greatest.size() && digits > k_greatest))) {
            out.append(json.substr(done, at - done)).append(R"({"$atoll":"bigint","value":")");
            out.append(number).append("\"}");
            done = end;
        }
        at = std::max(end, at + 1);
    }
    return out.append(json.substr(done));
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

RunnerFrame read_frame(std::string_view json, std::uint64_t max_value_bytes) {
    RunnerFrame frame;
    if (json.size() > k_runner_frame_bytes || execution::json_depth(json) > k_runner_json_depth) {
        frame.at(Member::too_deep) = "";
        return frame;
    }
    Json object = Json::parse(json, nullptr, false);
    if (!object.is_object())
        return frame;
    constexpr std::pair<Member, const char*> k_words[] = {
        {Member::type, "type"},     {Member::run, "run"},         {Member::nonce, "nonce"},
        {Member::engine, "engine"}, {Member::version, "version"}, {Member::level, "level"},
        {Member::name, "name"}};
    for (const auto& [member, key] : k_words)
        frame.at(member) = word_of(object, key);
    if (const auto found = object.find("type"); found != object.end() && found->is_string())
        frame.at(Member::type) = frame.at(Member::type).value_or("too long");
    // Members that do not belong to the type are not looked at.
    const std::string type = frame.at(Member::type).value_or("");
    if (type == "log")
        read_log_text(frame, object);
    if (type == "call")
        frame.at(Member::id) = number_of(object, "id");
    if (const auto args = object.find("args"); type == "call" && args != object.end() && args->is_array())
        read_value(frame, Member::args, *args, max_value_bytes);
    if (type != "result")
        return frame;
    if (const auto value = object.find("value"); value != object.end())
        read_value(frame, Member::value, *value, max_value_bytes);
    if (const auto error = object.find("error"); error != object.end())
        read_error(frame, *error);
    return frame;
}

Received HostMachine::receive(std::string_view json) {
    if (state_ == State::broken)
        return violation("a frame after a violation");
    if (state_ == State::ended)
        return violation("a frame after the result");
    if (state_ == State::starting && json.size() > k_first_frame_bytes)
        return violation("the first frame is not ready");
    if (state_ == State::ready)
        return violation("a frame before start");
    return take(read_frame(json, start_.limits.max_value_bytes), json.size());
}

Received HostMachine::take(RunnerFrame frame, std::size_t frame_bytes) {
    if (state_ == State::broken)
        return violation("a frame after a violation");
    if (state_ == State::ended)
        return violation("a frame after the result");
    if (frame.find(Member::too_deep) != nullptr)
        return violation("a frame that is too long or too deep");
    const std::string* const type = frame.find(Member::type);
    if (type == nullptr)
        return violation("a frame that is no JSON object with a type");
    if (state_ == State::starting)
        return take_ready(frame);
    if (state_ == State::ready)
        return violation("a frame before start");
    const std::string* const run = frame.find(Member::run);
    const std::string* const nonce = frame.find(Member::nonce);
    if (run == nullptr || nonce == nullptr || *run != start_.run || *nonce != start_.nonce)
        return violation("a frame of another run or with a wrong nonce");
    if (*type == "log")
        return take_log(frame, frame_bytes);
    if (*type == "call")
        return take_call(frame, frame_bytes);
    if (*type == "result")
        return take_result(frame);
    return violation("a frame of an unknown type");
}

Received HostMachine::take_ready(const RunnerFrame& frame) {
    const std::string* const engine = frame.find(Member::engine);
    const std::string* const version = frame.find(Member::version);
    if (*frame.find(Member::type) != "ready" || engine == nullptr || version == nullptr ||
        engine->size() > 64 || version->size() > 64)
        return violation("the first frame is not ready");
    state_ = State::ready;
    return Ready{*engine, *version};
}

bool HostMachine::has_paid(std::size_t frame_bytes, std::size_t passed_on_bytes) {
    const std::size_t paid = passed_on_bytes + k_runner_envelope_bytes;
    spare_bytes_ += frame_bytes - std::min(frame_bytes, paid);
    return spare_bytes_ <= k_runner_spare_bytes;
}

Received HostMachine::take_log(RunnerFrame& frame, std::size_t frame_bytes) {
    const std::string* const level = frame.find(Member::level);
    auto& text = frame.at(Member::text);
    const auto bytes = number_at(frame, Member::text_bytes);
    if (!is_one_of(k_levels, level) || !text || !bytes)
        return violation("a log without a known level or without text");
    if (text->size() > k_runner_frame_bytes || *bytes > text->size() || text->size() < *bytes + 2 ||
        text->size() > 6 * *bytes + 2)
        return violation("a log whose length is not that of its text");
    if (!has_paid(frame_bytes, text->size()))
        return violation("frames with more than what they say");
    const std::uint64_t cost = *bytes + k_log_entry_bytes;
    if (cost > start_.limits.max_log_bytes + start_.limits.log_slack_bytes - log_bytes_)
        return violation("more logs than allowed");
    log_bytes_ += cost;
    return Log{*level, std::move(*text)};
}

Received HostMachine::take_call(RunnerFrame& frame, std::size_t frame_bytes) {
    const auto id = number_at(frame, Member::id);
    const std::string* const name = frame.find(Member::name);
    auto& args = frame.at(Member::args);
    if (!id || name == nullptr || !args)
        return violation("a call without id, name or args");
    if (*id != last_call_ + 1)
        return violation("a call whose id is not the next one");
    if (last_call_ >= start_.limits.max_calls)
        return violation("more calls than allowed");
    if (open_.size() >= k_open_calls)
        return violation("more than 32 calls open");
    if (std::find(start_.tools.begin(), start_.tools.end(), *name) == start_.tools.end())
        return violation("a call of a tool that was not offered");
    if (frame.find(Member::too_long) != nullptr || args->size() > start_.limits.max_value_bytes)
        return violation("arguments that are too long");
    if (!has_paid(frame_bytes, args->size()))
        return violation("frames with more than what they say");
    open_.insert(++last_call_);
    return Call{last_call_, *name, std::move(*args)};
}

Received HostMachine::take_result(RunnerFrame& frame) {
    auto& value = frame.at(Member::value);
    Ended ended;
    if (frame.find(Member::error) != nullptr) {
        ended.failure = failure_of(frame);
        if (!ended.failure || value)
            return violation("a result with a malformed error");
        if (ended.failure->message.size() > base::k_max_execution_error_bytes)
            return violation("an error that is too long");
    } else if (value) {
        if (frame.find(Member::too_long) != nullptr || value->size() > start_.limits.max_value_bytes)
            return violation("a result that is too long");
        ended.value_json = std::move(*value);
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
    frame.append(key).append("\":").append(with_tagged_integers(json)).push_back('}');
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

bool HostMachine::answer_checked(std::string& out, std::uint64_t id, std::string_view value_json) {
    return !value_json.empty() && reply(out, id, "result", value_json);
}

bool HostMachine::answer_error(std::string& out, std::uint64_t id, std::string_view message) {
    const Json error{{"message", std::string(message.substr(0, k_runner_frame_bytes + 1))}};
    return reply(out, id, "error", error.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace atl::bridge::runner
