// The events that an adapter writes for the guest (docs/agents.md), within a turn: outside of one they are
// dropped. A turn ends exactly once. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/adapters/json_value.hpp"

namespace atl::adapter {

/// Longer ids of tools, options and requests are not taken; longer names are cut.
inline constexpr std::size_t k_max_id_bytes = 256;
inline constexpr std::size_t k_max_name_bytes = 1024;
/// Tools that an agent runs beyond so many at once are not told.
inline constexpr std::size_t k_max_open_tools = 1024;

/// A choice of a permission, as the event has it.
struct PermissionOption {
    std::string id;
    std::string name;
    std::string_view kind;  // static: allow_once, allow_always, reject_once, reject_always
};

/// The static word for that kind, or for one that begins with `allow`, `reject` or `deny`; empty for any
/// other.
std::string_view permission_kind(std::string_view text);

class TurnEvents {
  public:
    /// `out` gets complete lines; it outlives this.
    explicit TurnEvents(std::string& out) : out_(out) {}

    void begin(std::string_view turn);
    bool is_open() const noexcept { return !turn_.empty(); }
    const std::string& turn() const noexcept { return turn_; }
    bool is_interrupted() const noexcept { return interrupted_; }
    void mark_interrupted() noexcept { interrupted_ = true; }
    /// The turn has a text, a thought, a tool or a question, or ended well; also once it is over.
    bool has_answered() const noexcept { return answered_; }
    /// The turn goes on elsewhere.
    void leave() noexcept { turn_.clear(); }

    void text(std::string_view delta);
    void thinking(std::string_view delta);
    /// `data` is the text of a JSON object without raw control characters.
    void message(std::string_view data);
    void plan(const Json& entries);
    /// Once for each id, as long as it is remembered: ended tools are forgotten where there are many; `more`
    /// are members that are added to the event, an object.
    void tool_use(std::string_view id, std::string_view name, const Json& input, const Json& more);
    /// True once tool_use() was called for this id in this turn.
    bool has_tool(std::string_view id) const { return tools_.contains(std::string(id)); }
    /// Once for each id that tool_use() had; others are dropped.
    enum class Outcome : unsigned char { good, failed };
    void tool_result(std::string_view id, const Json& content, Outcome outcome, const Json& more);
    /// The tool is not permitted: its result is an error, told before the turn ends where the agent tells
    /// none.
    void refuse(std::string_view id);
    /// Returns the id of the request.
    std::string permission_request(std::string_view tool_id, const std::vector<PermissionOption>& options);
    /// The agent withdraws the request with this id.
    void permission_cancel(std::string_view id);
    void error(std::string_view code, std::string_view text);
    /// turn_complete and done; `result` is "interrupted" where the turn was.
    void complete(std::string_view result);
    /// error and done; after an interrupt as complete().
    void fail(std::string_view code, std::string_view text);

  private:
    enum class Tool : unsigned char { begun, refused, ended };

    void write(std::string_view name, const Json& data);
    void end_refused();
    void end();

    std::string& out_;
    std::string turn_;  // empty: none is open
    bool interrupted_ = false;
    bool answered_ = false;
    std::size_t asked_ = 0;                // permissions, in this turn
    std::map<std::string, Tool> tools_{};  // told in this turn
};

}  // namespace atl::adapter
