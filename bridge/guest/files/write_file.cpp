// write: a file's content from the call's input. By default the new content takes the place of the old one
// when all of it is there; `inplace` writes into the file that is there, as a program that watches the file
// expects.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "bridge/guest/files/attributes.hpp"
#include "bridge/guest/files/file_entry.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/guest/files/new_file.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {
namespace {

using base::Beneath;

constexpr mode_t k_new_mode = 0644;
constexpr mode_t k_overwritten_mode_bits = 0777;
constexpr int k_most_written_links = 40;  // as path_resolution(7)

/// Where the content goes, and what is there now: nothing, or a regular file.
struct Goal {
    std::optional<Beneath::Place> place;
    base::UniqueFd old;  // O_PATH; none: nothing is there
    struct stat about {};
    bool is_named_directory = false;  // by a slash at the end of the path, or of a link's target
    CallEnd refusal;

    std::string tag() const { return old ? entity_tag(about) : std::string(); }
};

/// Says if directories that are missing on the way are made.
enum class Parents : bool { left, made };

/// The path of a link's target, relative to the root; empty, and errno.
std::string follow(const Beneath& root, const std::string& path, int link) {
    char target[PATH_MAX];
    const ssize_t size = readlinkat(link, "", target, sizeof target);
    if (size < 0)
        return {};
    const std::string_view text(target, static_cast<std::size_t>(size));
    if (text.starts_with('/')) {
        errno = EXDEV;
        return root.below_root(text).value_or("");
    }
    const std::size_t slash = path.rfind('/');
    return (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)).append(text);
}

