// Extended attributes of files, those that their owner may set (xattr(7), the namespace "user").
#pragma once

namespace atl::guest {

/// Gives the open file `to` those of the file behind `from`, which may be an O_PATH descriptor. Where the
/// file system has none there is nothing to do. False, and errno.
bool copy_attributes(int from, int to);

}  // namespace atl::guest
