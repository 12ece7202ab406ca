// pack: a file or a directory with all that is in it, as an archive behind the reply. Links are links,
// hard links files of their own. FIFOs, sockets, devices, what may not be read and what is too deep are left
// out.
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bridge/guest/file_error.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/guest/files/folder.hpp"
#include "bridge/guest/files/gzip_tar.hpp"
#include "bridge/guest/files/new_file.hpp"
#include "bridge/guest/files/zip_writer.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/inner_paths.hpp"

namespace atl::guest {
namespace {

using base::Beneath;
using base::LastLink;

constexpr std::size_t k_packed_piece_bytes = base::k_max_frame_bytes;
constexpr std::size_t k_most_packed_levels = 256;
constexpr std::size_t k_packed_names_at_once = 200;
constexpr mode_t k_packed_mode_bits = 0777;

struct PackLevel {
    Folder folder;
    std::string path;           // in the archive, with a slash at the end unless it is empty
    bool without_home = false;  // leaves out base::k_home_names
};

/// An archive under way.
struct Packing {
    Call& call;
    std::unique_ptr<ArchiveWriter> archive;
    std::string text{};    // of the archive, not sent yet
    std::size_t read = 0;  // bytes of files, since others had their turn
    CallEnd failed{};

    /// False: the archive breaks off.
    bool begin(const ArchiveEntry& entry) {
        if (!archive->begin(text, entry))
            failed = {"the archive: more entries than a zip can have here: take tar or tar.gz", {}};
        return failed.is_good();
    }
    /// Adds an entry that has no bytes.
    bool add(const ArchiveEntry& entry) {
        if (!begin(entry))
            return false;
        archive->end_entry(text);
        return true;
    }
    /// True if others are to have their turn. A compressed text is short for the work in it.
    bool is_due() const noexcept {
        return text.size() >= k_packed_piece_bytes || read >= k_packed_piece_bytes;
    }

