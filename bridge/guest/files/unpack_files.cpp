// unpack: the entries of a tar archive, which is the call's input, into a directory. Each file appears
// complete. An entry that leads out, or that is no file, directory or link, ends it; what was unpacked before
// stays. The directory is made with the first entry.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "bridge/guest/file_error.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/guest/files/new_file.hpp"
#include "bridge/guest/files/tar.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::guest {
namespace {

using base::Beneath;
using base::LastLink;

constexpr mode_t k_owner_may_all = 0700;
constexpr std::size_t k_unpacked_at_once = 50;

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

/// A file of the archive that is being written.
struct OpenFile {
    Beneath::Place place;
    NewFile file;
    mode_t mode;
    std::int64_t mtime;

    OpenFile(Beneath::Place in_place, const TarEntry& entry)
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
    CallEnd begin(const TarEntry& entry);
    CallEnd write(std::string_view bytes);
    CallEnd finish();
    std::string told() const {
        return "\"entries\":" + std::to_string(entries_) + ",\"bytes\":" + std::to_string(bytes_);
    }

  private:
    CallEnd refuse(std::string_view why) const {
        return refuse_file(name_, why, bridge::refusal::invalid_archive);
    }
    CallEnd refuse_from_errno() const { return refuse_errno(name_); }
    std::optional<Beneath::Place> make_place(const std::string& path) const {
        return job_.root.make_place(path);
    }
    CallEnd make_folder(const TarEntry& entry, const std::string& path) const;
    CallEnd make_link(const TarEntry& entry, const std::string& path) const;
    CallEnd make_hard_link(const TarEntry& entry, const std::string& path) const;

    const FileJob& job_;
    std::string prefix_;
    std::string name_;  // of the entry, for sentences
    std::optional<OpenFile> open_;
    std::uint64_t entries_ = 0;
    std::uint64_t bytes_ = 0;
};

CallEnd Unpacking::make_folder(const TarEntry& entry, const std::string& path) const {
    const std::optional<Beneath::Place> place = make_place(path);
    if (!place ||
        (mkdirat(place->directory.get(), place->name.c_str(), k_owner_may_all) != 0 && errno != EEXIST))
        return refuse_from_errno();
    const base::UniqueFd folder = job_.root.open(path, O_RDONLY | O_DIRECTORY);
    // What comes later goes in, whatever its mode says of its owner.
    if (!folder || fchmod(folder.get(), entry.mode | k_owner_may_all) != 0)
        return refuse_from_errno();
    return {};
}

CallEnd Unpacking::make_link(const TarEntry& entry, const std::string& path) const {
    // Wherever it leads: to store a link is not to follow it, and nothing here follows one out.
    if (entry.target.empty() || entry.target.find('\0') != std::string::npos)
        return refuse("a link without a target");
    const std::optional<Beneath::Place> place = make_place(path);
    const std::string name = hidden_name();
    if (!place || symlinkat(entry.target.c_str(), place->directory.get(), name.c_str()) != 0)
        return refuse_from_errno();
    HiddenName hidden(place->directory.get(), name);
    return hidden.publish(place->name, Replace::yes) ? CallEnd{} : refuse_from_errno();
}

CallEnd Unpacking::make_hard_link(const TarEntry& entry, const std::string& path) const {
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

CallEnd Unpacking::begin(const TarEntry& entry) {
    if (CallEnd end = finish(); !end.is_good())
        return end;
    name_ = entry.path;
    if (++entries_ > base::k_max_archive_entries)
        return refuse("the archive has too many entries");
    const std::optional<int> depth = depth_of(entry.path);
    if (!depth || has_parent_part(entry.path))
        return refuse("an entry outside the archive's own directory");
    if (*depth == 0 && entry.type == TarType::directory)
        return {};  // "./"
    if (*depth == 0)
        return refuse("an entry without a name");
    if (has_hidden_name(entry.path))
        return refuse_file(name_, "names of this form are the server's own", bridge::refusal::invalid_path);
    const std::string path = prefix_ + entry.path;
    switch (entry.type) {
        case TarType::directory:
            return make_folder(entry, path);
        case TarType::symlink:
            return make_link(entry, path);
        case TarType::hard_link:
            return make_hard_link(entry, path);
        case TarType::other:
            return refuse("neither a file nor a directory nor a link");
        case TarType::file:
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

/// Takes in what is in one piece of input, giving way meanwhile.
Task<CallEnd> take_entry(Call& call, Unpacking& to, TarReader& reader, std::string_view bytes) {
    std::string kept;  // the rest of the piece, which itself is not valid behind a wait
    std::size_t entries = 0;
    for (;;) {
        switch (reader.next(bytes)) {
            case TarReader::Found::need_more:
            case TarReader::Found::end:
                co_return CallEnd{};
            case TarReader::Found::refused:
                co_return CallEnd{std::string("the archive: ") + reader.refusal(),
                                  bridge::refusal::invalid_archive};
            case TarReader::Found::entry:
                if (CallEnd end = to.begin(reader.entry()); !end.is_good())
                    co_return end;
                if (++entries % k_unpacked_at_once == 0) {
                    kept = std::string(bytes);
                    bytes = kept;
                    co_await call.turn();
                }
                break;
            case TarReader::Found::bytes:
                if (CallEnd end = to.write(reader.bytes()); !end.is_good())
                    co_return end;
                break;
        }
    }
}

/// The directory that is unpacked into is there, or may be made.
bool is_place_for_folder(const FileJob& job) {
    const std::string& path = job.request.path;
    const base::UniqueFd there = job.root.open(path, O_PATH | O_DIRECTORY);
    return there || (errno == ENOENT && !base::climbs_out(path));
}

}  // namespace

Task<CallEnd> unpack_files(Call& call, const FileJob& job) {
    const std::string& path = job.request.path;
    if (!is_place_for_folder(job))
        co_return refuse_errno(path, errno == ENOENT ? EXDEV : errno);
    Unpacking to(job);
    TarReader reader;
    for (Call::Input piece = co_await call.input(); !piece.is_end; piece = co_await call.input()) {
        auto taking = take_entry(call, to, reader, piece.bytes);
        if (CallEnd end = co_await taking; !end.is_good())
            co_return end;
    }
    if (!reader.is_complete())
        co_return CallEnd{"the archive ends in the middle, or is empty", bridge::refusal::invalid_archive};
    if (CallEnd end = to.finish(); !end.is_good())
        co_return end;
    // Of an archive that holds nothing else. Entries have made it before.
    if (!path.empty() && !job.root.make_place(path + "/x"))
        co_return refuse_errno(path);
    call.reply(to.told());
    co_return CallEnd{};
}

}  // namespace atl::guest
