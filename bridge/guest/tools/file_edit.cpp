#include "bridge/guest/tools/file_edit.hpp"
#include "bridge/guest/files/attributes.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "bridge/guest/files/new_file.hpp"
#include "bridge/guest/tools/text_diff.hpp"

namespace atl::guest {
namespace {

constexpr mode_t k_kept_mode_bits = 0777;
constexpr mode_t k_new_file_mode = 0644;
constexpr mode_t k_any_write_bit = 0222;

bool same_time(const timespec& one, const timespec& other) {
    return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

}  // namespace

std::optional<ToolResult> FileEdit::open(const std::string& given) {
    given_ = given;
    const std::optional<std::string> relative = run_.paths.relative(given);
    if (!relative)
        return path_failure(errno, given, "write to");
    if (relative->empty() || relative->ends_with('/'))
        return path_failure(EINVAL, given, "write to");
    if (has_hidden_name(*relative))
        return ToolResult::failure(base::tool_error::invalid_path,
                                   "Cannot write to " + given + ": names of this form are the server's own.",
                                   "Could not write to the file: its name is one of the server's own.");
    relative_ = *relative;
    found_ = run_.paths.find(relative_);
    if (!found_ && errno != ENOENT)
        return path_failure(errno, given, "write to");
    if (found_ && !found_->is_regular())
        return not_a_file(*found_, given, "write to");
    if (found_ && (found_->state.st_mode & k_any_write_bit) == 0)
        return path_failure(EACCES, given, "write to");
    if (found_)
        return std::nullopt;
    relative_ = run_.paths.destination(relative_);
    // Told before directories are made on the way.
    if (base::climbs_out(relative_))
        return path_failure(EXDEV, given, "write to");
    if (is_agent_state(relative_))
        return path_failure(ENOENT, given, "write to");
    return std::nullopt;
}

std::optional<ToolResult> FileEdit::objection() const {
    if (!found_ || run_.edit_rule == EditRule::free)
        return std::nullopt;
    const std::string why = run_.read_files.objection(found_->relative, found_->state);
    if (why.empty())
        return std::nullopt;
    ToolResult result =
        ToolResult::failure(base::tool_error::file_changed, shown() + " was not edited: " + why + ".",
                            shown() + " was not changed: " + why + ".");
    result.details.text("reason", why);
    result.suggestions.emplace_back("Read the file, then repeat the edit with what it holds now.");
    return result;
}

Task<std::optional<ToolResult>> FileEdit::async_load() {
    if (!found_)
        co_return std::nullopt;
    FileBytes file = co_await async_read_all(run_.call, *found_, base::k_max_tool_file_bytes);
    if (file.error != 0)
        co_return path_failure(file.error, given_, "edit");
    before_ = std::move(file.bytes);
    is_loaded_ = true;
    co_return std::nullopt;
}

/// ESTALE if another file is there by now, or this one was written to.
int FileEdit::check_unchanged() const {
    struct stat now {};
    if (fstatat(place_->directory.get(), place_->name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? ESTALE : errno;
    const struct stat& before = found_->state;
    const bool is_same = now.st_dev == before.st_dev && now.st_ino == before.st_ino &&
                         now.st_size == before.st_size && same_time(now.st_mtim, before.st_mtim);
    return is_same ? 0 : ESTALE;
}

Task<int> FileEdit::async_put(const std::string& bytes) {
    NewFile file(place_->directory.get());
    if (!file.is_open())
        co_return errno;
    for (std::string_view left = bytes; !left.empty();) {
        const std::string_view piece = left.substr(0, k_file_piece_bytes);
        if (!file.write(piece))
            co_return errno;
        left.remove_prefix(piece.size());
        if (!left.empty())
            co_await run_.call.turn();
    }
    if (found_)
        if (const int changed = check_unchanged(); changed != 0)
            co_return changed;
    if (found_ && !copy_attributes(found_->fd.get(), file.fd()))
        co_return errno;
    const mode_t mode = found_ ? found_->state.st_mode & k_kept_mode_bits : k_new_file_mode;
    if (!file.publish(place_->name, mode, found_ ? Replace::yes : Replace::no))
        co_return errno;
    struct stat state {};
    if (fstat(file.fd(), &state) == 0)
        run_.read_files.note(found_ ? found_->relative : relative_, state);
    co_return 0;
}

Task<ToolResult> FileEdit::async_commit(const std::string& after) {
    const std::string& target = found_ ? found_->relative : relative_;
    if (!found_ && !run_.paths.beneath().make_parents(target))
        co_return path_failure(errno, given_, "write to");
    place_ = run_.paths.beneath().place(target);
    if (!place_)
        co_return path_failure(errno, given_, "write to");
    if (!found_) {
        const std::optional<std::string> parent = run_.paths.real_path(place_->directory.get());
        if (!parent)
            co_return path_failure(ESTALE, given_, "write to");
        relative_ = (parent->empty() ? "" : *parent + "/") + place_->name;
        // A link led there.
        if (is_agent_state(relative_))
            co_return path_failure(ENOENT, given_, "write to");
    }
    const int error = co_await async_put(after);
    if (error != 0)
        co_return path_failure(error, given_, "write to");
    ToolResult result;
    describe(after, result);
    result.changed_files = {shown()};
    co_return result;
}

void FileEdit::describe(const std::string& after, ToolResult& result) const {
    const std::string path = shown();
    result.data.text("filePath", path).flag("isNewFile", !found_).number("contentLength", after.size());
    result.data.number("lineCount", line_count(after));
    if (found_ && (!is_loaded_ || is_binary(before_) || is_binary(after))) {
        result.data.text("diff", "").flag("diffTruncated", true);
        result.warnings.emplace_back("No diff is shown: what the file held is binary or too large.");
        return;
    }
    const TextDiff diff = unified_diff(found_ ? std::string_view(path) : std::string_view("/dev/null"), path,
                                       before_, after, base::k_max_tool_diff_bytes);
    result.data.text("diff", diff.text).flag("diffTruncated", diff.is_cut);
    if (diff.is_cut)
        result.warnings.emplace_back("The diff is cut; the file was written as a whole.");
}

}  // namespace atl::guest
