#include "bridge/guest/files/gzip_tar.hpp"

#include <algorithm>

namespace atl::guest {

bool GzipTarWriter::begin(std::string& out, const ArchiveEntry& entry) {
    std::string tar;
    TarWriter::begin(tar, entry);
    deflater_.add(out, tar);
    return true;
}

void GzipTarWriter::end_entry(std::string& out) {
    std::string tar;
    TarWriter::end_entry(tar);
    deflater_.add(out, tar);
}

bool GzipTarWriter::finish(std::string& out) {
    std::string tar;
    TarWriter::finish(tar);
    deflater_.add(out, tar);
    deflater_.finish(out);
    return false;
}

std::string GzipTarReader::why_incomplete() const {
    return has_ended_ ? "in gzip: " + TarReader::why_incomplete() : "it ends in the middle, or is empty";
}

ArchiveReader::Found GzipTarReader::next(std::string_view& from) {
    const Found found = TarReader::next(tar_);
    if (found != Found::need_more && found != Found::end)
        return found;
    if (has_ended_) {
        from.remove_prefix(std::min(from.find_first_not_of('\0'), from.size()));
        if (from.empty())
            return Found::need_more;
        inflater_.restart();
        has_ended_ = false;
    }
    switch (inflater_.next(from)) {
        case Inflater::Found::bytes:
            break;
        case Inflater::Found::end:
            has_ended_ = true;
            ++streams_;
            break;
        case Inflater::Found::refused:
            refuse(streams_ == 0 ? "this is no stream of gzip, or it is damaged"
                                 : "something else stands behind its end");
            return Found::refused;
    }
    tar_ = inflater_.bytes();
    if (tar_.empty() && !has_ended_)
        return Found::need_more;
    // The next step looks at the bytes.
    bytes_ = {};
    return Found::bytes;
}

}  // namespace atl::guest
