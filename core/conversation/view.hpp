// Conversations and sandboxes as the API shows them, from their records and from the present knowledge of the
// sandbox manager. Internal to core/conversation.
#pragma once

#include "core/conversation/requests.hpp"
#include "core/conversation/settings.hpp"

namespace atl::conversation {

View view_of(const Context& context, Record record, const sandbox::Record& sandbox_record);
/// Its environment is left out: it is not told, and may be large.
SandboxView view_of(const Context& context, const sandbox::Record& record);
/// The ports of its living generation, as it told them last.
PortUrls open_ports_of(const Context& context, const sandbox::Record& record);
PreviewView preview_of(const Context& context, const sandbox::Record& record);

}  // namespace atl::conversation
