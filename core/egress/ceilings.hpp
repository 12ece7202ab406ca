// The bounds that an operator sets to the network `egress`, by the flags --egress-allow, --egress-group and
// --egress-private, and what a list of a sandbox allows within them. A key with a user is bound by
// --egress-allow; one without may list any public name. Special addresses (address_filter.hpp) and those of
// this host need
// --egress-private, for any key. Names are judged before they are resolved, addresses after.
// Invariant: made at the start, constant while the server runs; each answer depends on its arguments alone.
// Not here: look-ups and connections (http/egress), the bytes that pass.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/ip_address.hpp"
#include "core/egress/allow_list.hpp"

namespace atl::egress {

/// The addresses that a name may have for a connection.
enum class Reach : std::uint8_t {
    public_only,
    ranges,  // also those that --egress-private names
};

/// A request that is allowed, and how far.
struct Grant {
    Bytes bytes = Bytes::tls;
    Reach reach = Reach::public_only;

    /// True if this allows all that `old` allowed: a tunnel that was opened with `old` may stay.
    bool holds(const Grant& old) const noexcept { return bytes >= old.bytes && reach >= old.reach; }
    bool operator==(const Grant&) const = default;
};

struct Verdict {
    std::optional<Grant> grant;
    // Without a grant: the `reason` of the event `egress_denied`, of static storage, and one line for the
    // program inside and for the log, which names the host and the rule that is missing.
    std::string_view reason;
    std::string why;
};

class Ceilings {
  public:
    // Each takes one value of a flag. Errors: invalid_field, with a sentence about the value.

    /// --egress-allow: a pattern, or `@NAME` of a group, which may be made later.
    base::Result<void> allow(std::string_view text);
    /// --egress-group NAME=PATTERN,…
    base::Result<void> add_group(std::string_view text);
    /// --egress-private CIDR:PORT, as 10.0.0.0/8:443, 127.0.0.1:8080 or [fd00::/8]:443.
    base::Result<void> allow_private(std::string_view text);
    /// After the last value: each group that --egress-allow names is there.
    base::Result<void> check_groups() const;

    /// True if the operator gave one of the flags: the network `egress` can be asked for.
    bool is_on() const noexcept { return !allowed_.empty() || !groups_.empty() || !ranges_.empty(); }
    /// The names of --egress-group, in order, for people to choose from.
    std::vector<std::string> group_names() const;

    /// Checks a list as it is set. Errors: network_not_allowed; invalid_field for a group that is not there.
    base::Result<void> check(const AllowList& list) const;
    /// Checks a request, before its name is resolved. Takes linear time in the patterns of list, groups and
    /// ceilings.
    Verdict judge(const AllowList& list, const Endpoint& endpoint) const;
    /// Checks an address before it is dialled: nothing if it may be, else its kind in a word, as "private".
    /// `own` are this host's own, of those that are asked about.
    std::optional<std::string_view> refusal(const base::IpAddress& address, std::uint16_t port, Reach reach,
                                            std::span<const base::IpAddress> own) const;
    /// True if a range of --egress-private has the address, with whichever port.
    bool names(const base::IpAddress& address) const noexcept;

    /// True if a range of --egress-private has that address and port.
    bool is_opened(const base::IpAddress& address, std::uint16_t port) const noexcept;
    /// False: no range is opened, and Reach::ranges reaches no more than public_only.
    bool opens_any() const noexcept { return !ranges_.empty(); }

  private:
    struct Range {
        base::IpPrefix prefix;
        std::uint16_t port;
    };
    using Patterns = std::vector<Pattern>;

    /// The patterns that a rule stands for; none if it is a group that is not there.
    std::span<const Pattern> patterns_of(const Rule& rule) const;
    std::optional<Grant> granted(std::span<const Rule> rules, const Endpoint& endpoint) const;
    bool covers(const Pattern& pattern) const;
    base::Result<void> check_rule(const Rule& rule, SetBy set_by) const;

    std::vector<Rule> allowed_;
    std::map<std::string, Patterns, std::less<>> groups_;
    std::size_t grouped_ = 0;  // patterns of all groups
    std::vector<Range> ranges_;
};

}  // namespace atl::egress
