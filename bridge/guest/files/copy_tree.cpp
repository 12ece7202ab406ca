// copy: a file, a link as a link, or a directory with all that is in it. The copy is made beside its name and
// gets that name when it is complete.
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "bridge/guest/file_error.hpp"
#include "bridge/guest/files/attributes.hpp"
#include "bridge/guest/files/file_entry.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/guest/files/folder.hpp"
#include "bridge/guest/files/new_file.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/tree_remover.hpp"

namespace atl::guest {
namespace {

using base::Beneath;
using base::LastLink;

constexpr mode_t k_copied_mode_bits = 0777;
constexpr std::size_t k_copied_piece_bytes = 4UL * 1024 * 1024;
constexpr std::size_t k_plain_piece_bytes = 64UL * 1024;
constexpr std::size_t k_copied_at_once = 50;
constexpr std::size_t k_most_copied_levels = 64;  // two descriptors each
constexpr std::size_t k_uncopied_at_once = 200;
constexpr std::size_t k_most_uncopied = 1'000'000;
static_assert(k_most_uncopied % k_uncopied_at_once == 0);
constexpr Millis k_abandoned_pause{100};

/// A copy under way. `failed` says where and why it stopped.
struct Copy {
    Call& call;
    std::string_view path;  // asked for
    std::uint64_t bytes = 0;
    std::uint64_t entries = 0;
    CallEnd failed{};
    dev_t own_device = 0;  // of the new directory, which may lie in what is copied
    ino_t own_inode = 0;

