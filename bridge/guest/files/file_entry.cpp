#include "bridge/guest/files/file_entry.hpp"

#include <limits.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "core/plain/guest_limits.hpp"
#include "core/plain/json_text.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/plain/path_text.hpp"

namespace atl::guest {
namespace {

// The years that RFC 3339 can write.
constexpr std::int64_t k_first_told_second = -62'167'219'200;
constexpr std::int64_t k_last_told_second = 253'402'300'799;

// A reply with an entry is one line. In JSON a byte is at most six characters (a control; what is not UTF-8
// is three), in a URL three.
static_assert(6 * (base::k_max_path_bytes + base::k_max_name_bytes + PATH_MAX) + 3 * base::k_max_path_bytes +
                  1024 <=
              base::k_max_reply_line_bytes);

std::string_view type_name(mode_t mode) {
    switch (mode & S_IFMT) {
        case S_IFREG:
            return "file";
        case S_IFDIR:
            return "directory";
        case S_IFLNK:
            return "symlink";
        case S_IFIFO:
            return "fifo";
        case S_IFSOCK:
            return "socket";
        default:
            return "device";
    }
}

void append_time(std::string& out, const timespec& time) {
    const time_t seconds = std::clamp<std::int64_t>(time.tv_sec, k_first_told_second, k_last_told_second);
    tm parts{};
    gmtime_r(&seconds, &parts);
    char text[64];
    const int size = snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", parts.tm_year + 1900,
                              parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                              time.tv_nsec / 1'000'000);
    out.append(text, static_cast<std::size_t>(size));
}

void append_shown(std::string& out, std::string_view bytes) {
    base::append_json_string(out, base::shown_path(bytes));
}

std::string_view last_part(std::string_view path) {
    while (path.ends_with('/'))
        path.remove_suffix(1);
    return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::string entity_tag(const struct stat& about) {
    char text[96];
    const int size = snprintf(
        text, sizeof text, "\"%lx-%lx-%lx.%lx-%lx.%lx\"", static_cast<unsigned long>(about.st_ino),
        static_cast<unsigned long>(about.st_size), static_cast<unsigned long>(about.st_mtim.tv_sec),
        static_cast<unsigned long>(about.st_mtim.tv_nsec), static_cast<unsigned long>(about.st_ctim.tv_sec),
        static_cast<unsigned long>(about.st_ctim.tv_nsec));
    return {text, static_cast<std::size_t>(size)};
}

void append_entry(std::string& out, std::string_view path, const struct stat& about, int folder,
                  const std::string& name) {
    char mode[8];
    snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(about.st_mode & 07777));
    out += "{\"path\":";
    append_shown(out, path);
    out += ",\"href\":";
    base::append_json_string(out, base::path_href(path));
    out += ",\"name\":";
    append_shown(out, last_part(path));
    out.append(",\"type\":\"").append(type_name(about.st_mode));
    out.append("\",\"size\":").append(std::to_string(about.st_size));
    out.append(",\"mode\":\"").append(mode).append("\",\"mtime\":\"");
    append_time(out, about.st_mtim);
    out += '"';
    if (S_ISREG(about.st_mode)) {
        out += ",\"etag\":";
        base::append_json_string(out, entity_tag(about));
    }
    if (S_ISLNK(about.st_mode)) {
        char target[PATH_MAX];
        const ssize_t size = readlinkat(folder, name.c_str(), target, sizeof target);
        if (size >= 0) {
            out += ",\"target\":";
            append_shown(out, {target, static_cast<std::size_t>(size)});
        }
    }
    out += '}';
}

// An empty name is the link itself that `fd` was opened on (readlinkat(2)).
std::string entry_member(std::string_view path, const struct stat& about, int fd) {
    std::string out = "\"entry\":";
    append_entry(out, path, about, fd, "");
    return out;
}

}  // namespace atl::guest
