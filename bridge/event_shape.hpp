// The documented form of the data of each event of an agent (docs/agents.md): which members it has and what
// they are. Members beyond those are the agent's own: they are kept and not looked at. Header only: the guest
// has it too. Pure; allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bridge/json_scan.hpp"

namespace atl::bridge {

enum class Needed : std::uint8_t { yes, no };

struct MemberRule {
    std::string_view name;
    std::uint8_t kinds = 0;    // bits of JsonKind
    std::string_view kind_is;  // follows "is not"
    Needed needed = Needed::yes;
};

struct EventShape {
    std::string_view event;
    std::string_view data;  // the form, for who reads a refusal
    std::array<MemberRule, 3> members;
};

inline constexpr std::uint8_t k_any_kind = 0xFF;

/// Everything that an agent may say during a turn.
inline constexpr std::array<EventShape, 11> k_event_shapes = {{
    {"text_delta",
     R"({delta: string, stream?: "stdout"|"stderr"})",
     {{{"delta", k_string, "a string"}, {"stream", k_string, "\"stdout\" or \"stderr\"", Needed::no}}}},
    {"message", "an object", {}},
    {"done", "an object or nothing", {}},
    {"error",
     "{code: string, message: string}",
     {{{"code", k_string, "a string"}, {"message", k_string, "a string"}}}},
    {"thinking_delta", "{delta: string}", {{{"delta", k_string, "a string"}}}},
    {"tool_use",
     "{id: string, name: string, input: object}",
     {{{"id", k_string, "a string"}, {"name", k_string, "a string"}, {"input", k_object, "an object"}}}},
    {"tool_result",
     "{toolUseId: string, content: any, isError: boolean}",
     {{{"toolUseId", k_string, "a string"}, {"content", k_any_kind, ""}, {"isError", k_bool, "a boolean"}}}},
    {"turn_complete",
     "{result: string, exitCode?: integer}",
     {{{"result", k_string, "a string"}, {"exitCode", k_integer, "an integer", Needed::no}}}},
    {"permission_request",
     "{id: string, toolUseId: string, options: [{optionId: string, name: string, kind: string}]}",
     {{{"id", k_string, "a string"}, {"toolUseId", k_string, "a string"}, {"options", k_array, "an array"}}}},
    {"permission_cancel", "{id: string}", {{{"id", k_string, "a string"}}}},
    {"plan", "{entries: array}", {{{"entries", k_array, "an array"}}}},
}};

/// The kinds of the members of one `data`, which may be seen before or after the name of its event.
class SeenMembers {
  public:
    void see(std::string_view name, JsonKind kind, std::string_view text) {
        for (std::size_t at = 0; at < k_names.size(); ++at) {
            if (k_names[at] != name)
                continue;
            is_twice_[at] = kinds_[at] != 0;
            kinds_[at] = kind;
            if (name == "stream" && text != "stdout" && text != "stderr")
                kinds_[at] = 0x80;  // of no kind that a rule allows but any
            return;
        }
    }

    /// The first member that is not as `shape` says, and what is wrong with it. No member: all is well.
    struct Fault {
        std::string_view member;
        std::string_view what;     // "is missing", "is given twice", "is not"
        std::string_view kind_is;  // follows the last one
    };
    Fault fault(const EventShape& shape) const {
        for (const MemberRule& rule : shape.members) {
            if (rule.name.empty())
                break;
            const std::size_t at = place(rule.name);
            if (kinds_[at] == 0 && rule.needed == Needed::yes)
                return {rule.name, "is missing", {}};
            if (is_twice_[at])
                return {rule.name, "is given twice", {}};
            if ((kinds_[at] & ~rule.kinds) != 0)
                return {rule.name, "is not ", rule.kind_is};
        }
        return {};
    }

  private:
    static constexpr std::array<std::string_view, 14> k_names = {
        "delta",     "stream",  "id",      "name",   "input",    "code",    "message",
        "toolUseId", "content", "isError", "result", "exitCode", "options", "entries"};

    static constexpr std::size_t place(std::string_view name) {
        std::size_t at = 0;
        while (k_names[at] != name)
            ++at;
        return at;
    }

    std::array<std::uint8_t, k_names.size()> kinds_{};  // 0: not there
    std::array<bool, k_names.size()> is_twice_{};
};

}  // namespace atl::bridge
