// The port of this machine at which the preview of a sandbox is shown. Each sandbox has a number of its own
// until it ends. A number that nobody had is given before a number that another sandbox had, since browsers
// keep storage and service workers for a port. Among used numbers the first given back comes first. Pure. Not
// here: listening (preview_ports.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/clock.hpp"

namespace atl::conversation {

/// A number that a sandbox has or had.
struct PreviewNumber {
    std::uint16_t number = 0;
    std::string sandbox_id;                // empty: free again
    std::uint64_t freed = 0;               // for a free one: its place in the order of return
    bool is_stale = false;                 // browsers may keep what another sandbox stored
    std::optional<std::string> user_id{};  // the owner; for a row of the store, which has it elsewhere
};

/// The number of a conversation that has not ended, as a server finds it at its start.
struct RestingPreview {
    std::uint16_t number = 0;
    bool was_up = false;     // when the last server ended, and nothing paused it before
    base::WallTime since{};  // its last activity, or its pause by the end of a server if that came later
};

class PreviewNumbers {
  public:
    /// Takes over a row of the store. Ignores an impossible one. Call before anything else.
    void restore(PreviewNumber row);

    /// Gives the sandbox a number that `is_free` agrees to. A number that it refuses counts as had by others
    /// from then on. Returns null where none is left or too many were refused; the pointer is valid until the
    /// next change. Precondition: the sandbox has none.
    const PreviewNumber* give(const std::string& sandbox_id,
                              const std::function<bool(std::uint16_t number)>& is_free);
    /// Frees the number of the sandbox. Returns the row after that, or nothing where it has no number.
    std::optional<PreviewNumber> take_back(const std::string& sandbox_id);
    /// True if the number was stale; it is not from now on. Precondition: a sandbox has it.
    bool freshen(std::uint16_t number);

    /// The row of the sandbox's number, or null where it has none. Valid until the next change.
    const PreviewNumber* find(const std::string& sandbox_id) const;
    /// The row of a number, or null where no sandbox has it.
    const PreviewNumber* at(std::uint16_t number) const;
    std::size_t in_use() const noexcept { return by_sandbox_.size(); }

    /// The number that a sandbox gets unless it is given away: the sum of its id's character codes decides.
    static std::uint16_t first_choice(std::string_view sandbox_id) noexcept;

  private:
    using Usable = std::function<bool(std::uint16_t number)>;
    const PreviewNumber* give_fresh(const std::string& sandbox_id, const Usable& is_free, std::size_t& tries);
    const PreviewNumber* give_again(const std::string& sandbox_id, const Usable& is_free, std::size_t& tries);
    const PreviewNumber* give(PreviewNumber& row, const std::string& sandbox_id);
    void free(PreviewNumber& row);

    std::map<std::uint16_t, PreviewNumber> known_;  // all numbers but those that nobody had
    std::unordered_map<std::string, std::uint16_t> by_sandbox_;
    std::map<std::uint64_t, std::uint16_t> free_;  // the free numbers, by `freed`
    std::uint64_t last_freed_ = 0;
};

}  // namespace atl::conversation
