// One range of a representation (RFC 9110 section 14): which bytes a request asks for, and the fields that
// answer it. Pure. A request for several ranges, or one that is malformed, gets the whole: a server may
// ignore the field. Not here: the bytes.
#pragma once

#include <cstdint>
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

/// What to send of a representation of `size_bytes`. `etag` is its entity tag with the quotes; If-Range holds
/// only for the same tag, and only if it is a strong one, else the whole is sent. An empty representation is
/// always sent as a whole.
ByteRange choose_range(const Request& request, std::uint64_t size_bytes, std::string_view etag);

/// Sets status, length, Accept-Ranges and Content-Range; the caller sets the source of a body. An
/// unsatisfiable range has none: a 416 is empty.
void set_range(Response& response, const ByteRange& range, std::uint64_t size_bytes);

}  // namespace atl::http
