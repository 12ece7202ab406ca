#include "bridge/guest/tools/search_output.hpp"

#include <algorithm>
#include <utility>

namespace atl::guest {
namespace {

// A path and a notice before it are shorter; more is no output of ripgrep's.
constexpr std::size_t k_most_path_bytes = 16UL * 1024;
constexpr std::size_t k_most_digits = 18;

}  // namespace

/// Where a file turned out to be binary, ripgrep prints `PATH: words` in a line of its own behind its
/// matches. A file may be named so, too: what is there decides.
void SearchOutput::drop_notice() {
    const std::string begin = last_path_ + ": ";
    if (last_path_.empty() || !match_.path.starts_with(begin))
        return;
    const std::size_t end = match_.path.find('\n', begin.size());
    if (end != std::string::npos && !is_file_(match_.path))
        match_.path.erase(0, end + 1);
}

bool SearchOutput::ends_in_notice(std::string_view path) const {
    return part_ == Part::path && match_.path.starts_with(std::string(path) + ": binary file matches");
}

bool SearchOutput::end_line() {
    if (match_.line.ends_with('\r'))
        match_.line.pop_back();
    const bool wants_more = seen_(match_);
    last_path_ = std::move(match_.path);
    match_ = {};
    digits_ = 0;
    part_ = Part::path;
    return wants_more;
}

bool SearchOutput::feed(std::string_view bytes) {
    while (!bytes.empty()) {
        const char separator = part_ == Part::path ? '\0' : part_ == Part::number ? ':' : '\n';
        const std::size_t end = bytes.find(separator);
        const std::string_view piece = bytes.substr(0, end);
        bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
        if (part_ == Part::path) {
            if (match_.path.size() + piece.size() > k_most_path_bytes)
                return false;
            match_.path += piece;
        } else if (part_ == Part::number) {
            for (const char digit : piece.substr(0, k_most_digits - digits_))
                match_.line_number = match_.line_number * 10 + static_cast<std::uint64_t>(digit - '0') % 10;
            digits_ = std::min(k_most_digits, digits_ + piece.size());
        } else {
            match_.line += piece.substr(0, line_bytes_ - std::min(line_bytes_, match_.line.size()));
        }
        if (end == std::string_view::npos)
            return true;
        if (part_ == Part::path) {
            drop_notice();
            part_ = Part::number;
        } else if (part_ == Part::number) {
            part_ = Part::line;
        } else if (!end_line()) {
            return false;
        }
    }
    return true;
}

}  // namespace atl::guest
