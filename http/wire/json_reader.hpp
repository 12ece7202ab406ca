// JSON from clients, parsed by core/base/json_parser.hpp, and read by name with nothing coerced. Not here:
// the fields of a route (forms.hpp).
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/json_parser.hpp"

namespace atl::http {

using Json = nlohmann::json;

using base::parse_json;

/// Inclusive range of an integer field; the schemas tell the same numbers.
struct IntRange {
    std::uint64_t least;
    std::uint64_t most;
};

/// Reads the members of an object by name and keeps the first error. Ask finish() at the end: it also refuses
/// members that no call has read. `path` prefixes names in details: "limits." for limits.memoryMb. Errors
/// about a member carry its JSON pointer.
class ObjectReader {
  public:
    /// `value` must outlive the reader; anything but an object is an invalid_field error.
    explicit ObjectReader(const Json& value, std::string path = "");

    /// Nothing if absent; nothing and an error if it is of another type or out of range.
    std::optional<std::string> string(std::string_view name, std::size_t limit_bytes);
    std::optional<std::uint64_t> integer(std::string_view name, IntRange range);
    std::optional<bool> boolean(std::string_view name);
    /// An object or array member, unchanged; a null pointer if absent or (with an error) of another type.
    const Json* object(std::string_view name);
    /// True if the member is there and is null.
    bool is_null(std::string_view name);
    /// Any member, unchecked; a null pointer if absent.
    const Json* any(std::string_view name);

    /// Members that are no unknown ones, although nothing reads them: what they mean depends on a member that
    /// is missing.
    void know(std::initializer_list<std::string_view> names);

    /// Adds an error about `name` unless there is one already; as fail_missing() where the object lacks it.
    void fail(std::string_view name, std::string_view what_it_must_be);
    void fail(base::Error error);
    /// The error where the object lacks a member; a member that nobody knows is told before it, since that
    /// may be the one that was meant.
    void fail_missing(base::Error error);
    bool failed() const noexcept { return error_.has_value() || missing_.has_value(); }
    /// The first error; else unknown_field for the first member that was not asked for; else what is missing.
    base::Result<void> finish();

  private:
    const Json* find(std::string_view name);
    std::string pointer_to(std::string_view name) const;

    const Json* object_ = nullptr;
    std::string path_;
    std::vector<std::string> known_;
    std::optional<base::Error> error_;
    std::optional<base::Error> missing_;
};

}  // namespace atl::http
