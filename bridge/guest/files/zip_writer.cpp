#include "bridge/guest/files/zip_writer.hpp"

#include <sys/stat.h>
#include <time.h>

#include "bridge/guest/files/zip_format.hpp"
#include "core/plain/utf8.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_most_zip_directory_bytes = 32UL * 1024 * 1024;
constexpr std::size_t k_directory_piece_bytes = 64UL * 1024;
// Bytes that cannot be compressed become longer: by less than a thousandth (zlib's technical details).
constexpr std::uint64_t k_least_large_bytes = 0xf0000000;
constexpr std::uint64_t k_version = 20;
constexpr std::uint64_t k_version64 = 45;

/// Date and time of MS-DOS (4.4.6) in UTC: the date in the upper half.
std::uint32_t dos_time(std::int64_t seconds) {
    constexpr std::uint32_t k_first = 1U << 21 | 1U << 16;                          // 1980-01-01
    constexpr std::uint32_t k_last = 127U << 25 | 12U << 21 | 31U << 16 | 0xbf7dU;  // 2107-12-31 23:59:58
    const time_t time = seconds;
    tm parts{};
    if (gmtime_r(&time, &parts) == nullptr || parts.tm_year > 207)
        return seconds < 0 ? k_first : k_last;
    if (parts.tm_year < 80)
        return k_first;
    const auto of = [](int part) { return static_cast<std::uint32_t>(part); };
    return of(parts.tm_year - 80) << 25 | of(parts.tm_mon + 1) << 21 | of(parts.tm_mday) << 16 |
           of(parts.tm_hour) << 11 | of(parts.tm_min) << 5 | of(parts.tm_sec / 2);
}

std::uint32_t unix_mode(const ArchiveEntry& entry) {
    const std::uint32_t type = entry.type == EntryType::directory ? S_IFDIR
                               : entry.type == EntryType::symlink ? S_IFLNK
                                                                  : S_IFREG;
    return type | (entry.mode & 0777);
}

void put_time(std::string& extra, std::int64_t mtime) {
    if (mtime < INT32_MIN || mtime > INT32_MAX)
        return;
    zip::put(extra, zip::k_extra_time, 2);
    zip::put(extra, 5, 2);
    zip::put(extra, zip::k_has_mtime, 1);
    zip::put(extra, static_cast<std::uint64_t>(mtime), 4);
}

}  // namespace

/// The part that the headers at an entry and at the end have in common, from the version on.
void ZipWriter::put_common(std::string& out, Sizes sizes, std::string_view extra) const {
    const std::uint16_t flags = static_cast<std::uint16_t>(
        (is_deflated_ ? zip::k_descriptor_flag : 0) | (base::is_utf8(entry_.path) ? zip::k_utf8_flag : 0));
    zip::put(out, is_large_ ? k_version64 : k_version, 2);
    zip::put(out, flags, 2);
    zip::put(out, is_deflated_ ? zip::k_deflated : zip::k_stored, 2);
    zip::put(out, dos_time(entry_.mtime), 4);
    zip::put(out, crc_, 4);
    zip::put(out, sizes.packed, 4);
    zip::put(out, sizes.size, 4);
    zip::put(out, entry_.path.size(), 2);
    zip::put(out, extra.size(), 2);
}

bool ZipWriter::begin(std::string& out, const ArchiveEntry& entry) {
    if (directory_bytes_ > k_most_zip_directory_bytes)
        return false;
    const std::size_t before = out.size();
    entry_ = entry;
    at_ = written_;
    is_deflated_ = entry.type == EntryType::file && entry.size > 0;
    is_large_ = entry.size >= k_least_large_bytes;
    // The content of a link is its target.
    const std::string_view content = entry.type == EntryType::symlink ? entry.target : std::string_view();
    crc_ = crc_of(0, content);
    size_ = packed_ = content.size();
    std::string extra;
    if (is_large_) {
        zip::put(extra, zip::k_extra64, 2);
        zip::put(extra, 16, 2);
        zip::put(extra, 0, 8);
        zip::put(extra, 0, 8);
    }
    put_time(extra, entry.mtime);
    zip::put(out, zip::k_local, 4);
    put_common(out, is_large_ ? Sizes{zip::k_elsewhere32, zip::k_elsewhere32} : Sizes{packed_, size_}, extra);
    out.append(entry.path).append(extra).append(content);
    written_ += out.size() - before;
    return true;
}

