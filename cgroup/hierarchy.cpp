#include "cgroup/hierarchy.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
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

// Fields: id parent device ROOT AT options [tags...] - TYPE source super-options.
std::optional<Mount> find_v2_mount(std::string_view mountinfo) {
    for (const auto line : split(mountinfo, '\n')) {
        const std::size_t dash = line.find(" - ");
        const auto fields = split(line, ' ');
        if (dash != std::string_view::npos && fields.size() > 5 &&
            line.substr(dash + 3).starts_with("cgroup2 "))
            return Mount{unescaped(fields[3]), unescaped(fields[4])};
    }
    return std::nullopt;
}

// The line of the v2 hierarchy is `0::PATH`.
std::optional<fs::path> own_v2_group(std::string_view own_groups) {
    for (const auto line : split(own_groups, '\n')) {
        if (line.starts_with("0::"))
            return fs::path(line.substr(3));
    }
    return std::nullopt;
}

}  // namespace

Candidates parse_candidates(std::string_view mountinfo, std::string_view own_groups) {
    const auto mount = find_v2_mount(mountinfo);
    if (!mount)
        return {};
    Candidates found{mount->at};
    const auto own = own_v2_group(own_groups);
    if (!own)
        return found;
    const fs::path inside = own->lexically_relative(mount->root);
    if (!inside.empty() && inside != "." && *inside.begin() != "..")
        found.push_back(mount->at / inside);
    return found;
}

Candidates find_candidates() {
    return parse_candidates(read_all("/proc/self/mountinfo"), read_all("/proc/self/cgroup"));
}

}  // namespace atl::cgroup
