// Lines that an agent wrote, as the host checks them. The host accepts a line exactly if nlohmann's document
// reader finds the form of bridge/event_line.hpp; the payload is unchanged; host and guest read the same
// event.
#include "bridge/event_line.hpp"
#include "core/plain/utf8.hpp"

#include <algorithm>

#include "bridge/event_shape.hpp"
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

bool has_kind(const nlohmann::json& value, std::uint8_t kinds) {
    const auto is = [&](bridge::JsonKind kind, bool really) { return (kinds & kind) != 0 && really; };
    return is(bridge::k_string, value.is_string()) || is(bridge::k_bool, value.is_boolean()) ||
           is(bridge::k_integer, value.is_number_integer()) ||
           is(bridge::k_other_number, value.is_number_float()) || is(bridge::k_null, value.is_null()) ||
           is(bridge::k_object, value.is_object()) || is(bridge::k_array, value.is_array());
}

bool has_shape(const nlohmann::json& data, const bridge::EventShape& shape) {
    for (const bridge::MemberRule& rule : shape.members) {
        if (rule.name.empty())
            break;
        const auto member = data.find(rule.name);
        if (member == data.end() && rule.needed == bridge::Needed::yes)
            return false;
        if (member != data.end() && !has_kind(*member, rule.kinds))
            return false;
        if (member != data.end() && rule.name == "stream" && *member != "stdout" && *member != "stderr")
            return false;
    }
    return true;
}

bool should_be_accepted(const fuzz::Document& document) {
    const auto& value = document.value;
    if (!document.accepted || !value.is_object() || document.depth > base::k_max_event_depth + 1)
        return false;
    for (const char* name : {"ev", "data"})
        if (std::count(document.top_names.begin(), document.top_names.end(), name) > 1)
            return false;
    const auto name = value.find("ev");
    if (name == value.end() || !name->is_string())
        return false;
    const auto shape = std::find_if(
        bridge::k_event_shapes.begin(), bridge::k_event_shapes.end(),
        [&](const bridge::EventShape& known) { return known.event == name->get<std::string>(); });
    if (shape == bridge::k_event_shapes.end())
        return false;
    const auto data = value.find("data");
    if (data == value.end())
        return *name == "done";
    return data->is_object() && has_shape(*data, *shape);
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
    const bool wanted = is_plain(text) && should_be_accepted(document);
    require(event.has_value() == wanted || (wanted && document.repeats_a_name), "the verdict is nlohmann's");
    if (!event) {
        require(base::is_utf8(event.error().detail()) && event.error().detail().size() < 1000,
                "a refusal is a bounded text");
        return;
    }
    require(base::is_utf8(text), "what is accepted is UTF-8");
    require(document.value["ev"] == event->name, "the name is the line's");
    require(guest::event_name(text) == event->name, "the guest reads the same name");
    // The core logs what follows from this one.
    require(event->name == "permission_cancel" || conversation::agent_event_type(event->name).has_value(),
            "the core knows the name");
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
        require(
            base::is_utf8(reply->error) && reply->error.size() < 1000 && (!reply->ok || reply->error.empty()),
            "a reply's error is a bounded text");
    if (const auto detail = bridge::parse_agent_exit_line(line))
        require(base::is_utf8(*detail) && detail->size() < 1000, "the reason of an exit is a bounded text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const fuzz::Input input(data, size);
    check_event(input.rest());
    check_replies(input.rest());
    return 0;
}