void ZipWriter::write(std::string& out, std::string_view bytes) {
    const std::size_t before = out.size();
    crc_ = crc_of(crc_, bytes);
    size_ += bytes.size();
    deflater_.add(out, bytes);
    packed_ += out.size() - before;
    written_ += out.size() - before;
}

void ZipWriter::end_entry(std::string& out) {
    const std::size_t before = out.size();
    if (is_deflated_) {
        deflater_.finish(out);
        packed_ += out.size() - before;
        const int bytes = is_large_ ? 8 : 4;
        zip::put(out, zip::k_descriptor, 4);
        zip::put(out, crc_, 4);
        zip::put(out, packed_, bytes);
        zip::put(out, size_, bytes);
    }
    written_ += out.size() - before;
    put_central();
    ++entries_;
}

void ZipWriter::put_central() {
    const bool is_far = at_ >= zip::k_elsewhere32;
    std::string extra;
    if (is_large_ || is_far) {
        zip::put(extra, zip::k_extra64, 2);
        zip::put(extra, (is_large_ ? 16U : 0U) + (is_far ? 8U : 0U), 2);
        if (is_large_) {
            zip::put(extra, size_, 8);
            zip::put(extra, packed_, 8);
        }
        if (is_far)
            zip::put(extra, at_, 8);
    }
    put_time(extra, entry_.mtime);
    if (directory_.empty() || directory_.back().size() >= k_directory_piece_bytes)
        directory_.emplace_back();
    std::string& directory = directory_.back();
    const std::size_t before = directory.size();
    zip::put(directory, zip::k_central, 4);
    zip::put(directory, k_version64, 1);
    zip::put(directory, zip::k_unix, 1);
    put_common(directory, is_large_ ? Sizes{zip::k_elsewhere32, zip::k_elsewhere32} : Sizes{packed_, size_},
               extra);
    zip::put(directory, 0, 2 + 2 + 2);  // of the comment, the disk, the kind of text
    const std::uint32_t dos = entry_.type == EntryType::directory ? zip::k_dos_directory : 0;
    zip::put(directory, unix_mode(entry_) << 16 | dos, 4);
    zip::put(directory, is_far ? zip::k_elsewhere32 : at_, 4);
    directory.append(entry_.path).append(extra);
    directory_bytes_ += directory.size() - before;
}

bool ZipWriter::finish(std::string& out) {
    if (!directory_.empty()) {
        out += directory_.front();
        directory_.pop_front();
        return true;
    }
    const std::uint64_t size = directory_bytes_;
    const bool is_64 = entries_ >= zip::k_elsewhere16 || written_ + size >= zip::k_elsewhere32;
    if (is_64) {
        zip::put(out, zip::k_end64, 4);
        zip::put(out, zip::k_end64_bytes - 12, 8);  // from here on
        zip::put(out, k_version64 | zip::k_unix << 8, 2);
        zip::put(out, k_version64, 2);
        zip::put(out, 0, 4 + 4);  // disks
        zip::put(out, entries_, 8);
        zip::put(out, entries_, 8);
        zip::put(out, size, 8);
        zip::put(out, written_, 8);
        zip::put(out, zip::k_locator64, 4);
        zip::put(out, 0, 4);
        zip::put(out, written_ + size, 8);
        zip::put(out, 1, 4);
    }
    const std::uint64_t told = is_64 ? zip::k_elsewhere16 : entries_;
    zip::put(out, zip::k_end, 4);
    zip::put(out, 0, 2 + 2);  // disks
    zip::put(out, told, 2);
    zip::put(out, told, 2);
    zip::put(out, is_64 ? zip::k_elsewhere32 : size, 4);
    zip::put(out, is_64 ? zip::k_elsewhere32 : written_, 4);
    zip::put(out, 0, 2);
    return false;
}

}  // namespace atl::guest
