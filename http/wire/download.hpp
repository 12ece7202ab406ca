// The fields of a response that a sandbox wrote, so that no browser takes it for a page of this server: they
// forbid scripts, and give a name to save it under. Pure. Not here: `nosniff`, which every response has.
#pragma once

#include <string>
#include <string_view>

#include "http/wire/message.hpp"

namespace atl::http {

/// With `if_harmless` a browser may show the bytes if they are of one of the few kinds that hold no script.
enum class Showing : std::uint8_t { never, if_harmless };

/// `kind`; filename="…"; filename*=…: RFC 6266 section 4. `name` is hostile UTF-8: what a header, a quoted
/// string or a file system cannot hold is `_`.
std::string content_disposition(std::string_view kind, std::string_view name);

/// The media type by the end of a name: of a picture, PDF or text as it is, of all else that of bytes. Never
/// one that a browser runs: HTML, SVG and XML are text or bytes.
std::string_view harmless_type(std::string_view name) noexcept;

/// Sets the fields of a response whose body a sandbox wrote, without a name to save it under.
void forbid_scripts(Response& response);
/// The same, and type and disposition of a file of this name.
void set_download(Response& response, std::string_view name, Showing showing);

}  // namespace atl::http
