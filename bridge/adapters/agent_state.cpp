#include "bridge/adapters/agent_state.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/plain/inner_paths.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::adapter {
namespace {

constexpr const char* k_session_file = "/atoll-session";
// The session that was taken last and not confirmed.
constexpr const char* k_tried_file = "/atoll-session.tried";

std::string error_of(const std::string& path) {
    return path + ": " + strerrordesc_np(errno);
}

/// Nothing is at `path` any more. Returns what went wrong, as AgentState::prepare().
std::string clear_path(const std::string& path) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    return error ? path + ": " + error.message() : std::string();
}

/// The folders above `path`; what is no folder makes way.
std::string make_folders(const std::string& path) {
    for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
        const std::string folder = path.substr(0, at);
        struct stat info {};
        if (stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
            continue;
        if ((unlink(folder.c_str()) != 0 && errno != ENOENT) || mkdir(folder.c_str(), 0700) != 0)
            return error_of(folder);
    }
    return {};
}

/// The beginning of a file; nothing where there is none.
std::optional<std::string> read_head(const std::string& path, std::size_t limit_bytes) {
    // Not a FIFO that would keep the start waiting.
    const base::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::string text(limit_bytes, '\0');
    const ssize_t size = file ? read(file.get(), text.data(), text.size()) : -1;
    if (size < 0)
        return std::nullopt;
    text.resize(static_cast<std::size_t>(size));
    return text;
}

/// A reader sees the old text or the new one. A file that has this text stays: the disk may be full.
std::string write_file(const std::string& path, std::string_view text) {
    if (read_head(path, text.size() + 1) == text)
        return {};
    const std::string fresh = path + ".new";
    if (std::string wrong = clear_path(fresh); !wrong.empty())
        return wrong;
    const base::UniqueFd file(
        open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file)
        return error_of(fresh);
    while (!text.empty()) {
        const ssize_t size = write(file.get(), text.data(), text.size());
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            return error_of(fresh);
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    if (rename(fresh.c_str(), path.c_str()) == 0)
        return {};
    if (errno != EISDIR)
        return error_of(path);
    if (std::string wrong = clear_path(path); !wrong.empty())
        return wrong;
    return rename(fresh.c_str(), path.c_str()) == 0 ? std::string() : error_of(path);
}

}  // namespace

AgentState::AgentState(const std::string& workspace, const std::string& agent)
    : folder_(workspace + "/" + std::string(base::k_state_folder) + "/agents/" + agent) {}

std::string AgentState::prepare(const std::vector<std::pair<std::string, std::string>>& files) const {
    if (std::string wrong = make_folders(folder_ + "/"); !wrong.empty())
        return wrong;
    for (const auto& [name, text] : files) {
        const std::string path = folder_ + "/" + name;
        if (std::string wrong = make_folders(path); !wrong.empty())
            return wrong;
        if (std::string wrong = write_file(path, text); !wrong.empty())
            return wrong;
    }
    return {};
}

std::string AgentState::take_session() const {
    std::string text = read_head(folder_ + k_session_file, k_max_kept_session_bytes + 1).value_or("");
    const std::string mark = folder_ + k_tried_file;
    if (text.size() > k_max_kept_session_bytes || read_head(mark, k_max_kept_session_bytes + 1) == text)
        return {};
    if (!text.empty())
        static_cast<void>(write_file(mark, text));
    return text;
}

void AgentState::confirm() const {
    static_cast<void>(clear_path(folder_ + k_tried_file));
}

std::string AgentState::keep_session(std::string_view session) const {
    const std::string path = folder_ + k_session_file;
    return session.empty() ? clear_path(path) : write_file(path, session);
}

}  // namespace atl::adapter
