// Tells the server that a long request goes on, so that only a helper that stands still is ended
// (fs-guard/helper_client.hpp): `{"id":N,"progress":STEPS}` on stdout, at most one line an interval.
#pragma once

#include <string>

namespace atl::helper {

/// From now on the request is `id`, the text of a JSON value.
void begin_progress(std::string id);
/// Call this for each entry of a tree that is done. It costs a look at the clock.
void note_progress();

}  // namespace atl::helper
