// A range of a representation (RFC 9110 section 14): which bytes a request asks for, and the fields that
// answer it. Pure. A request for several ranges, or one that is malformed, gets the whole: a server may
// ignore the field. Not here: the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/wire/message.hpp"

namespace atl::http {

struct ByteRange {
    enum class Kind : std::uint8_t { whole, part, unsatisfiable };
    Kind kind = Kind::whole;
    std::uint64_t offset = 0;  // of the first byte to send
    std::uint64_t length = 0;  // in bytes; of an unsatisfiable one 0
};

/// The range that a request asks for, before anybody knows the size. Without `last` it is all from `first`
/// on, without `first` the last `suffix` bytes.
struct RangeSpec {
    std::optional<std::uint64_t> first;
    std::optional<std::uint64_t> last;  // not before `first`
    std::uint64_t suffix = 0;           // in bytes
    std::string_view if_range;          // a strong tag: the range holds for this content only; empty: for any
};

/// The one range that the request asks for. Nothing: the whole, whatever the size. Its views are of the
/// request.
std::optional<RangeSpec> asked_range(const Request& request);

/// Chooses what to send of a representation of `size_bytes`. `etag` is its entity tag with the quotes;
/// If-Range holds only for the same tag, and only if it is a strong one, else the whole is sent. An empty
/// representation is always sent as a whole.
ByteRange choose_range(const Request& request, std::uint64_t size_bytes, std::string_view etag);

/// Sets status, length, Accept-Ranges and Content-Range; the caller sets the source of a body. Of an
/// unsatisfiable range it sets no length: a 416 has the body that the caller gives it, a problem.
void set_range(Response& response, const ByteRange& range, std::uint64_t size_bytes);

}  // namespace atl::http
