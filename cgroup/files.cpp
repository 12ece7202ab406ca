#include "cgroup/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "core/plain/unique_fd.hpp"

namespace atl::cgroup {
namespace {

std::optional<std::uint64_t> leading_number(std::string_view text) {
    std::uint64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
        return std::nullopt;
    return value;
}

}  // namespace

std::string read_at(int folder, const char* name) {
    const base::UniqueFd file(::openat(folder, name, O_RDONLY | O_CLOEXEC));
    std::string text;
    char chunk[4096];
    ssize_t count = 0;
    while (file && (count = ::read(file.get(), chunk, sizeof chunk)) > 0)
        text.append(chunk, static_cast<std::size_t>(count));
    return text;
}

int write_at(int folder, const char* name, std::string_view text) {
    const base::UniqueFd file(::openat(folder, name, O_WRONLY | O_CLOEXEC));
    if (!file)
        return errno;
    return ::write(file.get(), text.data(), text.size()) < 0 ? errno : 0;
}

bool exists_at(int folder, const char* name) {
    return ::faccessat(folder, name, F_OK, 0) == 0;
}

std::optional<std::uint64_t> number_at(int folder, const char* name) {
    return leading_number(read_at(folder, name));
}

std::optional<std::uint64_t> keyed_number_at(int folder, const char* name, std::string_view key) {
    const std::string text = "\n" + read_at(folder, name);
    const std::string wanted = "\n" + std::string(key) + " ";
    const std::size_t at = text.find(wanted);
    if (at == std::string::npos)
        return std::nullopt;
    return leading_number(std::string_view(text).substr(at + wanted.size()));
}

}  // namespace atl::cgroup
