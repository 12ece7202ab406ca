// Archives as `pack` and `unpack` know them, whatever their format (tar.hpp, gzip_tar.hpp, zip_writer.hpp,
// zip_reader.hpp). Written by hand over zlib, which does what is hard: libarchive, linked statically, would
// be larger than the whole guest and waits for its input, and minizip goes back in what it has written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace atl::guest {

enum class EntryType : std::uint8_t { file, directory, symlink, hard_link, other };

struct ArchiveEntry {
    EntryType type = EntryType::other;
    std::string path;
    std::string target;  // of links
    std::uint64_t size = 0;
    std::uint32_t mode = 0644;
    std::int64_t mtime = 0;  // seconds since 1970
};

/// Makes an archive, appended to `out` piece by piece. Does no I/O.
class ArchiveWriter {
  public:
    virtual ~ArchiveWriter() = default;
    /// Begins an entry. A directory's path ends in a slash; of a file exactly `entry.size` bytes follow.
    /// False: the archive can hold no more entries.
    virtual bool begin(std::string& out, const ArchiveEntry& entry) = 0;
    virtual void write(std::string& out, std::string_view bytes) = 0;
    virtual void end_entry(std::string& out) = 0;
    /// Appends a piece of the archive's end. True: there is more of it.
    virtual bool finish(std::string& out) = 0;
};

/// Takes an archive apart. What comes is hostile.
class ArchiveReader {
  public:
    enum class Found : std::uint8_t { need_more, entry, bytes, end, refused };

    virtual ~ArchiveReader() = default;
    /// Takes the next thing from the front of `from`. need_more and end: all of it was taken. A step is
    /// short, so that its caller can give way between two of them.
    virtual Found next(std::string_view& from) = 0;
    /// True if the archive may end here.
    virtual bool is_complete() const noexcept = 0;
    /// After Found::entry. Its bytes, if it is a file, come next.
    const ArchiveEntry& entry() const noexcept { return entry_; }
    /// After Found::bytes: a piece of the entry's content, perhaps empty, valid until the next step.
    std::string_view bytes() const noexcept { return bytes_; }
    /// After Found::refused: the reason, which continues a sentence.
    const std::string& refusal() const noexcept { return refusal_; }

  protected:
    bool refuse(std::string why) {
        refusal_ = std::move(why);
        return false;
    }

    ArchiveEntry entry_;
    std::string_view bytes_;
    std::string refusal_;
};

}  // namespace atl::guest
