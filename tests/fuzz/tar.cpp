// Tar archives: the same entries and bytes in any pieces, bounded memory, and what is written is read back.
#include "bridge/guest/files/tar.hpp"

#include <cstdio>

#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;
using guest::ArchiveEntry;
using guest::EntryType;
using guest::TarReader;

namespace {

struct Seen {
    std::string all;  // entries and their bytes, in order
    std::size_t entries = 0;
    bool refused = false;
    bool complete = false;

    bool operator==(const Seen&) const = default;
};

Seen read(std::string_view archive, std::uint8_t seed) {
    Seen seen;
    TarReader reader;
    for (std::string_view piece : fuzz::cut(archive, seed)) {
        for (bool more = true; more;) {
            const auto found = reader.next(piece);
            if (found == TarReader::Found::refused) {
                require(!reader.refusal().empty(), "a refusal has a reason");
                seen.refused = true;
                return seen;
            }
            more = found == TarReader::Found::entry || found == TarReader::Found::bytes;
            require(more || piece.empty(), "what needs more has taken all");
            if (found == TarReader::Found::bytes) {
                seen.all += reader.bytes();
            } else if (found == TarReader::Found::entry) {
                const ArchiveEntry& entry = reader.entry();
                ++seen.entries;
                require(entry.path.size() <= 32 * 1024 && entry.target.size() <= 32 * 1024,
                        "names are bounded");
                require(entry.size == 0 || entry.type == EntryType::file || entry.type == EntryType::other,
                        "only files have bytes");
                seen.all += '\n' + entry.path + '>' + entry.target + std::to_string(entry.size) + '=';
            }
        }
    }
    seen.complete = reader.is_complete();
    return seen;
}

/// The same with a good checksum in every block, which hardly any input would have.
std::string mended(std::string_view text) {
    std::string out(text);
    for (std::size_t block = 0; block + guest::k_tar_block_bytes <= out.size();
         block += guest::k_tar_block_bytes) {
        out.replace(block + 148, 8, 8, ' ');
        unsigned sum = 0;
        for (std::size_t at = 0; at < guest::k_tar_block_bytes; ++at)
            sum += static_cast<unsigned char>(out[block + at]);
        char digits[16];
        snprintf(digits, sizeof digits, "%06o", sum);
        out.replace(block + 148, 6, digits, 6);
    }
    return out;
}

void write_and_read(std::string_view text, std::uint8_t seed) {
    ArchiveEntry entry;
    entry.type = EntryType::file;
    entry.path = std::string(text.substr(0, text.size() / 2));
    std::erase(entry.path, '\0');
    entry.path = 'p' + entry.path + 'e';
    const std::string_view bytes = text.substr(text.size() / 2);
    entry.size = bytes.size();
    std::string archive;
    guest::append_tar_header(archive, entry);
    archive += bytes;
    guest::append_tar_padding(archive, bytes.size());
    guest::append_tar_end(archive);
    require(archive.size() % guest::k_tar_block_bytes == 0, "an archive is made of blocks");
    const Seen seen = read(archive, seed);
    const std::string wanted =
        '\n' + entry.path + '>' + std::to_string(entry.size) + '=' + std::string(bytes);
    require(entry.path.size() > 16 * 1024 || (seen.complete && seen.all == wanted),
            "what is written is read back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    require(read(input.rest(), seed) == read(input.rest(), 0), "an archive is the same however it comes");
    const std::string archive = mended(input.rest());
    require(read(archive, seed) == read(archive, 0), "an archive is the same however it comes");
    write_and_read(input.rest(), seed);
    return 0;
}
