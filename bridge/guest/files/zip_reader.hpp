// Zip archives read by the directory at their end, which alone has modes, links and sizes: the archive is a
// file that is complete. What it says of an entry there and at the entry must agree. Pure but for that file.
#pragma once

#include <string>
#include <string_view>

#include "bridge/guest/files/archive.hpp"
#include "bridge/guest/files/deflate.hpp"

namespace atl::guest {

class ZipReader final : public ArchiveReader {
  public:
    /// `file` is the archive, `size` bytes, open for reading; it must outlive this.
    ZipReader(int file, std::uint64_t size) : file_(file), size_(size) {}

    /// Never needs more: `from` is not looked at.
    Found next(std::string_view& from) override;
    bool is_complete() const noexcept override { return state_ == State::done; }

  private:
    enum class State : std::uint8_t { start, header, content, done };

    bool read_at(std::uint64_t at, std::size_t size, std::string& into);
    bool find_directory();
    bool read_header();
    bool check_method(std::uint64_t flags);
    void read_extra(std::string_view extra, std::uint64_t& at);
    void set_type(std::uint64_t system, std::uint64_t attributes);
    bool find_content(std::uint64_t at);
    bool read_target();
    bool read_piece();
    bool refuse_entry(std::string_view why);

    int file_;
    std::uint64_t size_;
    State state_ = State::start;
    std::uint64_t entries_ = 0;  // still to come, as the end tells them
    // Positions in the file.
    std::uint64_t directory_ = 0;
    std::uint64_t at_ = 0;       // in the directory
    std::uint64_t end_ = 0;      // of the directory
    std::uint64_t shift_ = 0;    // what stands before the archive, as a program that unpacks it
    std::uint64_t claimed_ = 0;  // bytes that entries lie in
    // The present entry.
    std::string name_;           // as the archive has it
    std::uint64_t content_ = 0;  // position of what is not read yet
    std::uint64_t left_ = 0;
    std::uint64_t told_size_ = 0;
    std::uint64_t got_size_ = 0;
    std::uint32_t told_crc_ = 0;
    std::uint32_t crc_ = 0;
    std::uint64_t method_ = 0;
    Inflater inflater_{DeflateForm::bare};
    std::string buffer_;
    std::string_view packed_;  // the rest of the buffer
};

}  // namespace atl::guest
