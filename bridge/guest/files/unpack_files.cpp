// unpack: the entries of an archive, which is the call's input, into a directory. A tar is unpacked as it
// comes. A zip, whose directory is at its end, is kept in an unnamed file of the workspace first. Each file
// appears complete, each directory open to its owner until all is in it: its own mode and time come at the
// end. An entry that leads out, or that is no file, directory or link, ends it; what was unpacked before
// stays. The directory is made with the first entry; an entry "." is itself.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "bridge/guest/file_error.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/guest/files/gzip_tar.hpp"
#include "bridge/guest/files/new_file.hpp"
#include "bridge/guest/files/zip_reader.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::guest {
namespace {

using base::Beneath;
using base::LastLink;

constexpr mode_t k_owner_may_all = 0700;
constexpr std::size_t k_unpacked_at_once = 50;
// The first bytes of an archive that tell its format.
constexpr std::size_t k_format_bytes = 4;
// Memory for directories whose modes and times are still to come.
constexpr std::size_t k_most_open_folder_bytes = 4UL * 1024 * 1024;

/// Takes the first part of a path off. Empty parts and "." are skipped; nothing at the end.
std::optional<std::string_view> take_part(std::string_view& path) {
    while (!path.empty()) {
        const std::size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
        if (!part.empty() && part != ".")
            return part;
    }
    return std::nullopt;
}

/// How many levels below its start a path ends; nothing if it is absolute or goes above on its way.
std::optional<int> depth_of(std::string_view path) {
    if (path.starts_with('/') || path.find('\0') != std::string_view::npos)
        return std::nullopt;
    int depth = 0;
    while (const auto part = take_part(path)) {
        depth += *part == ".." ? -1 : 1;
        if (depth < 0)
            return std::nullopt;
    }
    return depth;
}

bool has_parent_part(std::string_view path) {
    while (const auto part = take_part(path))
        if (*part == "..")
            return true;
    return false;
}

/// A directory of the archive that is not complete.
struct OpenFolder {
    std::optional<mode_t> mode;  // none: it keeps its own
    std::int64_t mtime;
};
/// By their paths, those in other ones first: the mode of an outer one may forbid the way to them.
using OpenFolders = std::map<std::string, OpenFolder, std::greater<>>;

/// By the link in /proc: the present mode may forbid to open it. False, and errno.
bool set_folder(const Beneath& root, const std::string& path, std::optional<mode_t> mode, timespec mtime) {
    const base::UniqueFd folder = root.open(path, O_PATH | O_DIRECTORY);
    const std::string link = "/proc/self/fd/" + std::to_string(folder.get());
    const timespec times[2] = {{0, UTIME_OMIT}, mtime};
    return folder && utimensat(AT_FDCWD, link.c_str(), times, 0) == 0 &&
           (!mode || chmod(link.c_str(), *mode) == 0);
}

/// A file of the archive that is being written.
struct OpenFile {
    Beneath::Place place;
    NewFile file;
    mode_t mode;
    std::int64_t mtime;

    OpenFile(Beneath::Place in_place, const ArchiveEntry& entry)
        : place(std::move(in_place)), file(place.directory.get()), mode(entry.mode), mtime(entry.mtime) {}
};

class Unpacking {
  public:
    explicit Unpacking(const FileJob& job) : job_(job) {
        prefix_ = job.request.path;
        if (!prefix_.empty() && !prefix_.ends_with('/'))
            prefix_ += '/';
    }

    /// Each gives why it stops, or a good end.
    CallEnd begin(const ArchiveEntry& entry);
    CallEnd write(std::string_view bytes);
    CallEnd finish();
    /// True if the directories that are not complete take all the memory that they may.
    bool is_full() const noexcept { return folder_bytes_ > k_most_open_folder_bytes; }
    /// Gives up those directories that the present entry does not lie in, or all.
    enum class Which : std::uint8_t { left, all };
    OpenFolders take_folders(Which which);
    CallEnd close_folder(const std::string& path, const OpenFolder& folder) const;
    std::string told() const { return entries_and_bytes(entries_, bytes_); }

