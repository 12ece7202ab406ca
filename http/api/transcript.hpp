// A conversation's log as a text for people (Markdown) or programs (JSON Lines): questions, answers, tools,
// errors. Written while it is sent, so its size in memory does not grow with the log. Not here: the log.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/conversation/types.hpp"
#include "http/api/event_stream.hpp"
#include "http/wire/json_reader.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

enum class TranscriptFormat : std::uint8_t { markdown, jsonl };

/// Turns events into text, one after the other. Both formats leave out what the agent thought and what
/// happened to the sandbox. An event whose data is not of its type's form is left out, too.
class TranscriptWriter {
  public:
    explicit TranscriptWriter(TranscriptFormat format) : format_(format) {}

    /// Markdown begins with the conversation's title, its agent and its time; JSON Lines has no head.
    void begin(const conversation::View& view, std::string& out);
    /// Events in order.
    void add(const conversation::Event& event, std::string& out);
    /// Closes what is open. Call once, at the end.
    void end(std::string& out) { close_text(out); }
    /// The same where the log goes on but the transcript does not; says so.
    void break_off(const base::Error& why, std::string& out);

  private:
    /// A run of text deltas, which becomes one paragraph, one block of terminal output, or one JSON line.
    enum class Text : std::uint8_t { none, prose, output };

    struct Members;
    void add_data(conversation::EventType type, std::string_view head, std::string_view data,
                  std::string& out);
    void add_question(std::string_view head, const Members& data, std::string& out);
    void add_text(std::string_view head, const Members& data, std::string& out);
    void add_tool_use(const Members& data, std::string& out);
    void add_tool_result(const Members& data, std::string& out);
    void add_note(conversation::EventType type, const Members& data, std::string& out);
    void close_text(std::string& out);

    TranscriptFormat format_;
    Text open_ = Text::none;
    bool at_line_start_ = true;  // the open text ends with a line break, or is empty
    std::string agent_;
};

/// The log from the feed's cursor up to the event `last_seq`. The conversation's View gives the head.
/// Content-Disposition: attachment, and nothing in it runs in a browser.
Response transcript_response(std::unique_ptr<EventFeed> feed, const conversation::View& view,
                             TranscriptFormat format);

}  // namespace atl::http
