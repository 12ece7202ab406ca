// Zip archives and tar.gz: bounded memory, names and steps, no more bytes than an entry says, and what is
// written is read back.
#include <sys/mman.h>
#include <unistd.h>

#include "bridge/guest/files/gzip_tar.hpp"
#include "bridge/guest/files/zip_reader.hpp"
#include "bridge/guest/files/zip_writer.hpp"
#include "core/plain/unique_fd.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;
using guest::ArchiveEntry;
using guest::ArchiveReader;
using guest::EntryType;

namespace {

using Found = ArchiveReader::Found;

constexpr std::size_t k_most_steps = 10'000;
constexpr std::size_t k_most_bytes = 4UL * 1024 * 1024;

/// Each entry and its bytes; complete ones end in "!".
std::string read(ArchiveReader& reader, std::string_view from) {
    std::string seen;
    std::uint64_t left = 0;
    for (std::size_t steps = 0; steps < k_most_steps && seen.size() < k_most_bytes; ++steps) {
        const Found found = reader.next(from);
        if (found == Found::refused) {
            require(!reader.refusal().empty(), "a refusal has a reason");
            return seen;
        }
        if (found == Found::need_more || found == Found::end)
            return seen + (reader.is_complete() ? "!" : "");
        if (found == Found::entry) {
            const ArchiveEntry& entry = reader.entry();
            require(entry.path.size() <= 0xffff && entry.target.size() <= 0xffff, "names are bounded");
            left = entry.size;
            seen += '\n' + entry.path + '>' + entry.target + '=';
            continue;
        }
        require(reader.bytes().size() <= left, "an entry has no more bytes than it says");
        left -= reader.bytes().size();
        seen += reader.bytes();
    }
    return seen;
}

std::string read_zip(std::string_view archive) {
    const base::UniqueFd file(memfd_create("zip", MFD_CLOEXEC));
    require(write(file.get(), archive.data(), archive.size()) == static_cast<ssize_t>(archive.size()),
            "the file takes the archive");
    guest::ZipReader reader(file.get(), archive.size());
    return read(reader, {});
}

std::string read_gzip(std::string_view archive) {
    guest::GzipTarReader reader;
    return read(reader, archive);
}

std::string written(guest::ArchiveWriter& writer, const ArchiveEntry& entry, std::string_view bytes) {
    std::string out;
    writer.begin(out, entry);
    if (!bytes.empty())
        writer.write(out, bytes);
    writer.end_entry(out);
    while (writer.finish(out)) {
    }
    return out;
}

void write_and_read(std::string_view text) {
    ArchiveEntry entry;
    entry.type = EntryType::file;
    entry.path = std::string(text.substr(0, text.size() / 2));
    std::erase(entry.path, '\0');
    entry.path = 'p' + entry.path + 'e';
    const std::string_view bytes = text.substr(text.size() / 2);
    entry.size = bytes.size();
    if (entry.path.size() > 16UL * 1024)
        return;
    guest::ZipWriter zip;
    guest::GzipTarWriter gzip;
    const std::string wanted = '\n' + entry.path + ">=" + std::string(bytes) + '!';
    require(read_zip(written(zip, entry, bytes)) == wanted, "a zip is read back");
    require(read_gzip(written(gzip, entry, bytes)) == wanted, "a tar.gz is read back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    read_zip(text);
    read_gzip(text);
    write_and_read(text);
    return 0;
}
