#include "bridge/adapters/agent_state.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "core/plain/inner_paths.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::adapter {
namespace {

constexpr const char* k_session_file = "/atoll-session";

std::string error_of(const std::string& path) {
    return path + ": " + strerrordesc_np(errno);
}

std::string make_folders(const std::string& path) {
    for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
        const std::string folder = path.substr(0, at);
        if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
            return error_of(folder);
    }
    return {};
}

/// A reader sees the old text or the new one.
std::string write_file(const std::string& path, std::string_view text) {
    const std::string fresh = path + ".new";
    unlink(fresh.c_str());
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

std::string AgentState::session() const {
    // Not a FIFO that would keep the start waiting.
    const base::UniqueFd file(
        open((folder_ + k_session_file).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, k_max_kept_session_bytes + 1> text{};
    const ssize_t size = file ? read(file.get(), text.data(), text.size()) : -1;
    if (size <= 0 || static_cast<std::size_t>(size) > k_max_kept_session_bytes)
        return {};
    return {text.data(), static_cast<std::size_t>(size)};
}

std::string AgentState::keep_session(std::string_view session) const {
    const std::string path = folder_ + k_session_file;
    if (!session.empty())
        return write_file(path, session);
    return unlink(path.c_str()) == 0 || errno == ENOENT ? std::string() : error_of(path);
}

}  // namespace atl::adapter
