#include "core/store/database_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/plain/unique_fd.hpp"

namespace atl::store {
namespace {

constexpr std::size_t k_header_bytes = 100;

using Header = std::array<unsigned char, k_header_bytes>;

std::uint32_t big_endian(const Header& header, std::size_t at) {
    return std::uint32_t{header[at]} << 24 | std::uint32_t{header[at + 1]} << 16 |
           std::uint32_t{header[at + 2]} << 8 | header[at + 3];
}

std::filesystem::path log_of(const std::filesystem::path& database) {
    return database.string() + "-wal";
}

}  // namespace

base::Result<void> check_length(const std::filesystem::path& database) {
    struct stat log {};
    if (::stat(log_of(database).c_str(), &log) == 0 && log.st_size > 0)
        return {};
    const base::UniqueFd file(::open(database.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || status.st_size == 0)
        return {};  // SQLite reports the error itself
    Header header{};
    if (::pread(file.get(), header.data(), header.size(), 0) != static_cast<ssize_t>(header.size()))
        return base::Error(base::Errc::storage_failed, "its header is cut short");
    constexpr std::string_view k_magic = "SQLite format 3";
    if (std::memcmp(header.data(), k_magic.data(), k_magic.size()) != 0)
        return {};  // the same
    const std::uint32_t told = std::uint32_t{header[16]} << 8 | header[17];
    const std::uint64_t page_bytes = told == 1 ? 65'536 : told;
    const std::uint64_t pages = big_endian(header, 28);
    // The count is that of the last writer only if the two change counters agree.
    const bool is_told = big_endian(header, 24) == big_endian(header, 92);
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (is_told && size < pages * page_bytes)
        return base::Error(base::Errc::storage_failed, "it holds " + std::to_string(size) + " bytes of " +
                                                           std::to_string(pages * page_bytes));
    return {};
}

OpenedFiles::OpenedFiles(const std::filesystem::path& database) {
    for (const auto& file : {database, log_of(database)})
        files_.emplace(file, identity(file));
}

std::optional<OpenedFiles::Identity> OpenedFiles::identity(const std::filesystem::path& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0)
        return std::nullopt;
    return Identity{status.st_dev, status.st_ino};
}

std::optional<std::filesystem::path> OpenedFiles::find_missed() {
    for (auto& [file, opened] : files_) {
        const auto now = identity(file);
        if (!opened)
            opened = now;
        else if (now != opened)
            return file;
    }
    return std::nullopt;
}

}  // namespace atl::store
