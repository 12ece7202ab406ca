// The tar format (POSIX pax, of which ustar is a part; GNU's long names are read, too): archives made and
// taken apart. Pure: no I/O, no memory beyond one header's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bridge/guest/files/archive.hpp"

namespace atl::guest {

inline constexpr std::size_t k_tar_block_bytes = 512;

/// Appends an entry's header; its bytes follow, then append_tar_padding(). Paths of directories end in `/`.
void append_tar_header(std::string& out, const ArchiveEntry& entry);
/// Appends what fills the last block of so many bytes.
void append_tar_padding(std::string& out, std::uint64_t size);
/// Appends the end of an archive.
void append_tar_end(std::string& out);

class TarWriter : public ArchiveWriter {
  public:
    bool begin(std::string& out, const ArchiveEntry& entry) override;
    void write(std::string& out, std::string_view bytes) override { out += bytes; }
    void end_entry(std::string& out) override { append_tar_padding(out, size_); }
    bool finish(std::string& out) override {
        append_tar_end(out);
        return false;
    }

  private:
    std::uint64_t size_ = 0;  // of the entry
};

/// Reads an archive that comes in pieces. bytes() is a view of the piece.
class TarReader : public ArchiveReader {
  public:
    Found next(std::string_view& from) override;
    bool is_complete() const noexcept override;
    /// The reason to refuse what is not complete where the input has ended.
    virtual std::string why_incomplete() const;

  private:
    enum class State : std::uint8_t { header, extension, content, padding, done };

    bool fill(std::string_view& from, std::uint64_t bytes);
    bool read_header();
    bool begin_extension(char type, std::uint64_t size);
    bool end_extension();
    bool read_records();
    void set_entry(char type);
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
};

}  // namespace atl::guest
