#include "http/egress/hosts_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::http {
namespace {

/// The next word of `line`, which is taken from it; empty: there is none.
std::string_view take_word(std::string_view& line) {
    constexpr std::string_view k_blanks = " \t\r\v\f";
    line.remove_prefix(std::min(line.find_first_not_of(k_blanks), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(k_blanks));
    line.remove_prefix(word.size());
    return word;
}

}  // namespace

std::string file_version(const std::string& path) {
    struct stat now {};
    if (::stat(path.c_str(), &now) != 0)
        return "";
    return fmt::format("{}:{}:{}:{}.{}", now.st_dev, now.st_ino, now.st_size, now.st_mtim.tv_sec,
                       now.st_mtim.tv_nsec);
}

std::vector<IpAddress> HostsFile::find(std::string_view name) {
    // It is looked at before the file is read: what is written meanwhile is another version.
    if (auto version = file_version(path_); version != version_) {
        version_ = std::move(version);
        read();
    }
    const auto same = std::ranges::equal_range(entries_, name, {}, &Entry::name);
    std::vector<IpAddress> addresses;
    for (const Entry& entry : same)
        addresses.push_back(entry.address);
    return addresses;
}

void HostsFile::read() {
    entries_.clear();
    text_.clear();
    std::ifstream file(path_, std::ios::binary);
    text_.resize(bounds_.bytes + 1);
    file.read(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    const bool is_cut = text_.size() > bounds_.bytes;
    if (is_cut)  // within a line, perhaps
        text_.resize(text_.rfind('\n', bounds_.bytes - 1) + 1);
    text_.shrink_to_fit();
    std::ranges::transform(text_, text_.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    bool has_room = true;
    for (std::string_view rest = text_; !rest.empty() && has_room;) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        has_room = add_line(line.substr(0, line.find('#')));
    }
    std::ranges::stable_sort(entries_, {}, &Entry::name);
    if ((is_cut || !has_room) && !std::exchange(is_cut_told_, true))
        base::LogLine(base::evt::etc_cut)
            .quoted("err", fmt::format("of {} the first {} bytes and {} names count", path_, bounds_.bytes,
                                       bounds_.names))
            .warn();
}

bool HostsFile::add_line(std::string_view line) {
    const auto address = parse_address(take_word(line));
    if (!address)
        return true;
    for (auto name = take_word(line); !name.empty(); name = take_word(line)) {
        if (entries_.size() == bounds_.names)
            return false;
        entries_.push_back({name, base::unmapped(*address)});
    }
    return true;
}

}  // namespace atl::http
