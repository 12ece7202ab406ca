// The list of a sandbox: which hosts and ports its programs may reach, as `network.allow` of a request has
// it. Invariant: each rule is in normal form and there once; their number and bytes are bounded. A pure
// value. Not here: what an operator allows, and whether a rule matches (ceilings.hpp): both depend on flags.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.hpp"
#include "core/egress/pattern.hpp"

namespace atl::egress {

/// The name of patterns that the operator listed with --egress-group; `@name` in a list.
struct GroupName {
    std::string name;
    bool operator==(const GroupName&) const = default;
};

/// True for 1 to 64 characters of [A-Za-z0-9_-].
bool is_group_name(std::string_view name) noexcept;

using Rule = std::variant<GroupName, Pattern>;

/// Reads `@NAME`, or a pattern. Errors: as Pattern::parse().
base::Result<Rule> parse_rule(std::string_view text);
std::string to_string(const Rule& rule);

/// The key that set a list or a rule of it, whose ceilings hold for as long as the rule does.
enum class SetBy : std::uint8_t {
    operator_key,  // a key without a user
    user_key,
};

class AllowList {
  public:
    /// Allows nothing.
    AllowList() = default;
    /// Reads rules; one that comes twice counts once. Those in `of_user`, too, are a user's in a list that an
    /// operator's key set. Errors: invalid_field, with the pointer /network/allow or /network/allow/N.
    static base::Result<AllowList> parse(std::span<const std::string> texts, SetBy set_by,
                                         std::span<const std::string> of_user = {});
    /// Reads `allow` of a request, an array of texts. Errors: the same.
    static base::Result<AllowList> from_json(const nlohmann::json& value, SetBy set_by);

    /// The normal form, which clients see and which parse() reads as this list. A user's rules in an
    /// operator's list come last.
    std::vector<std::string> texts() const;
    /// The rules that a key of this kind set.
    const std::vector<Rule>& rules(SetBy by) const noexcept {
        return by == SetBy::user_key ? of_user_ : of_operator_;
    }
    /// The key that set the list.
    SetBy set_by() const noexcept { return set_by_; }
    bool operator==(const AllowList&) const = default;

  private:
    std::vector<Rule> of_operator_;
    std::vector<Rule> of_user_;
    SetBy set_by_ = SetBy::user_key;
};

}  // namespace atl::egress
