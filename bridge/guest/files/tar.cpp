#include "bridge/guest/files/tar.hpp"

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace atl::guest {
namespace {

// Names are at most PATH_MAX long; an extension has a name, a target and a few numbers.
constexpr std::uint64_t k_most_extension_bytes = 32UL * 1024;
constexpr std::uint64_t k_most_octal_size = 077777777777;
constexpr std::size_t k_name_bytes = 100;
// Where the fields of a header are (pax, "ustar Interchange Format").
constexpr std::size_t k_name = 0;
constexpr std::size_t k_mode = 100;
constexpr std::size_t k_owner = 108;
constexpr std::size_t k_group = 116;
constexpr std::size_t k_size = 124;
constexpr std::size_t k_mtime = 136;
constexpr std::size_t k_checksum = 148;
constexpr std::size_t k_type = 156;
constexpr std::size_t k_target = 157;
constexpr std::size_t k_magic = 257;
constexpr std::size_t k_name_prefix = 345;
constexpr std::size_t k_prefix_bytes = 155;

using Block = std::array<char, k_tar_block_bytes>;

std::uint64_t padding_of(std::uint64_t size) {
    return (k_tar_block_bytes - size % k_tar_block_bytes) % k_tar_block_bytes;
}

void put_text(Block& block, std::size_t at, std::string_view text, std::size_t most) {
    std::copy_n(text.begin(), std::min(text.size(), most), block.begin() + static_cast<std::ptrdiff_t>(at));
}

/// `digits` octal digits and a NUL.
void put_octal(Block& block, std::size_t at, int digits, std::uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%0*lo", digits, static_cast<unsigned long>(value));
    put_text(block, at, text, static_cast<std::size_t>(digits));
}

/// The checksum's own field counts as spaces.
unsigned checksum_of(std::string_view block) {
    unsigned sum = 0;
    for (std::size_t at = 0; at < block.size(); ++at)
        sum += at >= k_checksum && at < k_checksum + 8 ? ' ' : static_cast<unsigned char>(block[at]);
    return sum;
}

void append_block(std::string& out, const ArchiveEntry& entry, char type, std::uint64_t size) {
    Block block{};
    put_text(block, k_name, entry.path, k_name_bytes);
    put_octal(block, k_mode, 7, entry.mode & 07777);
    put_octal(block, k_owner, 7, 0);
    put_octal(block, k_group, 7, 0);
    put_octal(block, k_size, 11, std::min(size, k_most_octal_size));
    put_octal(block, k_mtime, 11,
              static_cast<std::uint64_t>(std::clamp<std::int64_t>(entry.mtime, 0, 077777777777)));
    block[k_type] = type;
    put_text(block, k_target, entry.target, k_name_bytes);
    put_text(block, k_magic, {"ustar\00000", 8}, 8);
    put_octal(block, k_checksum, 6, checksum_of({block.data(), block.size()}));
    block[k_checksum + 7] = ' ';
    out.append(block.data(), block.size());
}

/// "LENGTH key=value\n", where the length counts its own digits.
void append_record(std::string& out, std::string_view key, std::string_view value) {
    const std::size_t rest = key.size() + value.size() + 3;
    std::size_t length = rest + 1;
    while (std::to_string(length).size() + rest != length)
        length = std::to_string(length).size() + rest;
    out.append(std::to_string(length)).append(" ").append(key).append("=").append(value).append("\n");
}

char type_of(EntryType type) {
    switch (type) {
        case EntryType::directory:
            return '5';
        case EntryType::symlink:
            return '2';
        case EntryType::hard_link:
            return '1';
        default:
            return '0';
    }
}

/// The reason to refuse an archive whose first block, perhaps cut short, is no header of a tar.
std::string what_else(std::string_view block) {
    static constexpr std::pair<std::string_view, std::string_view> k_formats[] = {
        {"PK\x03\x04", "zip"},
        {"\x1f\x8b", "gzip"},
        {"BZh", "bzip2"},
        {"\xfd"
         "7zXZ",
         "xz"},
        {"\x28\xb5\x2f\xfd", "zstd"},
        {"7z\xbc\xaf\x27\x1c", "7z"},
        {"Rar!", "rar"},
    };
    for (const auto& [start, name] : k_formats) {
        if (block.starts_with(start))
            return "this is " + std::string(name) + ", not tar (tar, tar.gz and zip can be unpacked)";
    }
    const auto has = [block](std::string_view text) { return block.find(text) != std::string_view::npos; };
    if (block.starts_with("--") && has("\nContent-Disposition: "))
        return "this is a form (multipart), not tar: send the bytes of the archive alone as the body";
    if (has("PK\x03\x04"))
        return "this is zip behind something else, not tar: `format=zip` unpacks it";
    return block.size() < k_tar_block_bytes ? "this is no tar archive, or it ends in the middle"
                                            : "this is no tar archive";
}

/// The text up to its NUL.
std::string_view cut(std::string_view text) {
    return text.substr(0, text.find('\0'));
}

}  // namespace

void append_tar_padding(std::string& out, std::uint64_t size) {
    out.append(padding_of(size), '\0');
}

void append_tar_end(std::string& out) {
    out.append(2 * k_tar_block_bytes, '\0');
}

void append_tar_header(std::string& out, const ArchiveEntry& entry) {
    std::string records;
    if (entry.path.size() > k_name_bytes)
        append_record(records, "path", entry.path);
    if (entry.target.size() > k_name_bytes)
        append_record(records, "linkpath", entry.target);
    if (entry.size > k_most_octal_size)
        append_record(records, "size", std::to_string(entry.size));
    if (!records.empty()) {
        ArchiveEntry extension;
        extension.path = "pax-header";
        append_block(out, extension, 'x', records.size());
        out += records;
        append_tar_padding(out, records.size());
    }
    append_block(out, entry, type_of(entry.type), entry.size);
}

bool TarWriter::begin(std::string& out, const ArchiveEntry& entry) {
    size_ = entry.size;
    append_tar_header(out, entry);
    return true;
}

std::string_view TarReader::field(std::size_t at, std::size_t size) const {
    return std::string_view(block_).substr(at, size);
}

/// Octal digits between spaces; or, as GNU writes what is too great for that, bytes of the number.
bool TarReader::number(std::size_t at, std::size_t size, std::uint64_t& value) const {
    const std::string_view text = field(at, size);
    value = 0;
    if ((static_cast<unsigned char>(text[0]) & 0x80) != 0) {
        const bool fits = static_cast<unsigned char>(text[0]) == 0x80 &&
                          text.substr(1, size - 8).find_first_not_of('\0') == std::string_view::npos;
        for (const char byte : text.substr(size - 7))
            value = value << 8 | static_cast<unsigned char>(byte);
        return fits;
    }
    const std::size_t begin = text.find_first_not_of(' ');
    for (const char digit : text.substr(std::min(begin, size))) {
        if (digit == '\0' || digit == ' ')
            return true;
        if (digit < '0' || digit > '7')
            return false;
        value = value << 3 | static_cast<std::uint64_t>(digit - '0');
    }
    return true;
}

bool TarReader::has_checksum() const {
    std::uint64_t told = 0;
    return number(k_checksum, 8, told) && told == checksum_of(block_);
}

bool TarReader::fill(std::string_view& from, std::uint64_t bytes) {
    const std::size_t taken = std::min<std::uint64_t>(bytes - block_.size(), from.size());
    block_.append(from.substr(0, taken));
    from.remove_prefix(taken);
    return block_.size() == bytes;
}

bool TarReader::is_complete() const noexcept {
    return state_ == State::done || (state_ == State::header && block_.empty() && has_entry_);
}

std::string TarReader::why_incomplete() const {
    const bool is_first = state_ == State::header && !has_entry_ && zero_blocks_ == 0;
    return is_first && !block_.empty() ? what_else(block_) : "it ends in the middle, or is empty";
}

TarReader::Found TarReader::next(std::string_view& from) {
    for (;;) {
        if (!refusal_.empty())
            return Found::refused;
        switch (state_) {
            case State::header:
                if (!fill(from, k_tar_block_bytes))
                    return Found::need_more;
                found_entry_ = false;
                if (!read_header())
                    return Found::refused;
                block_.clear();
                if (found_entry_)
                    return Found::entry;
                break;
            case State::extension:
                if (!fill(from, left_))
                    return Found::need_more;
                if (!end_extension())
                    return Found::refused;
                block_.clear();
                state_ = State::padding;
                break;
            case State::content:
                if (left_ == 0) {
                    state_ = State::padding;
                    break;
                }
                if (from.empty())
                    return Found::need_more;
                bytes_ = from.substr(0, left_);
                from.remove_prefix(bytes_.size());
                left_ -= bytes_.size();
                return Found::bytes;
            case State::padding: {
                const std::size_t taken = std::min<std::uint64_t>(padding_, from.size());
                from.remove_prefix(taken);
                padding_ -= taken;
                if (padding_ != 0)
                    return Found::need_more;
                state_ = State::header;
                break;
            }
            case State::done:
                from = {};
                return Found::end;
        }
    }
}

bool TarReader::read_header() {
    if (block_.find_first_not_of('\0') == std::string::npos) {
        if (++zero_blocks_ == 2)
            state_ = State::done;
        return true;
    }
    zero_blocks_ = 0;
    std::uint64_t size = 0;
    if (!has_checksum())
        return refuse(what_else(block_));
    if (!number(k_size, 12, size) || size > INT64_MAX)
        return refuse("an entry has no size");
    const char type = block_[k_type];
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K')
        return begin_extension(type, size);
    entry_ = {};
    entry_.size = size;
    if (!long_size_.empty()) {
        const char* const end = long_size_.data() + long_size_.size();
        const auto [read_to, error] = std::from_chars(long_size_.data(), end, entry_.size);
        if (error != std::errc() || read_to != end || entry_.size > INT64_MAX)
            return refuse("an entry has no size");
    }
    set_entry(type);
    found_entry_ = has_entry_ = true;
    return true;
}

void TarReader::set_entry(char type) {
    std::uint64_t mode = 0;
    std::uint64_t mtime = 0;
    if (number(k_mode, 8, mode))
        entry_.mode = static_cast<std::uint32_t>(mode & 0777);
    if (number(k_mtime, 12, mtime))
        entry_.mtime = static_cast<std::int64_t>(std::min<std::uint64_t>(mtime, INT64_MAX));
    const bool is_posix = field(k_magic, 6) == std::string_view("ustar\0", 6);
    const std::string_view prefix = is_posix ? cut(field(k_name_prefix, k_prefix_bytes)) : std::string_view();
    entry_.path = prefix;
    entry_.path.append(prefix.empty() ? "" : "/").append(cut(field(k_name, k_name_bytes)));
    entry_.target = cut(field(k_target, k_name_bytes));
    if (!long_path_.empty())
        entry_.path = std::move(long_path_);
    if (!long_target_.empty())
        entry_.target = std::move(long_target_);
    long_path_ = long_target_ = long_size_ = {};
    const bool is_file = type == '0' || type == '\0' || type == '7';
    entry_.type = type == '5'   ? EntryType::directory
                  : type == '2' ? EntryType::symlink
                  : type == '1' ? EntryType::hard_link
                  : is_file     ? EntryType::file
                                : EntryType::other;
    // Old archives mark a directory by a slash at the end of its path.
    if (is_file && entry_.path.ends_with('/'))
        entry_.type = EntryType::directory;
    // Links and directories have no bytes, whatever their header says.
    if (entry_.type != EntryType::file && entry_.type != EntryType::other)
        entry_.size = 0;
    left_ = entry_.size;
    padding_ = padding_of(entry_.size);
    state_ = State::content;
}

bool TarReader::begin_extension(char type, std::uint64_t size) {
    if (size > k_most_extension_bytes)
        return refuse("a name in it is too long");
    extension_ = type;
    left_ = size;
    padding_ = padding_of(size);
    state_ = State::extension;
    return true;
}

bool TarReader::end_extension() {
    if (extension_ == 'L')
        long_path_ = cut(block_);
    else if (extension_ == 'K')
        long_target_ = cut(block_);
    else if (extension_ == 'x')
        return read_records();
    // Records for all entries (type g) are of no use here.
    return true;
}

bool TarReader::read_records() {
    for (std::string_view left = block_; !left.empty();) {
        std::size_t length = 0;
        const auto [digits_end, error] = std::from_chars(left.data(), left.data() + left.size(), length);
        const auto digits = static_cast<std::size_t>(digits_end - left.data());
        if (error != std::errc() || length > left.size() || length < digits + 2 || left[digits] != ' ' ||
            left[length - 1] != '\n')
            return refuse("an extension of an entry is malformed");
        const std::string_view record = left.substr(digits + 1, length - digits - 2);
        left.remove_prefix(length);
        const std::size_t equals = record.find('=');
        if (equals == std::string_view::npos)
            return refuse("an extension of an entry is malformed");
        const std::string_view key = record.substr(0, equals);
        const std::string_view value = record.substr(equals + 1);
        // Its bytes are not those of the file.
        if (key.starts_with("GNU.sparse."))
            return refuse("it has a sparse file: pack it without --sparse");
        if (key == "path")
            long_path_ = value;
        else if (key == "linkpath")
            long_target_ = value;
        else if (key == "size")
            long_size_ = value;
    }
    return true;
}

}  // namespace atl::guest
