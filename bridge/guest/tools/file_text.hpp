// The contents of regular files: read as a whole in pieces, and judged: text or binary.
#pragma once

#include <string>
#include <string_view>

#include "bridge/guest/call.hpp"
#include "bridge/guest/task.hpp"
#include "bridge/guest/tools/workspace_path.hpp"

namespace atl::guest {

/// The bytes of a file that a piece of work may take before others have their turn.
inline constexpr std::size_t k_file_piece_bytes = 512UL * 1024;

struct FileBytes {
    std::string bytes;
    int error = 0;  // errno(3); EFBIG: more than the limit
};

/// Reads all of a regular file, whose state in `found` is made that of the moment before the reading: what
/// it grows by meanwhile is left out.
Task<FileBytes> async_read_all(Call& call, Found& found, std::size_t limit_bytes);

/// True if `bytes` hold a NUL near their beginning, are mostly not text, or begin as a known binary format
/// does and hold anything that no text has.
bool is_binary(std::string_view bytes);

/// By content: "image/png"; "application/octet-stream" where nothing is known, "text/plain" for text.
std::string_view mime_type(std::string_view bytes);

std::string base64(std::string_view bytes);

/// How many lines there are; a last one without a line end counts.
std::size_t line_count(std::string_view text);

}  // namespace atl::guest
