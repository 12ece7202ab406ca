// The conversations that a list asks for. The store finds them through its indexes (core/store/finder.hpp);
// the registry asks the same of those that it holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/conversation/types.hpp"

namespace atl::conversation {

/// A top-level member of the metadata: a string of this text, an integer of 64 bits with these digits, or
/// true or false. Lists find the first k_max_indexed_members such members in the order of their names, if
/// name and text have k_max_indexed_bytes at most. They find no member of metadata with a NUL somewhere.
struct MetadataFilter {
    std::string name;
    std::string value;
};

/// An empty member asks for nothing; a conversation matches all the others.
struct ListFilter {
    std::optional<Status> status;
    std::optional<std::string> user_id;
    std::optional<std::string> agent;
    std::optional<std::string> sandbox_id;
    std::vector<MetadataFilter> metadata;
    // The time is at or after the first, and before the second.
    std::optional<base::WallTime> created_after, created_before;
    std::optional<base::WallTime> active_after, active_before;
};

/// True if it matches in all but its metadata; `status` counts, not the record's.
bool matches_fields(const ListFilter& filter, const Record& record, Status status);
/// The metadata is parsed where the filter asks for it.
bool matches(const ListFilter& filter, const Record& record, Status status);
inline bool matches(const ListFilter& filter, const Record& record) {
    return matches(filter, record, record.status);
}

}  // namespace atl::conversation