    /// Leaves out a file that cannot be opened. False: the guest lacks descriptors or memory, so the archive
    /// breaks off.
    bool skip(const std::string& path, int error_number) {
        const bool lacks_means = error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM;
        if (lacks_means)
            failed = refuse_errno(path, error_number);
        return !lacks_means;
    }
};

ArchiveEntry archive_entry(const std::string& path, const struct stat& about) {
    ArchiveEntry entry;
    entry.path = path;
    entry.mode = about.st_mode & k_packed_mode_bits;
    entry.mtime = about.st_mtim.tv_sec;
    return entry;
}

Task<void> send_text(Packing& to) {
    to.call.output(to.text);
    to.text.clear();
    to.read = 0;
    co_await to.call.turn();
    co_await to.call.room();
}

/// The header says how long it is: exactly so many bytes follow, zeros where the file has none any more.
Task<void> send_content(Packing& to, int fd, std::uint64_t size) {
    const auto buffer = std::make_unique_for_overwrite<char[]>(k_packed_piece_bytes);
    bool has_ended = false;
    for (std::uint64_t left = size; left > 0;) {
        const std::size_t wanted = std::min<std::uint64_t>(left, k_packed_piece_bytes);
        const ssize_t got = has_ended ? 0 : read(fd, buffer.get(), wanted);
        has_ended = got <= 0;
        const std::size_t added = has_ended ? wanted : static_cast<std::size_t>(got);
        if (has_ended)
            std::fill_n(buffer.get(), added, '\0');
        to.archive->write(to.text, {buffer.get(), added});
        left -= added;
        to.read += added;
        if (to.is_due()) {
            auto sending = send_text(to);
            co_await sending;
        }
    }
    to.archive->end_entry(to.text);
}

Task<bool> pack_regular(Packing& to, const std::string& path, int fd, const struct stat& about) {
    ArchiveEntry entry = archive_entry(path, about);
    entry.type = EntryType::file;
    entry.size = static_cast<std::uint64_t>(about.st_size);
    if (!to.begin(entry))
        co_return false;
    auto sending = send_content(to, fd, entry.size);
    co_await sending;
    co_return true;
}

bool pack_link(Packing& to, const std::string& path, int looked_at, const struct stat& about) {
    char target[PATH_MAX];
    const ssize_t size = readlinkat(looked_at, "", target, sizeof target);
    if (size < 0)
        return to.skip(path, errno);
    ArchiveEntry entry = archive_entry(path, about);
    entry.type = EntryType::symlink;
    entry.target.assign(target, static_cast<std::size_t>(size));
    return to.add(entry);
}

bool enter_packed_folder(Packing& to, std::vector<PackLevel>& levels, const std::string& path, int looked_at,
                         const struct stat& about) {
    if (levels.size() == k_most_packed_levels)
        return true;  // left out
    Folder folder = read_folder(Beneath::reopen(looked_at, O_RDONLY | O_DIRECTORY));
    if (!folder)
        return to.skip(path, errno);
    ArchiveEntry entry = archive_entry(path + '/', about);
    entry.type = EntryType::directory;
    levels.push_back({std::move(folder), path + '/'});
    return to.add(entry);
}

/// Packs the entry that is open at `looked_at` (O_PATH).
Task<bool> pack_entry(Packing& to, std::vector<PackLevel>& levels, std::string path,
                      base::UniqueFd looked_at) {
    struct stat about {};
    if (fstat(looked_at.get(), &about) != 0)
        co_return to.skip(path, errno);
    if (S_ISDIR(about.st_mode))
        co_return enter_packed_folder(to, levels, path, looked_at.get(), about);
    if (S_ISLNK(about.st_mode))
        co_return pack_link(to, path, looked_at.get(), about);
    if (!S_ISREG(about.st_mode))
        co_return true;
    const base::UniqueFd fd = Beneath::reopen(looked_at.get(), O_RDONLY);
    if (!fd || fstat(fd.get(), &about) != 0)
        co_return to.skip(path, errno);
    auto packing = pack_regular(to, path, fd.get(), about);
    co_return co_await packing;
}

Task<bool> pack_levels(Packing& to, std::vector<PackLevel> levels) {
    std::size_t names = 0;
    while (!levels.empty()) {
        PackLevel& level = levels.back();
        const char* const name = next_name(level.folder.get());
        if (name == nullptr) {
            levels.pop_back();
            continue;
        }
        // Also what gives no output takes its time.
        const std::string kept = name;
        if (++names % k_packed_names_at_once == 0)
            co_await to.call.turn();
        if (is_hidden_name(kept) || (level.without_home && base::is_home_name(kept)))
            continue;
        base::UniqueFd looked_at(
            openat(dirfd(level.folder.get()), kept.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        std::string path = level.path + kept;
        if (!looked_at && to.skip(path, errno))
            continue;
        if (!looked_at)
            co_return false;
        auto packing = pack_entry(to, levels, std::move(path), std::move(looked_at));
        if (!co_await packing)
            co_return false;
        if (to.is_due()) {
            auto sending = send_text(to);
            co_await sending;
        }
    }
    co_return true;
}

/// Null: there is no such format.
std::unique_ptr<ArchiveWriter> archive_writer(std::string_view format) {
    if (format == "zip")
        return std::make_unique<ZipWriter>();
    if (format == "tar.gz")
        return std::make_unique<GzipTarWriter>();
    return format.empty() || format == "tar" ? std::make_unique<TarWriter>() : nullptr;
}

std::string last_packed_part(std::string_view path) {
    return std::string(path.substr(path.rfind('/') + 1));
}

/// The member `leftOut` of the reply: the names in the directory `at` that are left out.
std::string left_out_member(int at) {
    std::string names;
    struct stat about {};
    for (const std::string_view name : base::k_home_names) {
        if (fstatat(at, std::string(name).c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0)
            names.append(names.empty() ? "" : ", ").append(name);
    }
    return names.empty() ? names : "\"leftOut\":\"" + names + '"';
}

}  // namespace

Task<CallEnd> pack_files(Call& call, const FileJob& job) {
    const std::string& path = job.request.path;
    base::UniqueFd start = job.root.look(path, LastLink::followed);
    struct stat about {};
    if (!start || fstat(start.get(), &about) != 0)
        co_return refuse_errno(path);
    Packing to{call, archive_writer(job.request.format)};
    if (!to.archive)
        co_return CallEnd{"no such `format`", bridge::refusal::invalid};
    std::vector<PackLevel> levels;
    base::UniqueFd file;  // if that is all
    if (S_ISDIR(about.st_mode)) {
        // Names in the archive begin below the directory that is asked for.
        Folder folder = read_folder(Beneath::reopen(start.get(), O_RDONLY | O_DIRECTORY));
        if (!folder)
            co_return refuse_errno(path);
        levels.push_back({std::move(folder), "", leaves_out_home(job.request)});
    } else if (!S_ISREG(about.st_mode)) {
        co_return refuse_file(path, "a FIFO, socket or device", bridge::refusal::not_a_file);
    } else {
        file = Beneath::reopen(start.get(), O_RDONLY);
        if (!file || fstat(file.get(), &about) != 0)
            co_return refuse_errno(path);
    }
    const bool is_partial = !levels.empty() && levels.front().without_home;
    call.reply(is_partial ? left_out_member(start.get()) : std::string());
    if (file) {
        const std::string name = last_packed_part(path);
        auto packing = pack_regular(to, name, file.get(), about);
        co_await packing;
    }
    auto packing = pack_levels(to, std::move(levels));
    if (!co_await packing)
        co_return to.failed;
    while (to.archive->finish(to.text)) {
        auto sending = send_text(to);
        co_await sending;
    }
    call.output(to.text);
    co_return CallEnd{};
}

}  // namespace atl::guest
