#include "core/sandbox/file_changes.hpp"

namespace atl::sandbox {

std::string_view to_string(FileChange::Kind kind) noexcept {
    switch (kind) {
        case FileChange::Kind::created:
            return "created";
        case FileChange::Kind::modified:
            return "modified";
        case FileChange::Kind::attributes:
            return "attributes";
        case FileChange::Kind::deleted:
            return "deleted";
        case FileChange::Kind::renamed:
            return "renamed";
    }
    return {};
}

}  // namespace atl::sandbox