/// Goes on to the target where the path ends in a link, as an editor does. Each step is resolved beneath the
/// root anew. Without a place and without a refusal: a parent is missing.
Goal find_goal(const FileJob& job, Parents parents) {
    Goal goal;
    std::string path = job.request.path;
    for (int links = 0; links < k_most_written_links; ++links) {
        for (; path.ends_with('/'); path.pop_back())
            goal.is_named_directory = true;
        goal.place = parents == Parents::made ? job.root.make_place(path) : job.root.place(path);
        if (!goal.place && errno == ENOENT && parents == Parents::left)
            return goal;
        if (!goal.place)
            break;
        const Beneath::Place& place = *goal.place;
        goal.old.reset(openat(place.directory.get(), place.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!goal.old && errno == ENOENT)
            return goal;
        if (!goal.old || fstat(goal.old.get(), &goal.about) != 0)
            break;
        if (!S_ISLNK(goal.about.st_mode))
            return goal;
        path = follow(job.root, path, goal.old.get());
        if (path.empty())
            break;
        errno = ELOOP;
    }
    goal.refusal = refuse_errno(job.request.path);
    return goal;
}

CallEnd check_kind(const FileRequest& request, const Goal& goal) {
    const bool is_directory = goal.old && S_ISDIR(goal.about.st_mode);
    if (goal.is_named_directory && goal.old && !is_directory)
        return refuse_errno(request.path, ENOTDIR);
    if (goal.is_named_directory || is_directory)
        return refuse_errno(request.path, EISDIR);
    if (goal.old && !S_ISREG(goal.about.st_mode))
        return refuse_file(request.path, "a FIFO, socket or device", bridge::refusal::not_a_file);
    return {};
}

CallEnd check_goal(const FileRequest& request, const Goal& goal) {
    if (!goal.refusal.is_good())
        return goal.refusal;
    CallEnd end = check_kind(request, goal);
    return end.is_good() ? check_conditions(request, goal.tag()) : end;
}

/// The state of the file that has the goal's name by now.
std::optional<struct stat> look_again(const Goal& goal) {
    struct stat about {};
    if (fstatat(goal.place->directory.get(), goal.place->name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
        return std::nullopt;
    return about;
}

CallEnd check_again(const FileRequest& request, const std::optional<struct stat>& now) {
    return check_conditions(request, now ? entity_tag(*now) : std::string());
}

CallEnd reply_written(Call& call, const FileJob& job, const Goal& goal, int fd) {
    struct stat about {};
    if (fstat(fd, &about) != 0)
        return refuse_errno(job.request.path);
    const std::string created = goal.old ? "\"created\":false," : "\"created\":true,";
    call.reply(created + entry_member(job.request.path, about, fd));
    return {};
}

/// Gives the new content its name, unless the condition stopped to hold while it came.
CallEnd publish(const FileJob& job, const Goal& goal, NewFile& file) {
    const FileRequest& request = job.request;
    if (CallEnd end = check_again(request, look_again(goal)); !end.is_good())
        return end;
    if (goal.old && !copy_attributes(goal.old.get(), file.fd()))
        return refuse_errno(request.path);
    const bool must_be_new = !goal.old && !request.if_none_match.empty();
    const mode_t old_mode = goal.old ? goal.about.st_mode & k_overwritten_mode_bits : k_new_mode;
    if (file.publish(goal.place->name, request.mode.value_or(old_mode),
                     must_be_new ? Replace::no : Replace::yes))
        return {};
    if (must_be_new && errno == EEXIST)
        return refuse_file(request.path, "somebody made it meanwhile", bridge::refusal::precondition_failed);
    return refuse_errno(request.path);
}

Task<CallEnd> replace(Call& call, const FileJob& job, const Goal& goal) {
    NewFile file(goal.place->directory.get());
    if (!file.is_open())
        co_return refuse_errno(job.request.path);
    std::uint64_t bytes = 0;
    const Call::Progress progress(call, [&bytes] { return entries_and_bytes(0, bytes); });
    for (Call::Input piece = co_await call.input(); !piece.is_end; piece = co_await call.input()) {
        if (!file.write(piece.bytes))
            co_return refuse_errno(job.request.path);
        bytes += piece.bytes.size();
    }
    if (CallEnd end = publish(job, goal, file); !end.is_good())
        co_return end;
    co_return reply_written(call, job, goal, file.fd());
}

/// True if the goal's name is still that of the open file.
bool has_name(const Goal& goal, int fd) {
    struct stat named {};
    struct stat opened {};
    return fstatat(goal.place->directory.get(), goal.place->name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/// The file that was looked at, emptied; or a new file, if there is still none. Null, and errno; EAGAIN: the
/// name now belongs to another file, or to none. `former` gets the time of the file that was there before.
base::UniqueFd open_in_place(const FileJob& job, const Goal& goal, timespec& former) {
    if (goal.old) {
        base::UniqueFd fd = Beneath::reopen(goal.old.get(), O_WRONLY);
        if (fd && !has_name(goal, fd.get())) {
            errno = EAGAIN;
            return {};
        }
        struct stat about {};
        if (fd && (fstat(fd.get(), &about) != 0 || ftruncate(fd.get(), 0) != 0))
            return {};
        former = about.st_mtim;
        if (fd && job.request.mode)
            fchmod(fd.get(), *job.request.mode);
        return fd;
    }
    base::UniqueFd fd(openat(goal.place->directory.get(), goal.place->name.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd)
        fchmod(fd.get(), job.request.mode.value_or(k_new_mode));
    else if (errno == EEXIST)
        errno = EAGAIN;
    return fd;
}

/// Nothing is touched before the first input is there.
Task<CallEnd> write_in_place(Call& call, const FileJob& job, const Goal& goal) {
    Call::Input piece = co_await call.input();
    if (CallEnd end = check_again(job.request, look_again(goal)); !end.is_good())
        co_return end;
    timespec former{};  // of a new file: none was there
    const base::UniqueFd fd = open_in_place(job, goal, former);
    if (!fd)
        co_return refuse_errno(job.request.path);
    move_time_on(fd.get(), former);
    std::uint64_t bytes = 0;
    const Call::Progress progress(call, [&bytes] { return entries_and_bytes(0, bytes); });
    for (; !piece.is_end; piece = co_await call.input()) {
        if (!write_all(fd.get(), piece.bytes))
            co_return refuse_errno(job.request.path);
        bytes += piece.bytes.size();
        move_time_on(fd.get(), former);
    }
    co_return reply_written(call, job, goal, fd.get());
}

}  // namespace

Task<CallEnd> write_file(Call& call, const FileJob& job) {
    Goal goal = find_goal(job, Parents::left);
    if (CallEnd end = check_goal(job.request, goal); !end.is_good())
        co_return end;
    if (!goal.place) {
        goal = find_goal(job, Parents::made);
        if (CallEnd end = check_goal(job.request, goal); !end.is_good())
            co_return end;
    }
    auto writing = job.request.in_place ? write_in_place(call, job, goal) : replace(call, job, goal);
    co_return co_await writing;
}

}  // namespace atl::guest
