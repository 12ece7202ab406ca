// A file as clients see it: the JSON object of an entry, and the tag of its content.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

namespace atl::guest {

/// The entity tag of a file's content, with its quotes: made of inode, size and both times, so that no two
/// contents share one unless they were written within a tick of the kernel's clock, in place.
std::string entity_tag(const struct stat& about);

/// Appends the object of an entry, as clients get it: its `path` is shown, its `href` exact. `path` is bytes.
/// `folder` is open; the file in it has the name `name`, as *at() system calls take it: read for the target
/// of a link.
void append_entry(std::string& out, std::string_view path, const struct stat& about, int folder,
                  const std::string& name);

/// The member `entry` of a reply, about something that is open (with O_PATH, perhaps).
std::string entry_member(std::string_view path, const struct stat& about, int fd);

}  // namespace atl::guest
