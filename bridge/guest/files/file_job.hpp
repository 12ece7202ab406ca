// A request for a file of the workspace, taken apart, and what all functions that answer one need.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bridge/guest/call.hpp"
#include "bridge/guest/files/abandoned_copies.hpp"
#include "core/plain/beneath.hpp"

namespace atl::guest {

/// The members of a `file` command. Paths are bytes, relative to the workspace, unchecked.
struct FileRequest {
    std::string op;
    std::string path;
    std::string to;                       // move, copy
    std::uint64_t offset = 0;             // read
    std::optional<std::uint64_t> length;  // read: at most so many bytes; else to the end
    std::optional<std::uint64_t> suffix;  // read: so many bytes at the end, in place of the two above
    std::string if_range;                 // read: the tag that these hold for; of another file the whole
    std::optional<mode_t> mode;           // write
    std::string if_match;       // write, move, copy, remove: the field of that name; empty: there is none
    std::string if_none_match;  // the same
    std::uint64_t depth = 1;    // list: 1 is the directory's own entries
    std::uint64_t limit = 0;    // list: of entries, 0: none; watch: of directories, 0: no bound of its own
    std::string after;          // list: the path of the last entry of the page before
    std::string format;      // pack: tar, tar.gz or zip; empty: tar. unpack: empty: as its first bytes tell
    bool in_place = false;   // write
    bool recursive = false;  // remove
    bool overwrite = false;  // move, copy
    bool all = true;         // list, pack: false leaves out the workspace's base::k_home_names
};

struct FileJob {
    FileJob(const std::string& workspace, FileRequest in_request, AbandonedCopies& in_abandoned)
        : root(workspace), request(std::move(in_request)), abandoned(in_abandoned) {}

    base::Beneath root;
    FileRequest request;
    AbandonedCopies& abandoned;  // outlives all jobs
};

/// Answers one op. `job` outlives the task.
using FileWork = Task<CallEnd> (*)(Call& call, const FileJob& job);

// The ops, each in the file of its family.
Task<CallEnd> stat_file(Call& call, const FileJob& job);
Task<CallEnd> read_file(Call& call, const FileJob& job);
Task<CallEnd> write_file(Call& call, const FileJob& job);
Task<CallEnd> list_files(Call& call, const FileJob& job);
Task<CallEnd> make_directory(Call& call, const FileJob& job);
Task<CallEnd> move_file(Call& call, const FileJob& job);
Task<CallEnd> copy_file(Call& call, const FileJob& job);
Task<CallEnd> remove_file(Call& call, const FileJob& job);
Task<CallEnd> pack_files(Call& call, const FileJob& job);
Task<CallEnd> unpack_files(Call& call, const FileJob& job);
Task<CallEnd> watch_files(Call& call, const FileJob& job);

/// How a file is named in sentences: its path as it is shown, cut.
std::string told_name(std::string_view path);
/// The refusal of the call from errno, about `path`.
CallEnd refuse_errno(std::string_view path);
CallEnd refuse_errno(std::string_view path, int error_number);
CallEnd refuse_file(std::string_view path, std::string_view why, std::string_view code);
/// The work that is done by now, as the text of a Call::Progress.
std::string entries_and_bytes(std::uint64_t entries, std::uint64_t bytes);
/// True if the names of base::k_home_names are left out of the directory that the request names.
bool leaves_out_home(const FileRequest& request);
/// Refuses unless the request's conditions hold for what has the tag `tag`; empty: nothing is there.
CallEnd check_conditions(const FileRequest& request, std::string_view tag);
/// A slash at the end of a path means a directory (path_resolution(7)). Refuses it at the end of the path
/// or of `to` where the file is no directory. `about` describes the file that the path names; a link is not
/// followed.
CallEnd check_slashes(const FileRequest& request, const struct stat& about);

}  // namespace atl::guest
