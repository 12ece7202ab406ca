// The member `preview` of requests and of answers: what the preview of a sandbox shows, and to whom.
#pragma once

#include "core/base/json_writer.hpp"
#include "core/sandbox/types.hpp"
#include "http/api/schema_parts.hpp"
#include "http/wire/json_reader.hpp"

namespace atl::http {

inline constexpr IntRange k_port_range{1, 65'535};

/// Reads the member `preview`; all empty where there is none. Errors go to `reader`: invalid_field also for
/// a port that is named twice or that the server holds, and for no ports or too many.
sandbox::PreviewChanges read_preview(ObjectReader& reader);
void write_preview(base::JsonWriter& json, const sandbox::PreviewSettings& preview);
/// The schemas PreviewChanges and PreviewSettings.
void add_preview_schemas(Schema& out);

}  // namespace atl::http
