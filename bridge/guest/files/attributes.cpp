#include "bridge/guest/files/attributes.hpp"

#include <sys/xattr.h>

#include <cerrno>
#include <string>
#include <string_view>

namespace atl::guest {
namespace {

// The kernel's limit for all attribute names of a file together, and for each value (xattr(7)).
constexpr std::size_t k_most_bytes = 64UL * 1024;
constexpr std::string_view k_users = "user.";

}  // namespace

// By the link in /proc: an O_PATH descriptor takes no call that reads attributes.
bool copy_attributes(int from, int to) {
    const std::string source = "/proc/self/fd/" + std::to_string(from);
    std::string names(k_most_bytes, '\0');
    const ssize_t size = listxattr(source.c_str(), names.data(), names.size());
    if (size <= 0)
        return size == 0 || errno == ENOTSUP;
    names.resize(static_cast<std::size_t>(size));
    std::string value;
    for (std::size_t at = 0; at < names.size(); at = names.find('\0', at) + 1) {
        const char* const name = names.c_str() + at;
        if (!std::string_view(name).starts_with(k_users))
            continue;
        value.resize(k_most_bytes);
        const ssize_t count = getxattr(source.c_str(), name, value.data(), value.size());
        if (count < 0 && errno == ENODATA)
            continue;  // removed meanwhile
        if (count < 0 || fsetxattr(to, name, value.data(), static_cast<std::size_t>(count), 0) != 0)
            return false;
    }
    return true;
}

}  // namespace atl::guest
