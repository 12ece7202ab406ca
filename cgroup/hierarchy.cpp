#include "cgroup/hierarchy.hpp"

#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace atl::cgroup {
namespace {

namespace fs = std::filesystem;

std::string read_all(const char* path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return parts;
}

// Blanks and backslashes in mountinfo are octal escapes.
std::string unescaped(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        unsigned code = 0;
        if (text[at] == '\\' && at + 3 < text.size() &&
            std::from_chars(text.data() + at + 1, text.data() + at + 4, code, 8).ptr ==
                text.data() + at + 4) {
            out += static_cast<char>(code);
            at += 3;
        } else {
            out += text[at];
        }
    }
    return out;
}

struct Mount {
    fs::path root;  // which folder of the hierarchy is mounted
    fs::path at;
};

constexpr std::array k_controllers{Controller::memory, Controller::cpu, Controller::cpuacct, Controller::pids,
                                   Controller::freezer};

/// The root of the mount, then the server's own group in it.
Candidates candidates(const Mount& mount, std::string_view own) {
    Candidates found{mount.at};
    const fs::path inside = fs::path(own).lexically_relative(mount.root);
    if (!own.empty() && !inside.empty() && inside != "." && *inside.begin() != "..")
        found.push_back(mount.at / inside);
    return found;
}

bool has_word(std::string_view list, std::string_view word) {
    const auto words = split(list, ',');
    return std::ranges::find(words, word) != words.end();
}

// A line is ID:CONTROLLERS:PATH; that of the v2 hierarchy is 0::PATH.
std::string_view own_group(std::string_view own_groups, std::string_view controller) {
    for (const auto line : split(own_groups, '\n')) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (second == std::string_view::npos)
            continue;
        const auto names = line.substr(first + 1, second - first - 1);
        if (controller.empty() ? names.empty() : has_word(names, controller))
            return line.substr(second + 1);
    }
    return {};
}

// systemd says by an extended attribute that a group's owner may make groups in it.
bool is_delegated(const fs::path& group) {
    char value = 0;
    return std::ranges::any_of(std::array{"trusted.delegate", "user.delegate"}, [&](const char* name) {
        return ::getxattr(group.c_str(), name, &value, sizeof value) == 1 && value == '1';
    });
}

}  // namespace

std::string_view name_of(Controller controller) noexcept {
    switch (controller) {
        case Controller::memory:
            return "memory";
        case Controller::cpu:
            return "cpu";
        case Controller::cpuacct:
            return "cpuacct";
        case Controller::pids:
            return "pids";
        case Controller::freezer:
            return "freezer";
    }
    return "";
}

// Fields: id parent device ROOT AT options [tags...] - TYPE source super-options.
Layout parse_layout(std::string_view mountinfo, std::string_view own_groups) {
    Layout layout;
    for (const auto line : split(mountinfo, '\n')) {
        const std::size_t dash = line.find(" - ");
        const auto fields = split(line, ' ');
        if (dash == std::string_view::npos || fields.size() <= 5)
            continue;
        const auto tail = split(line.substr(dash + 3), ' ');
        const Mount mount{unescaped(fields[3]), unescaped(fields[4])};
        if (tail.empty())
            continue;
        if (tail[0] == "cgroup2" && layout.unified.empty())
            layout.unified = candidates(mount, own_group(own_groups, ""));
        if (tail[0] != "cgroup" || tail.size() < 3)
            continue;
        for (const Controller controller : k_controllers) {
            if (has_word(tail[2], name_of(controller)))
                layout.v1.emplace(controller, candidates(mount, own_group(own_groups, name_of(controller))));
        }
    }
    return layout;
}

Layout find_layout() {
    Layout layout = parse_layout(read_all("/proc/self/mountinfo"), read_all("/proc/self/cgroup"));
    if (layout.unified.size() > 1 && is_delegated(layout.unified.back()))
        std::ranges::reverse(layout.unified);
    return layout;
}

}  // namespace atl::cgroup
