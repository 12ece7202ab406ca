#include "core/conversation/past_turns.hpp"

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_writer.hpp"
#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/plain/utf8.hpp"

namespace atl::conversation {
namespace {

// The members of the line around the turns.
constexpr std::size_t k_frame_bytes = 256;
constexpr std::size_t k_turns_bytes = sandbox::k_max_resume_bytes - k_frame_bytes;
constexpr std::size_t k_result_bytes = 256;
constexpr std::string_view k_cut = "\xE2\x80\xA6";  // …, where a text was cut

using Json = nlohmann::json;

std::string as_json(std::string_view text) {
    std::string json;
    base::JsonWriter(json).string(text);
    return json;
}

/// The most bytes that a byte of UTF-8 takes in a JSON string.
std::size_t json_bytes(char c) {
    if (c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t')
        return 2;
    return static_cast<unsigned char>(c) < 0x20 ? 6 : 1;
}

bool is_inside_character(std::string_view text, std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

/// The number of bytes of text, from `begin` on, that take at most `limit_bytes` as JSON.
template <class Iterator>
std::size_t fitting(Iterator begin, Iterator end, std::size_t limit_bytes) {
    std::size_t bytes = 0;
    const auto stop =
        std::find_if(begin, end, [&](char c) { return (bytes += json_bytes(c)) > limit_bytes; });
    return static_cast<std::size_t>(stop - begin);
}

/// The beginning of `text` as a JSON string of at most `limit_bytes`.
std::string beginning(std::string_view text, std::size_t limit_bytes) {
    const std::size_t room = limit_bytes - std::min(limit_bytes, 2 + k_cut.size());
    std::size_t size = fitting(text.begin(), text.end(), room);
    if (size == text.size())
        return as_json(text);
    while (is_inside_character(text, size))
        --size;
    return as_json(std::string(text.substr(0, size)).append(k_cut));
}

/// The end of `text`, likewise.
std::string ending(std::string_view text, std::size_t limit_bytes) {
    const std::size_t room = limit_bytes - std::min(limit_bytes, 2 + k_cut.size());
    std::size_t at = text.size() - fitting(text.rbegin(), text.rend(), room);
    while (is_inside_character(text, at))
        ++at;
    return as_json(std::string(k_cut).append(text.substr(at)));
}

/// The data of an event without the objects and arrays in it: an agent may put a megabyte of them there.
Json data_of(const Event& event) {
    const auto is_kept = [](int depth, Json::parse_event_t part, const Json&) {
        constexpr int k_members_of_data = 2;
        return depth < k_members_of_data ||
               (part != Json::parse_event_t::object_start && part != Json::parse_event_t::array_start);
    };
    Json whole = Json::parse(event.json, is_kept, false);
    const auto data = whole.find("data");
    return data != whole.end() && data->is_object() ? std::move(*data) : Json::object();
}

std::string text_in(const Json& data, const char* name) {
    const auto found = data.find(name);
    return found != data.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// `content` and `text` are JSON.
std::string turn_json(std::uint64_t turn, std::string_view content, std::string_view text,
                      const std::optional<std::string>& result) {
    std::string json;
    base::JsonWriter writer(json);
    writer.begin_object().key("turn").string(turn_name(turn)).key("content").raw(content);
    writer.key("text").raw(text).key("result").string_or_null(result).end_object();
    return json;
}

}  // namespace

PastTurns::PastTurns(base::Timers& timers, const EventLog& log, std::string conversation_id, Done done)
    : timers_(timers),
      log_(log),
      conversation_id_(std::move(conversation_id)),
      done_(std::move(done)),
      self_(std::make_shared<PastTurns*>(this)) {
    patience_ = timers_.arm(k_past_patience, [this] {
        patience_ = 0;
        finish();
    });
    schedule();
}

PastTurns::~PastTurns() {
    *self_ = nullptr;
    timers_.cancel(patience_);
}

void PastTurns::schedule() {
    if (std::exchange(scheduled_, true))
        return;
    timers_.defer([self = self_] {
        if (*self != nullptr)
            (*self)->step();
    });
}

void PastTurns::step() {
    scheduled_ = false;
    if (!reader_ && !open_stretch())
        return finish();
    const auto batch = reader_->next(base::k_replay_batch_bytes);
    // The log may have been cut meanwhile: that is no failure.
    if (!batch && batch.error().code() == base::Errc::storage_failed)
        base::LogLine(base::evt::store_failed)
            .field("conv", conversation_id_)
            .quoted("err", batch.error().detail())
            .warn();
    if (!batch || batch->gone)
        return finish();
    if (batch->events.empty())
        return;  // until the reader is woken
    for (const EventPtr& event : batch->events) {
        if (event->seq <= stretch_.last_seq)
            take(*event);
    }
    if (reader_->cursor() >= stretch_.last_seq) {
        reader_.reset();
        if (!keep_stretch())
            return finish();
    }
    schedule();
}

/// Opens the stretch of turns before those that were read; false if no more are to be told.
bool PastTurns::open_stretch() {
    const bool is_first = stretch_.last_seq == 0;
    stretch_ = log_.finished_before(is_first ? log_.last_seq() : stretch_.after, base::k_replay_batch_bytes);
    read_bytes_ += stretch_.bytes;
    if (stretch_.last_seq == 0 || (!is_first && read_bytes_ > k_past_read_bytes))
        return false;
    reader_.emplace(log_.window(), stretch_.after);
    reader_->on_wake([this] { schedule(); });
    return true;
}

void PastTurns::take(const Event& event) {
    if (event.turn == 0)
        return;
    // Logs of earlier versions have turns without a turn_start.
    if (turns_.empty() || turns_.back().turn != event.turn) {
        turns_.emplace_back().turn = event.turn;
        turns_.back().content = "\"\"";
    }
    PastTurn& told = turns_.back();
    switch (event.type) {
        case EventType::turn_start:
            told.content = start_content(event);
            return;
        case EventType::text_delta:
            told.text += text_in(data_of(event), "delta");
            // At most the end of the text is told. The part that is kept is longer than the told end, so a
            // character that is cut here is not told.
            if (told.text.size() > 2 * sandbox::k_max_resume_bytes)
                told.text.erase(0, told.text.size() - sandbox::k_max_resume_bytes);
            return;
        case EventType::turn_complete:
            told.result = text_in(data_of(event), "result");
            told.is_complete = true;
            return;
        case EventType::error:
            if (!told.is_complete)
                told.result = text_in(data_of(event), "code");
            return;
        case EventType::done:
            told.is_done = true;
            return;
        default:
            return;
    }
}

/// False if the bound is full.
bool PastTurns::keep_stretch() {
    for (; !turns_.empty(); turns_.pop_back()) {
        PastTurn& told = turns_.back();
        if (!told.is_done)
            continue;
        if (told.result)
            told.result = base::excerpt(*told.result, k_result_bytes);
        std::string json = turn_json(told.turn, told.content, as_json(told.text), told.result);
        const std::size_t comma = kept_.empty() ? 0 : 1;
        if (kept_bytes_ + comma + json.size() > k_turns_bytes) {
            if (kept_.empty())
                kept_.push_back(shortened(told));
            return false;
        }
        kept_bytes_ += comma + json.size();
        kept_.push_back(std::move(json));
    }
    return true;
}

/// A turn that is longer than all that may be told: the beginning of its content and the end of its text.
/// Each has half of the room, or what the other leaves.
std::string PastTurns::shortened(PastTurn& told) {
    const std::size_t room = k_turns_bytes - turn_json(told.turn, "", "", told.result).size();
    std::string text = as_json(told.text);
    const std::size_t content_room = room - std::min(text.size(), room / 2);
    if (told.content.size() > content_room) {
        const Json content = Json::parse(told.content, nullptr, false);
        told.content = beginning(content.is_string() ? content.get_ref<const std::string&>() : told.content,
                                 content_room);
    }
    if (told.content.size() + text.size() > room)
        text = ending(told.text, room - told.content.size());
    return turn_json(told.turn, told.content, text, told.result);
}

void PastTurns::finish() {
    std::string turns;
    for (auto turn = kept_.rbegin(); turn != kept_.rend(); ++turn)
        turns.append(turns.empty() ? "[" : ",").append(*turn);
    if (!turns.empty())
        turns += ']';
    const Done done = std::move(done_);
    done(std::move(turns));
}

std::string resume_command(std::string_view conversation_id, std::uint32_t generation,
                           std::string_view turns) {
    std::string json;
    base::JsonWriter writer(json);
    writer.begin_object().key("cmd").string("resume").key("sessionId").string(conversation_id);
    writer.key("generation").number(generation).key("turns").raw(turns.empty() ? "[]" : turns).end_object();
    assert(json.size() < sandbox::k_max_resume_bytes);
    return json;
}

}  // namespace atl::conversation
