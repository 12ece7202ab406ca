#include "bridge/guest/files/zip_reader.hpp"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "bridge/guest/files/zip_format.hpp"
#include "core/plain/utf8.hpp"

namespace atl::guest {
namespace {

constexpr std::size_t k_zip_piece_bytes = 16UL * 1024;
constexpr std::size_t k_most_comment_bytes = 0xffff;
constexpr std::size_t k_most_packed_target_bytes = 2UL * PATH_MAX;
constexpr std::size_t k_told_entry_bytes = 100;
constexpr const char* k_malformed = "its directory of entries is damaged";

/// The name of a method (4.4.5) that is not known here.
std::string method_name(std::uint64_t method) {
    static constexpr std::pair<std::uint64_t, const char*> k_names[] = {
        {9, "Deflate64"}, {12, "bzip2"}, {14, "LZMA"}, {93, "Zstandard"}, {95, "xz"}, {98, "PPMd"},
    };
    std::string name = std::to_string(method);
    for (const auto& [known, text] : k_names)
        if (known == method)
            name.append(" (").append(text).append(")");
    return name;
}

/// From the date and time of MS-DOS (4.4.6), which has no time zone: it is read as UTC.
std::int64_t seconds_of(std::uint64_t dos) {
    const auto part = [dos](int at, unsigned mask) { return static_cast<int>(dos >> at & mask); };
    tm parts{};
    parts.tm_year = part(25, 0x7f) + 80;
    parts.tm_mon = part(21, 0xf) - 1;
    parts.tm_mday = part(16, 0x1f);
    parts.tm_hour = part(11, 0x1f);
    parts.tm_min = part(5, 0x3f);
    parts.tm_sec = part(0, 0x1f) * 2;
    return timegm(&parts);
}

}  // namespace

bool ZipReader::refuse_entry(std::string_view why) {
    return refuse(base::excerpt(entry_.path, k_told_entry_bytes).append(": ").append(why));
}

bool ZipReader::read_at(std::uint64_t at, std::size_t size, std::string& into) {
    into.resize(size);
    for (std::size_t got = 0; got < size;) {
        const ssize_t more = pread(file_, into.data() + got, size - got, static_cast<off_t>(at + got));
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return refuse(more < 0 ? strerrordesc_np(errno) : "it ends in the middle");
        got += static_cast<std::size_t>(more);
    }
    return true;
}

ArchiveReader::Found ZipReader::next(std::string_view& from) {
    from = {};
    if (!refusal_.empty())
        return Found::refused;
    if (state_ == State::start && !find_directory())
        return Found::refused;
    if (state_ == State::content)
        return read_piece() ? Found::bytes : Found::refused;
    if (state_ == State::header && at_ == end_) {
        // Some programs tell only the lower bits of more than 65,535 entries.
        if ((entries_ & zip::k_elsewhere16) != 0) {
            refuse(k_malformed);
            return Found::refused;
        }
        state_ = State::done;
    }
    if (state_ == State::done)
        return Found::end;
    return read_header() ? Found::entry : Found::refused;
}

bool ZipReader::find_directory() {
    const std::size_t size = std::min<std::uint64_t>(size_, zip::k_end_bytes + k_most_comment_bytes);
    std::string tail;
    if (!read_at(size_ - size, size, tail))
        return false;
    std::size_t at = size + 1 - std::min(size + 1, zip::k_end_bytes);
    const auto is_end = [&tail](std::size_t from) {
        return zip::number(tail, from, 4) == zip::k_end &&
               from + zip::k_end_bytes + zip::number(tail, from + 20, 2) == tail.size();
    };
    // `at` is behind the place that is looked at, 0: there is none.
    while (at > 0 && !is_end(at - 1))
        --at;
    if (at == 0)
        return refuse(
            "this is no zip archive, or it ends in the middle, or something else stands behind its end");
    --at;
    std::uint64_t disks = zip::number(tail, at + 4, 4);
    entries_ = zip::number(tail, at + 10, 2);
    std::uint64_t directory_size = zip::number(tail, at + 12, 4);
    std::uint64_t directory_at = zip::number(tail, at + 16, 4);
    end_ = size_ - size + at;
    constexpr std::size_t k_both = zip::k_end64_bytes + zip::k_locator64_bytes;
    // Also where the end says it all: zip(1) writes both behind what it has read from a pipe.
    if (end_ >= k_both) {
        std::string both;
        if (!read_at(end_ - k_both, k_both, both))
            return false;
        if (zip::number(both, 0, 4) == zip::k_end64 &&
            zip::number(both, zip::k_end64_bytes, 4) == zip::k_locator64) {
            end_ -= k_both;
            disks = zip::number(both, 16, 8);
            entries_ = zip::number(both, 32, 8);
            directory_size = zip::number(both, 40, 8);
            directory_at = zip::number(both, 48, 8);
        }
    }
    if (disks != 0)
        return refuse("it is one of several parts");
    if (directory_size > end_ || directory_at > end_ - directory_size)
        return refuse(k_malformed);
    directory_ = at_ = end_ - directory_size;
    shift_ = directory_ - directory_at;
    state_ = State::header;
    return true;
}

bool ZipReader::read_header() {
    std::string head;
    if (end_ - at_ < zip::k_central_bytes)
        return refuse(k_malformed);
    if (!read_at(at_, zip::k_central_bytes, head))
        return false;
    const std::size_t name_size = zip::number(head, 28, 2);
    const std::size_t extra_size = zip::number(head, 30, 2);
    const std::size_t size = zip::k_central_bytes + name_size + extra_size + zip::number(head, 32, 2);
    if (zip::number(head, 0, 4) != zip::k_central || size > end_ - at_)
        return refuse(k_malformed);
    std::string rest;
    if (!read_at(at_ + zip::k_central_bytes, name_size + extra_size, rest))
        return false;
    at_ += size;
    --entries_;
    entry_ = {};
    name_ = rest.substr(0, name_size);
    entry_.path = name_;
    // Windows PowerShell 5.1 writes backslashes, against 4.4.17; no name of such a system has one.
    if (zip::number(head, 5, 1) == zip::k_fat && name_.find('/') == std::string::npos)
        std::replace(entry_.path.begin(), entry_.path.end(), '\\', '/');
    entry_.mtime = seconds_of(zip::number(head, 12, 4));
    method_ = zip::number(head, 10, 2);
    told_crc_ = static_cast<std::uint32_t>(zip::number(head, 16, 4));
    left_ = zip::number(head, 20, 4);
    told_size_ = zip::number(head, 24, 4);
    std::uint64_t at = zip::number(head, 42, 4);
    read_extra(std::string_view(rest).substr(name_size), at);
    set_type(zip::number(head, 5, 1), zip::number(head, 38, 4));
    if (!find_content(at))
        return false;
    // A directory has no bytes, whatever it says; other things are refused by whoever gets them.
    if (entry_.type == EntryType::directory || entry_.type == EntryType::other)
        return true;
    if (!check_method(zip::number(head, 8, 2)))
        return false;
    state_ = State::content;
    if (entry_.type == EntryType::symlink)
        return read_target();
    entry_.size = told_size_;
    return true;
}

bool ZipReader::check_method(std::uint64_t flags) {
    if ((flags & zip::k_encrypted_flags) != 0)
        return refuse_entry("it is encrypted, which is not supported");
    if (method_ != zip::k_stored && method_ != zip::k_deflated)
        return refuse_entry("its compression method " + method_name(method_) +
                            " is not supported: store or deflate it");
    if (method_ == zip::k_stored && left_ != told_size_)
        return refuse_entry("its two sizes differ");
    return true;
}

/// Takes from the extra fields what is of use. One that is cut off ends them: some programs fill up so.
void ZipReader::read_extra(std::string_view extra, std::uint64_t& at) {
    while (extra.size() >= 4) {
        const std::uint64_t kind = zip::number(extra, 0, 2);
        const std::size_t size = zip::number(extra, 2, 2);
        extra.remove_prefix(4);
        std::string_view field = extra.substr(0, size);
        extra.remove_prefix(std::min(size, extra.size()));
        if (kind == zip::k_extra_time && field.size() >= 5 && (field[0] & zip::k_has_mtime) != 0)
            entry_.mtime = static_cast<std::int32_t>(zip::number(field, 1, 4));
        if (kind != zip::k_extra64)
            continue;
        for (std::uint64_t* const value : {&told_size_, &left_, &at}) {
            if (*value != zip::k_elsewhere32 || field.size() < 8)
                continue;
            *value = zip::number(field, 0, 8);
            field.remove_prefix(8);
        }
    }
}

void ZipReader::set_type(std::uint64_t system, std::uint64_t attributes) {
    const bool is_unix = system == zip::k_unix || system == zip::k_macos;
    const std::uint64_t mode = is_unix ? attributes >> 16 : 0;
    const bool is_folder = entry_.path.ends_with('/') || S_ISDIR(mode) ||
                           (mode == 0 && (attributes & zip::k_dos_directory) != 0);
    // A FIFO in zip(1)'s eyes is a pipe that it has read.
    const bool is_file = (mode & S_IFMT) == 0 || S_ISREG(mode) || S_ISFIFO(mode);
    entry_.type = is_folder       ? EntryType::directory
                  : S_ISLNK(mode) ? EntryType::symlink
                  : is_file       ? EntryType::file
                                  : EntryType::other;
    if (mode != 0)
        entry_.mode = static_cast<std::uint32_t>(mode & 0777);
    else if (is_folder)
        entry_.mode = 0755;
}

/// Sets where the content is: behind the header that stands before it, which must be of the same name.
bool ZipReader::find_content(std::uint64_t at) {
    const std::uint64_t archive_size = directory_ - shift_;
    std::string head;
    if (at > archive_size || archive_size - at < zip::k_local_bytes)
        return refuse_entry("it lies outside the archive");
    at += shift_;
    if (!read_at(at, zip::k_local_bytes, head))
        return false;
    const std::size_t name_size = zip::number(head, 26, 2);
    const std::uint64_t header_size = zip::k_local_bytes + name_size + zip::number(head, 28, 2);
    if (zip::number(head, 0, 4) != zip::k_local || header_size > directory_ - at ||
        left_ > directory_ - at - header_size)
        return refuse_entry("it lies outside the archive");
    std::string name;
    if (!read_at(at + zip::k_local_bytes, name_size, name))
        return false;
    if (name != name_)
        return refuse_entry("it has another name at its content than in the directory of entries");
    // Entries that share their bytes would make a small archive any size.
    claimed_ += header_size + left_;
    if (claimed_ > archive_size)
        return refuse_entry("it shares its bytes with other entries");
    content_ = at + header_size;
    packed_ = {};
    crc_ = 0;
    got_size_ = 0;
    inflater_.restart();
    return true;
}

bool ZipReader::read_target() {
    if (left_ > k_most_packed_target_bytes)
        return refuse_entry("the target of the link is too long");
    while (state_ == State::content) {
        if (!read_piece())
            return false;
        entry_.target += bytes_;
        if (entry_.target.size() >= PATH_MAX)
            return refuse_entry("the target of the link is too long");
    }
    return true;
}

/// Sets bytes_. With the last piece all was checked, and the next header is due.
bool ZipReader::read_piece() {
    if (packed_.empty()) {
        const std::size_t size = std::min<std::uint64_t>(left_, k_zip_piece_bytes);
        if (!read_at(content_, size, buffer_))
            return false;
        packed_ = buffer_;
        content_ += size;
        left_ -= size;
    }
    bool is_last = left_ == 0;
    if (method_ == zip::k_stored) {
        bytes_ = std::exchange(packed_, {});
    } else {
        const Inflater::Found found = inflater_.next(packed_);
        bytes_ = inflater_.bytes();
        // Nothing at all is given where the bytes end before their stream.
        const bool breaks_off =
            found == Inflater::Found::bytes && bytes_.empty() && packed_.empty() && is_last;
        if (found == Inflater::Found::refused || breaks_off)
            return refuse_entry("its compressed bytes are damaged");
        is_last = found == Inflater::Found::end;
    }
    got_size_ += bytes_.size();
    crc_ = crc_of(crc_, bytes_);
    if (got_size_ > told_size_)
        return refuse_entry("it is longer than the archive says");
    if (!is_last)
        return true;
    if (got_size_ != told_size_ || left_ != 0 || !packed_.empty())
        return refuse_entry("it is not as long as the archive says");
    if (crc_ != told_crc_)
        return refuse_entry("its checksum does not match");
    state_ = State::header;
    return true;
}

}  // namespace atl::guest
