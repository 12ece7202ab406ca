// The tar format (POSIX pax, of which ustar is a part; GNU's long names are read, too): headers made and
// archives taken apart. Pure: no I/O, no memory beyond one header's. Written by hand: what is needed of it
// is small, and libarchive, linked statically, would be larger than the whole guest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace atl::guest {

inline constexpr std::size_t k_tar_block_bytes = 512;

enum class TarType : std::uint8_t { file, directory, symlink, hard_link, other };

struct TarEntry {
    TarType type = TarType::other;
    std::string path;
    std::string target;  // of links
    std::uint64_t size = 0;
    std::uint32_t mode = 0644;
    std::int64_t mtime = 0;  // seconds since 1970
};

/// Appends the header of an entry; its bytes follow, then tar_padding(). A directory's path ends in a slash.
void append_tar_header(std::string& out, const TarEntry& entry);
/// Appends what fills the last block of so many bytes.
void append_tar_padding(std::string& out, std::uint64_t size);
/// Appends the end of an archive.
void append_tar_end(std::string& out);

/// Takes an archive apart that comes in pieces. What comes is hostile.
class TarReader {
  public:
    enum class Found : std::uint8_t { need_more, entry, bytes, end, refused };

    /// Takes the next thing from the front of `from`. need_more and end: all of it was taken.
    Found next(std::string_view& from);
    /// After Found::entry. Its bytes, if it is a file, come next.
    const TarEntry& entry() const noexcept { return entry_; }
    /// After Found::bytes: a piece of the entry's content, as a view of the bytes that were given.
    std::string_view bytes() const noexcept { return bytes_; }
    /// After Found::refused: a sentence.
    const char* refusal() const noexcept { return refusal_; }
    /// Whether the archive may end here.
    bool is_complete() const noexcept;

  private:
    enum class State : std::uint8_t { header, extension, content, padding, done };

    bool fill(std::string_view& from, std::uint64_t bytes);
    bool read_header();
    bool begin_extension(char type, std::uint64_t size);
    bool end_extension();
    bool read_records();
    void set_entry(char type);
    bool refuse(const char* why) {
        refusal_ = why;
        return false;
    }
    std::string_view field(std::size_t at, std::size_t size) const;
    bool number(std::size_t at, std::size_t size, std::uint64_t& value) const;
    bool has_checksum() const;

    State state_ = State::header;
    std::string block_;  // collected of a header or an extension
    char extension_ = 0;
    std::uint64_t left_ = 0;     // of the extension or the content
    std::uint64_t padding_ = 0;  // behind it
    std::string long_path_;      // from an extension, for the next entry
    std::string long_target_;
    std::string long_size_;
    bool has_entry_ = false;
    bool found_entry_ = false;
    int zero_blocks_ = 0;
    TarEntry entry_;
    std::string_view bytes_;
    const char* refusal_ = nullptr;
};

}  // namespace atl::guest
