// Small lexical helpers of HTTP: case-insensitive tokens, percent-encoding, numbers.
// Pure functions over text; every input is hostile. Not here: JSON, whole messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::http {

/// Equality of tokens that HTTP compares without regard to ASCII case.
bool iequals(std::string_view a, std::string_view b) noexcept;

/// `text` without leading and trailing spaces and tabs (OWS of RFC 9110 section 5.6.3).
std::string_view trimmed(std::string_view text) noexcept;

/// Takes the element before the next `separator` off `list`, trimmed.
std::string_view take_element(std::string_view& list, char separator) noexcept;

/// RFC 3986 section 2.1; nothing if a `%` is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

/// The same of any text: a `%` that begins no such triplet stands for itself.
std::string loosely_percent_decoded(std::string_view text);

/// A decimal number of digits only, without sign; nothing when it does not fit.
std::optional<std::uint64_t> parse_decimal(std::string_view text) noexcept;

/// "host:80" and "[::1]:80" without their port; nothing if the port is not a number.
std::optional<std::string_view> host_without_port(std::string_view authority) noexcept;

/// True if `text` is 1 to `limit` visible ASCII characters (no space, no control).
bool is_visible_ascii(std::string_view text, std::size_t limit) noexcept;

/// The parameters of a query, decoded once; `+` is a space as in forms. A name is UTF-8, a value is bytes.
/// Nothing if the encoding is broken or a name is not UTF-8.
using QueryItems = std::vector<std::pair<std::string, std::string>>;
std::optional<QueryItems> parse_query(std::string_view query);
/// The value of the first item of this name; null if there is none.
const std::string* find_item(const QueryItems& items, std::string_view name) noexcept;

}  // namespace atl::http
