#include "http/api/transcript.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "bridge/json_scan.hpp"
#include "core/base/clock.hpp"
#include "core/base/json_writer.hpp"
#include "core/plain/guest_limits.hpp"

namespace atl::http {
namespace {

using conversation::Event;
using conversation::EventType;

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

bool is_integer(std::string_view json) {
    return !json.empty() && json.find_first_not_of("-0123456789") == std::string_view::npos;
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

/// An event's JSON: what stands before its data, without the comma, and the object that its data is.
struct EventText {
    std::string_view head;
    std::string_view data;
};

/// Nothing if the data is no object.
std::optional<EventText> split_event(std::string_view json) {
    constexpr std::string_view k_data = ",\"data\":";
    const std::size_t at = json.find(k_data);
    if (at == std::string_view::npos || !json.ends_with("}}") || json[at + k_data.size()] != '{')
        return std::nullopt;
    const std::size_t begin = at + k_data.size();
    return EventText{json.substr(0, at), json.substr(begin, json.size() - 1 - begin)};
}

/// A line of JSON Lines up to its own members. `head` is that of an event.
void begin_line(std::string& out, std::string_view role, std::string_view head) {
    const Json event = Json::parse(std::string(head) + '}');
    const auto text_of = [&](const char* name) {
        const auto found = event.find(name);
        return found == event.end() ? std::string("null") : found->dump();
    };
    out.append("{\"role\":\"").append(role);
    out.append("\",\"turn\":").append(text_of("turn"));
    out.append(",\"at\":").append(text_of("at"));
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

/// The members of an event's data that a transcript shows. Nothing is built of others, of which an agent may
/// add very many.
struct TranscriptWriter::Members : bridge::ObjectVisitor {
    enum class Form : std::uint8_t { string, json };
    struct Value {
        Form form = Form::json;
        std::string text = "null";  // of a string what it says
    };

    bool on_string(const std::string& key, const std::string& value) {
        return keep(key, Form::string, value);
    }
    bool on_bool(const std::string& key, bool value) {
        return keep(key, Form::json, value ? "true" : "false");
    }
    bool on_object(const std::string& key, std::string_view span) { return keep(key, Form::json, span); }
    bool on_array(const std::string& key, std::string_view span) { return keep(key, Form::json, span); }
    bool on_unsigned(const std::string& key, std::uint64_t value) {
        return keep(key, Form::json, std::to_string(value));
    }
    bool on_other(const std::string& key, std::string_view text) { return keep(key, Form::json, text); }

    bool keep(std::string_view key, Form form, std::string_view text) {
        if (const auto found = values.find(key); found != values.end())
            found->second = Value{form, std::string(text)};
        return true;
    }
    bool has_string(std::string_view name) const { return values.at(name).form == Form::string; }
    /// Empty if it is no string.
    std::string_view string(std::string_view name) const {
        return has_string(name) ? std::string_view(values.at(name).text) : std::string_view();
    }
    std::string json(std::string_view name) const {
        std::string out;
        if (has_string(name))
            base::JsonWriter(out).string(string(name));
        else
            out = values.at(name).text;
        return out;
    }

    std::map<std::string_view, Value> values{{"by", {}},    {"code", {}},         {"content", {}},
                                             {"delta", {}}, {"droppedBytes", {}}, {"exitCode", {}},
                                             {"input", {}}, {"isError", {}},      {"message", {}},
                                             {"name", {}},  {"stream", {}}};
};

void TranscriptWriter::add(const Event& event, std::string& out) {
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
    const auto text = split_event(event.json);
    // In Markdown the deltas have the text of a message already.
    if (!text || (event.type == EventType::message && format_ == TranscriptFormat::markdown))
        return;
    const bool is_shown = event.type == EventType::turn_start || event.type == EventType::text_delta;
    if (format_ == TranscriptFormat::jsonl && !is_shown)
        return add_data(event.type, text->head, text->data, out);
    Members data;
    if (bridge::scan_object(text->data, base::k_max_event_depth, data) != bridge::Scan::complete)
        return;
    if (event.type == EventType::text_delta)
        return add_text(text->head, data, out);
    close_text(out);
    if (event.type == EventType::turn_start)
        add_question(text->head, data, out);
    else if (event.type == EventType::tool_use)
        add_tool_use(data, out);
    else if (event.type == EventType::tool_result)
        add_tool_result(data, out);
    else
        add_note(event.type, data, out);
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

/// The data goes over as it is, unread: it may be large.
void TranscriptWriter::add_data(EventType type, std::string_view head, std::string_view data,
                                std::string& out) {
    close_text(out);
    if (type == EventType::tool_result) {
        begin_line(out, "tool", head);
        out += ",\"toolResult\":";
    } else if (type == EventType::tool_use || type == EventType::message) {
        begin_line(out, "assistant", head);
        out += type == EventType::message ? ",\"message\":" : ",\"toolUse\":";
    } else {
        begin_line(out, "system", head);
        out.append(",\"type\":\"").append(to_string(type)).append("\",\"data\":");
    }
    out.append(data).append("}\n");
}

void TranscriptWriter::add_question(std::string_view head, const Members& data, std::string& out) {
    if (format_ == TranscriptFormat::jsonl) {
        begin_line(out, "user", head);
        out += data.has_string("by") ? ",\"by\":" + data.json("by") : "";
        out += ",\"content\":" + data.json("content") + "}\n";
        return;
    }
    out += "## User";
    if (data.has_string("by"))
        out += " (" + in_one_line(std::string(data.string("by"))) + ")";
    out += "\n\n";
    append_block(out, data.string("content"), k_quoted);
    out += "## " + agent_ + "\n\n";
}

void TranscriptWriter::add_text(std::string_view head, const Members& data, std::string& out) {
    const std::string_view delta = data.string("delta");
    if (delta.empty())
        return;
    // Output of a terminal is no Markdown.
    const Text kind = data.has_string("stream") ? Text::output : Text::prose;
    if (open_ != kind) {
        close_text(out);
        open_ = kind;
        at_line_start_ = true;
        if (format_ == TranscriptFormat::jsonl) {
            begin_line(out, "assistant", head);
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

void TranscriptWriter::add_tool_use(const Members& data, std::string& out) {
    out += "**Tool** " + in_one_line(std::string(data.string("name"))) + "\n\n";
    append_block(out, data.json("input"));
}

void TranscriptWriter::add_tool_result(const Members& data, std::string& out) {
    out += data.json("isError") == "true" ? "**Result** (error)\n\n" : "**Result**\n\n";
    append_block(out, data.values.at("content").text);
}

void TranscriptWriter::add_note(EventType type, const Members& data, std::string& out) {
    if (type == EventType::error) {
        out += "**Error** " + in_one_line(std::string(data.string("code"))) + "\n\n";
        append_block(out, data.string("message"));
    } else if (type == EventType::output_truncated) {
        out += "_Output was cut: " + data.json("droppedBytes") + " bytes were dropped._\n\n";
    } else if (const std::string code = data.json("exitCode"); is_integer(code) && code != "0") {
        out += "_Exit code " + code + "_\n\n";
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
