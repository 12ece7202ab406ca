#include "http/api/transcript.hpp"

#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/json_writer.hpp"

namespace atl::http {
namespace {

using conversation::Event;
using conversation::EventType;

const Json& member(const Json& object, const char* name) {
    static const Json s_null;
    const auto found = object.find(name);
    return found == object.end() ? s_null : *found;
}

std::string_view content_text_of(const Json& value) {
    return value.is_string() ? std::string_view(value.get_ref<const std::string&>()) : std::string_view();
}

std::string dumped(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// `text` as it stands within a JSON string.
void append_escaped_text(std::string& out, std::string_view text) {
    std::string quoted;
    base::JsonWriter(quoted).string(text);
    out.append(quoted, 1, quoted.size() - 2);
}

// Markdown shows a line behind four spaces as it is, whatever is in it.
constexpr std::string_view k_as_it_is = "    ";
constexpr std::string_view k_quoted = "> ";

/// Every line behind `prefix`.
void append_prefixed(std::string& out, std::string_view text, std::string_view prefix, bool& at_line_start) {
    while (!text.empty()) {
        if (std::exchange(at_line_start, false))
            out += prefix;
        // A carriage return ends a line, too (CommonMark, section 2.1).
        const std::size_t end = std::min(text.find_first_of("\r\n"), text.size() - 1) + 1;
        out += text.substr(0, end);
        at_line_start = text[end - 1] == '\n' || text[end - 1] == '\r';
        text.remove_prefix(end);
    }
}

std::string in_one_line(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    return text;
}

void append_block(std::string& out, std::string_view text, std::string_view prefix = k_as_it_is) {
    bool at_line_start = true;
    append_prefixed(out, text, prefix, at_line_start);
    out += at_line_start ? "\n" : "\n\n";
}

/// A line of JSON Lines up to its own members.
void begin_line(std::string& out, const char* role, const Json& event) {
    out += "{\"role\":\"";
    out += role;
    out += "\",\"turn\":" + dumped(member(event, "turn")) + ",\"at\":" + dumped(member(event, "at"));
}

class TranscriptStream final : public BodyStream {
  public:
    TranscriptStream(std::unique_ptr<EventFeed> feed, const conversation::View& view, TranscriptFormat format)
        : feed_(std::move(feed)), last_seq_(view.record.last_seq), writer_(format) {
        writer_.begin(view, head_);
    }

    State pull(std::string& out, std::size_t limit_bytes) override {
        out += std::exchange(head_, {});
        for (std::size_t scanned_bytes = 0; scanned_bytes < limit_bytes;) {
            if (feed_->cursor() >= last_seq_)
                return finish(out);
            const auto batch = feed_->next(limit_bytes - scanned_bytes);
            if (batch.has_error()) {
                writer_.break_off(batch.error(), out);
                return State::finished;
            }
            if (batch->reading)
                return State::waiting;
            // The log does not end before the event that was its last one.
            if (batch->gone || batch->events.empty()) {
                end_early(base::Errc::conversation_ended, out);
                return State::finished;
            }
            for (const auto& event : batch->events) {
                scanned_bytes += event->cost_bytes();
                if (event->seq <= last_seq_)
                    writer_.add(*event, out);
            }
        }
        return State::more;
    }
    void on_wake(StreamWake wake) override { feed_->on_wake(std::move(wake)); }
    void heartbeat(std::string&) override {}
    void end_early(base::Errc reason, std::string& out) override {
        writer_.break_off(base::Error(reason, "ask for it again"), out);
    }

  private:
    State finish(std::string& out) {
        writer_.end(out);
        return State::finished;
    }

    std::unique_ptr<EventFeed> feed_;
    std::uint64_t last_seq_;
    TranscriptWriter writer_;
    std::string head_;
};

}  // namespace

void TranscriptWriter::begin(const conversation::View& view, std::string& out) {
    agent_ = view.record.agent;
    if (format_ == TranscriptFormat::jsonl)
        return;
    const std::string title =
        in_one_line(view.record.title.empty() ? "Conversation " + view.record.id : view.record.title);
    out +=
        "# " + title + "\n\nAgent " + agent_ + ", created " + base::rfc3339(view.record.created_at) + ".\n\n";
    if (view.record.first_seq > 1)
        out += "_The log begins at event " + std::to_string(view.record.first_seq) +
               ": what came before was cut._\n\n";
}

void TranscriptWriter::add(const Event& event, std::string& out) {
    constexpr auto k_no_exceptions = false;
    switch (event.type) {
        case EventType::turn_start:
        case EventType::text_delta:
        case EventType::tool_use:
        case EventType::tool_result:
        case EventType::message:
        case EventType::turn_complete:
        case EventType::error:
        case EventType::output_truncated:
            break;
        default:
            return;
    }
    if (event.type == EventType::message)
        return add_message(event, out);
    const Json parsed = Json::parse(event.json, nullptr, k_no_exceptions);
    if (!member(parsed, "data").is_object())
        return;
    if (event.type == EventType::text_delta)
        return add_text(parsed, out);
    close_text(out);
    if (event.type == EventType::turn_start)
        add_question(parsed, out);
    else if (event.type == EventType::tool_use)
        add_tool_use(parsed, out);
    else if (event.type == EventType::tool_result)
        add_tool_result(parsed, out);
    else
        add_note(event, parsed, out);
}

void TranscriptWriter::break_off(const base::Error& why, std::string& out) {
    close_text(out);
    if (format_ == TranscriptFormat::markdown) {
        out += "_The transcript is not complete (" + std::string(base::code_name(why.code())) + ")._\n";
        return;
    }
    base::JsonWriter json(out);
    json.begin_object().key("role").string("system").key("turn").null().key("at").null();
    json.key("type").string("transcript_incomplete").key("data").begin_object();
    json.key("code").string(base::code_name(why.code())).key("message").string(why.detail());
    json.end_object().end_object();
    out += '\n';
}

void TranscriptWriter::add_question(const Json& event, std::string& out) {
    const Json& data = member(event, "data");
    const Json& by = member(data, "by");
    if (format_ == TranscriptFormat::jsonl) {
        begin_line(out, "user", event);
        out += by.is_string() ? ",\"by\":" + dumped(by) : "";
        out += ",\"content\":" + dumped(member(data, "content")) + "}\n";
        return;
    }
    out += "## User";
    if (by.is_string())
        out += " (" + in_one_line(std::string(content_text_of(by))) + ")";
    out += "\n\n";
    append_block(out, content_text_of(member(data, "content")), k_quoted);
    out += "## " + agent_ + "\n\n";
}

void TranscriptWriter::add_text(const Json& event, std::string& out) {
    const Json& data = member(event, "data");
    const std::string_view delta = content_text_of(member(data, "delta"));
    if (delta.empty())
        return;
    // Output of a terminal is no Markdown.
    const Text kind = member(data, "stream").is_string() ? Text::output : Text::prose;
    if (open_ != kind) {
        close_text(out);
        open_ = kind;
        at_line_start_ = true;
        if (format_ == TranscriptFormat::jsonl) {
            begin_line(out, "assistant", event);
            out += ",\"content\":\"";
        }
    }
    if (format_ == TranscriptFormat::markdown && kind == Text::output)
        return append_prefixed(out, delta, k_as_it_is, at_line_start_);
    if (format_ == TranscriptFormat::jsonl)
        append_escaped_text(out, delta);
    else
        out += delta;
    at_line_start_ = delta.ends_with('\n');
}

void TranscriptWriter::close_text(std::string& out) {
    if (std::exchange(open_, Text::none) == Text::none)
        return;
    if (format_ == TranscriptFormat::jsonl)
        out += "\"}\n";
    else
        out += at_line_start_ ? "\n" : "\n\n";
}

void TranscriptWriter::add_tool_use(const Json& event, std::string& out) {
    const Json& data = member(event, "data");
    if (format_ == TranscriptFormat::jsonl) {
        begin_line(out, "assistant", event);
        out += ",\"toolUse\":" + dumped(data) + "}\n";
        return;
    }
    out += "**Tool** " + in_one_line(std::string(content_text_of(member(data, "name")))) + "\n\n";
    append_block(out, dumped(member(data, "input")));
}

void TranscriptWriter::add_tool_result(const Json& event, std::string& out) {
    const Json& data = member(event, "data");
    if (format_ == TranscriptFormat::jsonl) {
        begin_line(out, "tool", event);
        out += ",\"toolResult\":" + dumped(data) + "}\n";
        return;
    }
    const Json& content = member(data, "content");
    out += member(data, "isError") == Json(true) ? "**Result** (error)\n\n" : "**Result**\n\n";
    append_block(out, content.is_string() ? std::string(content_text_of(content)) : dumped(content));
}

/// The object goes over as it is, unparsed: it may be large.
void TranscriptWriter::add_message(const Event& event, std::string& out) {
    // In Markdown the deltas have the text already.
    if (format_ == TranscriptFormat::markdown)
        return;
    constexpr std::string_view k_data = ",\"data\":";
    const std::string_view json = event.json;
    const std::size_t at = json.find(k_data);
    if (at == std::string_view::npos)
        return;
    close_text(out);
    begin_line(out, "assistant", Json::parse(std::string(json.substr(0, at)) + '}'));
    out += ",\"message\":";
    out += json.substr(at + k_data.size());
    out += '\n';
}

void TranscriptWriter::add_note(const Event& event, const Json& parsed, std::string& out) {
    const Json& data = member(parsed, "data");
    if (format_ == TranscriptFormat::jsonl) {
        begin_line(out, "system", parsed);
        out += ",\"type\":\"" + std::string(to_string(event.type)) + "\",\"data\":" + dumped(data) + "}\n";
        return;
    }
    if (event.type == EventType::error) {
        out += "**Error** " + in_one_line(std::string(content_text_of(member(data, "code")))) + "\n\n";
        append_block(out, content_text_of(member(data, "message")));
    } else if (event.type == EventType::output_truncated) {
        out += "_Output was cut: " + dumped(member(data, "droppedBytes")) + " bytes were dropped._\n\n";
    } else if (const Json& code = member(data, "exitCode"); code.is_number_integer() && code != 0) {
        out += "_Exit code " + dumped(code) + "_\n\n";
    }
}

Response transcript_response(std::unique_ptr<EventFeed> feed, const conversation::View& view,
                             TranscriptFormat format) {
    const bool is_markdown = format == TranscriptFormat::markdown;
    Response response;
    response.content_type = is_markdown ? "text/markdown; charset=utf-8" : "application/jsonl";
    // It holds what a sandbox wrote: no browser may take it for a page of this origin.
    response.headers.emplace_back("Content-Security-Policy", "sandbox; default-src 'none'");
    response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
    response.headers.emplace_back(
        "Content-Disposition",
        "attachment; filename=\"transcript-" + view.record.id + (is_markdown ? ".md\"" : ".jsonl\""));
    response.payer = feed->payer();
    response.stream = std::make_unique<TranscriptStream>(std::move(feed), view, format);
    return response;
}

}  // namespace atl::http
