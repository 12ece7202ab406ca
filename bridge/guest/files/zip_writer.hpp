// Zip archives made in one pass: files are deflated and followed by their sizes (data descriptors), what is
// too great for 32 bits is zip64. Modes, links and times are as Unix programs write them, names UTF-8 where
// they are that. Memory: what the archive's end tells of each entry, 32 MiB at most.
#pragma once

#include <deque>

#include "bridge/guest/files/archive.hpp"
#include "bridge/guest/files/deflate.hpp"

namespace atl::guest {

class ZipWriter final : public ArchiveWriter {
  public:
    bool begin(std::string& out, const ArchiveEntry& entry) override;
    void write(std::string& out, std::string_view bytes) override;
    void end_entry(std::string& out) override;
    bool finish(std::string& out) override;

  private:
    /// The sizes as a header tells them.
    struct Sizes {
        std::uint64_t packed = 0;
        std::uint64_t size = 0;
    };
    void put_common(std::string& out, Sizes sizes, std::string_view extra) const;
    void put_central();

    Deflater deflater_{DeflateForm::bare};
    std::deque<std::string> directory_;  // the end of the archive, in pieces that go out one by one
    std::uint64_t directory_bytes_ = 0;
    std::uint64_t written_ = 0;  // bytes of the archive
    std::uint64_t entries_ = 0;
    // The present entry.
    ArchiveEntry entry_;
    std::uint64_t at_ = 0;
    std::uint64_t size_ = 0;
    std::uint64_t packed_ = 0;
    std::uint32_t crc_ = 0;
    bool is_deflated_ = false;
    bool is_large_ = false;  // its sizes are zip64
};

}  // namespace atl::guest