    bool fail(int error_number) {
        failed = refuse_errno(path, error_number);
        return false;
    }
    bool fail() { return fail(errno); }
};

/// A directory that is copied, and its copy.
struct CopyLevel {
    Folder from;
    base::UniqueFd to;
    mode_t mode;
};

/// Bytes copied, 0 at the end, or -1 and errno.
ssize_t copy_piece(int from, int to, std::uint64_t left) {
    const ssize_t size =
        copy_file_range(from, nullptr, to, nullptr, std::min<std::uint64_t>(left, k_copied_piece_bytes), 0);
    if (size >= 0 || (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS))
        return size;
    const auto buffer = std::make_unique_for_overwrite<char[]>(k_plain_piece_bytes);
    const ssize_t got = read(from, buffer.get(), std::min<std::uint64_t>(left, k_plain_piece_bytes));
    if (got <= 0)
        return got;
    return write_all(to, {buffer.get(), static_cast<std::size_t>(got)}) ? got : -1;
}

/// Copies the bytes that the file has now. A file that grows meanwhile would be copied without end.
Task<bool> copy_bytes(Copy& copy, int from, int to, off_t now) {
    for (auto left = static_cast<std::uint64_t>(now); left > 0;) {
        const ssize_t size = copy_piece(from, to, left);
        if (size < 0)
            co_return copy.fail();
        if (size == 0)
            co_return true;
        left -= static_cast<std::uint64_t>(size);
        copy.bytes += static_cast<std::uint64_t>(size);
        co_await copy.call.turn();
    }
    co_return true;
}

/// A regular file, looked at before it is opened.
base::UniqueFd open_source(int folder, const char* name, struct stat& about) {
    const base::UniqueFd there(openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!there || fstat(there.get(), &about) != 0)
        return {};
    if (!S_ISREG(about.st_mode)) {
        errno = ENXIO;
        return {};
    }
    return Beneath::reopen(there.get(), O_RDONLY);
}

Task<bool> copy_inner_file(Copy& copy, int from_folder, const char* name, int to_folder) {
    struct stat about {};
    const base::UniqueFd from = open_source(from_folder, name, about);
    const base::UniqueFd to(
        from ? openat(to_folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1);
    if (!to)
        co_return copy.fail();
    auto copying = copy_bytes(copy, from.get(), to.get(), about.st_size);
    if (!co_await copying)
        co_return false;
    const bool is_dressed =
        copy_attributes(from.get(), to.get()) && fchmod(to.get(), about.st_mode & k_copied_mode_bits) == 0;
    co_return is_dressed || copy.fail();
}

bool copy_link(Copy& copy, int from_folder, const char* name, int to_folder, const char* as) {
    char target[PATH_MAX];
    const ssize_t size = readlinkat(from_folder, name, target, sizeof target - 1);
    if (size < 0)
        return copy.fail();
    target[size] = '\0';
    return symlinkat(target, to_folder, as) == 0 || copy.fail();
}

bool enter_copied_folder(Copy& copy, std::vector<CopyLevel>& levels, const char* name, mode_t mode) {
    const CopyLevel& above = levels.back();
    if (levels.size() == k_most_copied_levels)
        return copy.fail(ENAMETOOLONG);
    CopyLevel inner{open_folder(dirfd(above.from.get()), name), {}, mode};
    if (!inner.from)
        return copy.fail();
    if (mkdirat(above.to.get(), name, 0700) != 0)
        return copy.fail();
    inner.to.reset(openat(above.to.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!inner.to)
        return copy.fail();
    levels.push_back(std::move(inner));
    return true;
}

/// Copies an entry of the deepest level.
Task<bool> copy_entry(Copy& copy, std::vector<CopyLevel>& levels, std::string name) {
    const int from = dirfd(levels.back().from.get());
    const int to = levels.back().to.get();
    struct stat about {};
    if (fstatat(from, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
        co_return errno == ENOENT || copy.fail();
    const bool is_own = about.st_dev == copy.own_device && about.st_ino == copy.own_inode;
    if (is_own || is_hidden_name(name))
        co_return true;
    ++copy.entries;
    if (S_ISDIR(about.st_mode))
        co_return enter_copied_folder(copy, levels, name.c_str(), about.st_mode & k_copied_mode_bits);
    if (S_ISLNK(about.st_mode))
        co_return copy_link(copy, from, name.c_str(), to, name.c_str());
    if (!S_ISREG(about.st_mode)) {
        copy.failed =
            refuse_file(copy.path, "there is a FIFO, socket or device in it", bridge::refusal::not_a_file);
        co_return false;
    }
    auto copying = copy_inner_file(copy, from, name.c_str(), to);
    co_return co_await copying;
}

Task<bool> copy_levels(Copy& copy, CopyLevel top) {
    std::vector<CopyLevel> levels;
    levels.push_back(std::move(top));
    std::size_t names = 0;
    while (!levels.empty()) {
        const char* const name = next_name(levels.back().from.get());
        if (name == nullptr) {
            // Only now: a directory that may not be written to is filled before it is that.
            if (fchmod(levels.back().to.get(), levels.back().mode) != 0)
                co_return copy.fail();
            levels.pop_back();
            continue;
        }
        auto copying = copy_entry(copy, levels, name);
        if (!co_await copying)
            co_return false;
        if (++names % k_copied_at_once == 0)
            co_await copy.call.turn();
    }
    co_return true;
}

/// True if `folder` is the directory `outer`, or lies in it.
bool lies_in(int root, int folder, const struct stat& outer) {
    struct stat about {};
    struct stat top {};
    if (fstat(root, &top) != 0)
        return false;
    base::UniqueFd at(openat(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    while (at && fstat(at.get(), &about) == 0) {
        if (is_same_file(about, outer))
            return true;
        if (is_same_file(about, top))
            return false;
        at.reset(openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    return false;
}

/// The source and the target of a copy.
struct Ends {
    Beneath::Place from;
    struct stat about;
    Beneath::Place to;
    Replace replace;
};

/// Removes what a failed copy made. If the client leaves meanwhile, the copy's HiddenName removes the rest.
Task<void> remove_part(Call& call, int folder, const std::string& name) {
    base::TreeRemover remover;
    remover.begin(folder, name);
    // Somebody may go on filling it: the HiddenName has the rest of that, too.
    for (std::size_t left = k_most_uncopied; left > 0 && remover.step(k_uncopied_at_once);
         left -= k_uncopied_at_once)
        co_await call.turn();
}

Task<bool> copy_folder(Copy& copy, const FileJob& job, const Ends& ends) {
    // Else copies that are given up again and again would pile up.
    while (job.abandoned.is_full())
        co_await copy.call.pause(k_abandoned_pause);
    const int to = ends.to.directory.get();
    // No directory gives way, and none goes into itself.
    if (faccessat(to, ends.to.name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        co_return copy.fail(EEXIST);
    if (lies_in(job.root.fd(), to, ends.about))
        co_return copy.fail(EINVAL);
    Folder from = open_folder(ends.from.directory.get(), ends.from.name.c_str());
    if (!from)
        co_return copy.fail();
    const std::string name = hidden_name();
    if (mkdirat(to, name.c_str(), 0700) != 0)
        co_return copy.fail();
    HiddenName hidden(to, name, &job.abandoned);
    CopyLevel top{std::move(from),
                  base::UniqueFd(openat(to, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
                  ends.about.st_mode & k_copied_mode_bits};
    struct stat own {};
    if (!top.to || fstat(top.to.get(), &own) != 0)
        co_return copy.fail();
    copy.own_device = own.st_dev;
    copy.own_inode = own.st_ino;
    auto copying = copy_levels(copy, std::move(top));
    bool is_done = co_await copying;
    if (is_done)
        is_done = hidden.publish(ends.to.name, Replace::no) || copy.fail();
    if (is_done)
        co_return true;
    // Before the refusal: who reads it has the room of the copy again.
    auto removing = remove_part(copy.call, to, name);
    co_await removing;
    co_return false;
}

Task<bool> copy_regular(Copy& copy, const Ends& ends) {
    struct stat about {};
    const base::UniqueFd from = open_source(ends.from.directory.get(), ends.from.name.c_str(), about);
    if (!from)
        co_return copy.fail();
    NewFile made(ends.to.directory.get());
    if (!made.is_open())
        co_return copy.fail();
    auto copying = copy_bytes(copy, from.get(), made.fd(), about.st_size);
    if (!co_await copying)
        co_return false;
    const bool is_there = copy_attributes(from.get(), made.fd()) &&
                          made.publish(ends.to.name, about.st_mode & k_copied_mode_bits, ends.replace);
    co_return is_there || copy.fail();
}

bool copy_symlink(Copy& copy, const Ends& ends) {
    const int to = ends.to.directory.get();
    const std::string name = hidden_name();
    if (!copy_link(copy, ends.from.directory.get(), ends.from.name.c_str(), to, name.c_str()))
        return false;
    HiddenName hidden(to, name);
    return hidden.publish(ends.to.name, ends.replace) || copy.fail();
}

}  // namespace

Task<CallEnd> copy_file(Call& call, const FileJob& job) {
    const FileRequest& request = job.request;
    std::optional<Beneath::Place> from = job.root.place(request.path);
    struct stat about {};
    if (!from || fstatat(from->directory.get(), from->name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
        co_return refuse_errno(request.path);
    if (CallEnd end = check_slashes(request, about); !end.is_good())
        co_return end;
    if (CallEnd end = check_conditions(request, entity_tag(about)); !end.is_good())
        co_return end;
    if (!S_ISDIR(about.st_mode) && !S_ISLNK(about.st_mode) && !S_ISREG(about.st_mode))
        co_return refuse_file(request.path, "a FIFO, socket or device", bridge::refusal::not_a_file);
    base::NewParents made(job.root);
    std::optional<Beneath::Place> to = job.root.make_place(request.to, &made);
    if (!to)
        co_return refuse_errno(request.to);
    const Ends ends{std::move(*from), about, std::move(*to), request.overwrite ? Replace::yes : Replace::no};
    Copy copy{call, request.to};
    const Call::Progress progress(call, [&copy] { return entries_and_bytes(copy.entries, copy.bytes); });
    bool is_done = false;
    if (S_ISDIR(about.st_mode)) {
        auto copying = copy_folder(copy, job, ends);
        is_done = co_await copying;
    } else if (S_ISLNK(about.st_mode)) {
        is_done = copy_symlink(copy, ends);
    } else {
        auto copying = copy_regular(copy, ends);
        is_done = co_await copying;
    }
    if (!is_done)
        co_return copy.failed;
    made.keep();
    const base::UniqueFd there = job.root.look(request.to, LastLink::itself);
    if (!there || fstat(there.get(), &about) != 0)
        co_return refuse_errno(request.to);
    call.reply("\"created\":true," + entry_member(request.to, about, there.get()));
    co_return CallEnd{};
}

}  // namespace atl::guest