  private:
    CallEnd refuse(std::string_view why) const {
        return refuse_file(name_, why, bridge::refusal::invalid_archive);
    }
    CallEnd refuse_from_errno() const { return refuse_errno(name_); }
    std::optional<Beneath::Place> make_place(const std::string& path) const {
        return job_.root.make_place(path);
    }
    CallEnd make_folder(const ArchiveEntry& entry, const std::string& path);
    CallEnd make_top(const ArchiveEntry& entry);
    CallEnd keep_open(std::string plain, const OpenFolder& folder);
    CallEnd make_link(const ArchiveEntry& entry, const std::string& path) const;
    CallEnd make_hard_link(const ArchiveEntry& entry, const std::string& path) const;

    const FileJob& job_;
    std::string prefix_;
    std::string name_;  // of the entry, for sentences
    std::optional<OpenFile> open_;
    OpenFolders folders_;
    std::size_t folder_bytes_ = 0;
    std::uint64_t entries_ = 0;
    std::uint64_t bytes_ = 0;
};

/// The path in its one spelling.
std::string plain_path(std::string_view path) {
    std::string plain;
    while (const auto part = take_part(path))
        plain.append(plain.empty() ? "" : "/").append(*part);
    return plain;
}

std::size_t bytes_of_folder(const std::string& path) {
    return path.size() + 2 * sizeof(OpenFolders::value_type);
}

CallEnd Unpacking::make_folder(const ArchiveEntry& entry, const std::string& path) {
    const std::optional<Beneath::Place> place = make_place(path);
    if (!place ||
        (mkdirat(place->directory.get(), place->name.c_str(), k_owner_may_all) != 0 && errno != EEXIST))
        return refuse_from_errno();
    return keep_open(plain_path(path), {entry.mode, entry.mtime});
}

/// The directory that is unpacked into. The workspace is private to its owner, whatever an archive says.
CallEnd Unpacking::make_top(const ArchiveEntry& entry) {
    if (prefix_.empty())
        return keep_open("", {std::nullopt, entry.mtime});
    if (!make_place(prefix_ + "x"))
        return refuse_from_errno();
    return keep_open(plain_path(prefix_), {entry.mode, entry.mtime});
}

CallEnd Unpacking::keep_open(std::string plain, const OpenFolder& folder) {
    // Later entries go in, whatever its mode says of its owner, and move its time on.
    std::optional<mode_t> mode = folder.mode;
    if (mode)
        *mode |= k_owner_may_all;
    if (!set_folder(job_.root, plain, mode, {0, UTIME_OMIT}))
        return refuse_from_errno();
    const std::size_t bytes = bytes_of_folder(plain);
    if (folders_.insert_or_assign(std::move(plain), folder).second)
        folder_bytes_ += bytes;
    return {};
}

OpenFolders Unpacking::take_folders(Which which) {
    const std::string here = plain_path(prefix_ + name_) + '/';
    OpenFolders taken;
    for (auto at = folders_.begin(); at != folders_.end();) {
        const auto folder = at++;
        const bool is_around = folder->first.empty() || here.starts_with(folder->first + '/');
        if (which == Which::left && is_around)
            continue;
        folder_bytes_ -= bytes_of_folder(folder->first);
        taken.insert(folders_.extract(folder));
    }
    return taken;
}

/// Somebody else may have taken it away meanwhile.
CallEnd Unpacking::close_folder(const std::string& path, const OpenFolder& folder) const {
    const bool is_closed = set_folder(job_.root, path, folder.mode, {folder.mtime, 0});
    return is_closed || errno == ENOENT || errno == ENOTDIR ? CallEnd{} : refuse_errno(path);
}

CallEnd Unpacking::make_link(const ArchiveEntry& entry, const std::string& path) const {
    // Wherever it leads: to store a link is not to follow it, and nothing here follows one out.
    if (entry.target.empty() || entry.target.find('\0') != std::string::npos)
        return refuse("a link without a target");
    const std::optional<Beneath::Place> place = make_place(path);
    const std::string name = hidden_name();
    if (!place || symlinkat(entry.target.c_str(), place->directory.get(), name.c_str()) != 0)
        return refuse_from_errno();
    HiddenName hidden(place->directory.get(), name);
    const timespec times[2] = {{0, UTIME_OMIT}, {entry.mtime, 0}};
    utimensat(place->directory.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW);
    return hidden.publish(place->name, Replace::yes) ? CallEnd{} : refuse_from_errno();
}

CallEnd Unpacking::make_hard_link(const ArchiveEntry& entry, const std::string& path) const {
    if (!depth_of(entry.target) || has_parent_part(entry.target))
        return refuse("a link that leads outside the archive");
    const std::optional<Beneath::Place> from = job_.root.place(prefix_ + entry.target);
    const std::optional<Beneath::Place> to = from ? make_place(path) : std::nullopt;
    const std::string name = hidden_name();
    if (!to || linkat(from->directory.get(), from->name.c_str(), to->directory.get(), name.c_str(), 0) != 0)
        return refuse_from_errno();
    HiddenName hidden(to->directory.get(), name);
    return hidden.publish(to->name, Replace::yes) ? CallEnd{} : refuse_from_errno();
}

CallEnd Unpacking::begin(const ArchiveEntry& entry) {
    if (CallEnd end = finish(); !end.is_good())
        return end;
    name_ = entry.path;
    if (++entries_ > base::k_max_archive_entries)
        return refuse("the archive has too many entries");
    const std::optional<int> depth = depth_of(entry.path);
    if (!depth || has_parent_part(entry.path))
        return refuse("an entry outside the archive's own directory");
    if (*depth == 0 && entry.type == EntryType::directory)
        return make_top(entry);
    if (*depth == 0)
        return refuse("an entry without a name");
    if (has_hidden_name(entry.path))
        return refuse_file(name_, "names of this form are the server's own", bridge::refusal::invalid_path);
    const std::string path = prefix_ + entry.path;
    switch (entry.type) {
        case EntryType::directory:
            return make_folder(entry, path);
        case EntryType::symlink:
            return make_link(entry, path);
        case EntryType::hard_link:
            return make_hard_link(entry, path);
        case EntryType::other:
            return refuse("neither a file nor a directory nor a link");
        case EntryType::file:
            break;
    }
    std::optional<Beneath::Place> place = make_place(path);
    if (!place)
        return refuse_from_errno();
    open_.emplace(std::move(*place), entry);
    return open_->file.is_open() ? CallEnd{} : refuse_from_errno();
}

CallEnd Unpacking::write(std::string_view bytes) {
    if (!open_)
        return {};  // of what has none
    bytes_ += bytes.size();
    return open_->file.write(bytes) ? CallEnd{} : refuse_from_errno();
}

CallEnd Unpacking::finish() {
    if (!open_)
        return {};
    const timespec times[2] = {{0, UTIME_OMIT}, {open_->mtime, 0}};
    futimens(open_->file.fd(), times);
    const bool is_published = open_->file.publish(open_->place.name, open_->mode, Replace::yes);
    CallEnd end = is_published ? CallEnd{} : refuse_from_errno();
    open_.reset();
    return end;
}

/// Gives directories their own modes and times, giving way meanwhile.
Task<CallEnd> close_folders(Call& call, Unpacking& to, Unpacking::Which which) {
    const OpenFolders folders = to.take_folders(which);
    CallEnd failed;
    std::size_t closed = 0;
    for (const auto& [path, folder] : folders) {
        CallEnd end = to.close_folder(path, folder);
        if (failed.is_good())
            failed = std::move(end);
        if (++closed % k_unpacked_at_once == 0)
            co_await call.turn();
    }
    co_return failed;
}

CallEnd refuse_archive(const std::string& why) {
    return {"the archive: " + why, bridge::refusal::invalid_archive};
}

/// Takes in what is in one piece of input, giving way meanwhile.
Task<CallEnd> take_entries(Call& call, Unpacking& to, ArchiveReader& reader, std::string_view bytes) {
    using Found = ArchiveReader::Found;
    std::string kept;  // the rest of the piece, which itself is not valid behind a wait
    std::size_t steps = 0;
    for (;;) {
        const Found found = reader.next(bytes);
        if (found == Found::need_more || found == Found::end)
            co_return CallEnd{};
        if (found == Found::refused)
            co_return refuse_archive(reader.refusal());
        CallEnd end = found == Found::entry ? to.begin(reader.entry()) : to.write(reader.bytes());
        if (!end.is_good())
            co_return end;
        if (++steps % k_unpacked_at_once == 0 || to.is_full()) {
            kept = std::string(bytes);
            bytes = kept;
            co_await call.turn();
        }
        if (to.is_full()) {
            auto closing = close_folders(call, to, Unpacking::Which::left);
            if (CallEnd closed = co_await closing; !closed.is_good())
                co_return closed;
        }
    }
}

/// The directory that is unpacked into is there, or may be made.
bool is_place_for_folder(const FileJob& job) {
    const std::string& path = job.request.path;
    const base::UniqueFd there = job.root.open(path, O_PATH | O_DIRECTORY);
    return there || (errno == ENOENT && !base::climbs_out(path));
}

/// `start` is what has come of it.
Task<CallEnd> unpack_tar(Call& call, Unpacking& to, TarReader& reader, std::string_view start) {
    for (Call::Input piece{start}; !piece.is_end; piece = co_await call.input()) {
        auto taking = take_entries(call, to, reader, piece.bytes);
        if (CallEnd end = co_await taking; !end.is_good())
            co_return end;
    }
    if (!reader.is_complete())
        co_return refuse_archive(reader.why_incomplete());
    co_return to.finish();
}

Task<CallEnd> unpack_zip(Call& call, Unpacking& to, int folder, std::string_view start) {
    NewFile archive(folder);
    std::uint64_t size = 0;
    for (Call::Input piece{start}; !piece.is_end; piece = co_await call.input()) {
        if (!archive.is_open() || !archive.write(piece.bytes))
            co_return refuse_errno("the archive");
        size += piece.bytes.size();
    }
    ZipReader reader(archive.fd(), size);
    auto taking = take_entries(call, to, reader, {});
    if (CallEnd end = co_await taking; !end.is_good())
        co_return end;
    co_return to.finish();
}

/// The format of what begins so.
std::string_view format_of(std::string_view start) {
    constexpr std::string_view k_zip_start = "PK";
    // An entry, or the end where there is none.
    if (start.starts_with(k_zip_start)) {
        const std::string_view record = start.substr(k_zip_start.size(), 2);
        if (record == "\x03\x04" || record == "\x05\x06")
            return "zip";
    }
    return start.starts_with("\x1f\x8b") ? "tar.gz" : "tar";
}

Task<CallEnd> unpack_entries(Call& call, Unpacking& to, const FileJob& job) {
    const Call::Progress progress(call, [&to] { return to.told(); });
    std::string start;
    while (start.size() < k_format_bytes) {
        const Call::Input piece = co_await call.input();
        if (piece.is_end)
            co_return refuse_archive("it is empty, or ends in the middle");
        start.append(piece.bytes);
    }
    const std::string format(job.request.format.empty() ? format_of(start) : job.request.format);
    std::unique_ptr<TarReader> reader;
    if (format == "tar.gz")
        reader = std::make_unique<GzipTarReader>();
    else if (format == "tar")
        reader = std::make_unique<TarReader>();
    if (!reader && format != "zip")
        co_return CallEnd{"no such `format`", bridge::refusal::invalid};
    if (reader) {
        auto unpacking = unpack_tar(call, to, *reader, start);
        co_return co_await unpacking;
    }
    auto unpacking = unpack_zip(call, to, job.root.fd(), start);
    co_return co_await unpacking;
}

}  // namespace

Task<CallEnd> unpack_files(Call& call, const FileJob& job) {
    const std::string& path = job.request.path;
    if (!is_place_for_folder(job))
        co_return refuse_errno(path, errno == ENOENT ? EXDEV : errno);
    Unpacking to(job);
    auto unpacking = unpack_entries(call, to, job);
    CallEnd end = co_await unpacking;
    // Also of an archive that breaks off.
    auto closing = close_folders(call, to, Unpacking::Which::all);
    CallEnd closed = co_await closing;
    if (end.is_good())
        end = std::move(closed);
    if (!end.is_good())
        co_return end;
    // If the archive has no entries, nothing has made the directory yet.
    if (!path.empty() && !job.root.make_place(path + "/x"))
        co_return refuse_errno(path);
    const std::string told = to.told();
    call.reply(std::string_view(told).substr(1, told.size() - 2));
    co_return CallEnd{};
}

}  // namespace atl::guest
