// Lines that an agent wrote, as the host checks them. The host accepts a line exactly if nlohmann's document
// reader finds the form of bridge/event_line.hpp; the payload is unchanged; host and guest read the same
// event.
#include "bridge/event_line.hpp"
#include "core/base/utf8.hpp"

#include <algorithm>

#include "bridge/guest/command.hpp"
#include "bridge/protocol.hpp"
#include "bridge/reply_line.hpp"
#include "core/conversation/types.hpp"
#include "http/wire/text.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

bool is_plain(std::string_view text) {
    return std::none_of(text.begin(), text.end(),
                        [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

bool should_be_accepted(const fuzz::Document& document) {
    const auto& value = document.value;
    if (!document.accepted || !value.is_object() || document.depth > base::k_max_event_depth + 1)
        return false;
    for (const char* name : {"ev", "data"})
        if (std::count(document.top_names.begin(), document.top_names.end(), name) > 1)
            return false;
    const auto name = value.find("ev");
    if (name == value.end() || !name->is_string() ||
        std::count(bridge::k_turn_events.begin(), bridge::k_turn_events.end(), name->get<std::string>()) == 0)
        return false;
    const auto data = value.find("data");
    return data == value.end() ? *name == "done" : data->is_object();
}

void check_event(std::string_view line) {
    const auto event = bridge::parse_event_line(line);
    auto text = line;
    if (text.ends_with('\r'))
        text.remove_suffix(1);
    const auto document = fuzz::read_document(text);
    // If only the guest takes a line for the end of a turn, it sends a `done` itself. In the opposite case it
    // could not repair the turn.
    require(!event || event->name != bridge::ev::done || guest::event_name(line) == bridge::ev::done,
            "what ends a turn for the host ends it for the guest");
    require(event.has_value() == (is_plain(text) && should_be_accepted(document)),
            "the verdict is nlohmann's");
    if (!event) {
        require(is_plain(event.error().detail()) && event.error().detail().size() < 100,
                "a refusal is a sentence");
        return;
    }
    require(base::is_utf8(text), "what is accepted is UTF-8");
    require(document.value["ev"] == event->name, "the name is the line's");
    require(guest::event_name(text) == event->name, "the guest reads the same name");
    require(conversation::agent_event_type(event->name).has_value(), "the core knows the name");
    const auto data = fuzz::read_document(event->data);
    require(data.accepted && data.value.is_object(), "the payload is an object");
    require(data.depth <= base::k_max_event_depth, "the payload is no deeper than allowed");
    require(data.value == document.value.value("data", nlohmann::json::object()),
            "the payload is the line's");
    const bool inside = event->data.data() >= text.data() && event->data.data() < text.data() + text.size();
    require(inside || (event->data == "{}" && !document.value.contains("data")), "the payload is a view");

    const std::string again =
        "{\"ev\":\"" + std::string(event->name) + "\",\"data\":" + std::string(event->data) + '}';
    const auto second = bridge::parse_event_line(again);
    require(second && second->name == event->name && second->data == event->data, "it reads the same again");
}

void check_replies(std::string_view line) {
    if (const auto reply = bridge::parse_reply_line(line))
        require(is_plain(reply->error) && (!reply->ok || reply->error.empty()),
                "a reply's error is safe to show");
    if (const auto detail = bridge::parse_agent_exit_line(line))
        require(is_plain(*detail), "the reason of an exit is safe to show");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const fuzz::Input input(data, size);
    check_event(input.rest());
    check_replies(input.rest());
    return 0;
}
