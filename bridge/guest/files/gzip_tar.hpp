// tar.gz: tar (tar.hpp) as one stream of gzip. Read are also several streams behind each other, as gzip(1)
// reads them, and zeros behind the last one, as tapes have them. Pure.
#pragma once

#include "bridge/guest/files/deflate.hpp"
#include "bridge/guest/files/tar.hpp"

namespace atl::guest {

class GzipTarWriter final : public TarWriter {
  public:
    bool begin(std::string& out, const ArchiveEntry& entry) override;
    void write(std::string& out, std::string_view bytes) override { deflater_.add(out, bytes); }
    void end_entry(std::string& out) override;
    bool finish(std::string& out) override;

  private:
    Deflater deflater_{DeflateForm::gzip};
};

class GzipTarReader final : public TarReader {
  public:
    Found next(std::string_view& from) override;
    bool is_complete() const noexcept override { return has_ended_ && TarReader::is_complete(); }
    std::string why_incomplete() const override;

  private:
    Inflater inflater_{DeflateForm::gzip};
    std::string_view tar_;  // a piece of the archive
    std::size_t streams_ = 0;
    bool has_ended_ = false;  // the present stream
};

}  // namespace atl::guest
