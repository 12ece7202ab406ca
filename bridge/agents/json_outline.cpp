#include "bridge/agents/json_outline.hpp"

#include <algorithm>

namespace atl::guest {
namespace {

constexpr std::size_t k_outline_depth = 2;

}  // namespace

void JsonOutline::feed(std::string_view bytes) {
    while (!bytes.empty()) {
        if (in_string_) {
            bytes.remove_prefix(take_string(bytes));
            continue;
        }
        take_other(bytes.front());
        bytes.remove_prefix(1);
    }
}

/// Takes the rest of a string, or as much of it as is there. Returns how much that is.
std::size_t JsonOutline::take_string(std::string_view bytes) {
    std::size_t size = 0;
    while (size < bytes.size() && in_string_) {
        const char c = bytes[size++];
        in_string_ = is_escaped_ || c != '"';
        is_escaped_ = !is_escaped_ && c == '\\';
    }
    if (depth_ > k_outline_depth)
        return size;
    if (!is_cut_)
        keep(bytes.substr(0, size));
    if (!is_cut_ && text_.size() - string_begin_ > k_outline_string_bytes + (in_string_ ? 1 : 2)) {
        is_cut_ = true;
        text_.resize(string_begin_ + 1);
        if (!in_string_)
            keep("\"");
    } else if (is_cut_ && !in_string_) {
        keep("\"");
    }
    return size;
}

void JsonOutline::take_other(char c) {
    if (static_cast<unsigned char>(c) <= 0x20)
        return;
    if (c == '}' || c == ']') {
        depth_ -= depth_ == 0 ? 0 : 1;
        if (depth_ < k_outline_depth)
            keep({&c, 1});
        return;
    }
    const bool opens = c == '{' || c == '[';
    if (depth_ <= k_outline_depth) {
        if (c == '"')
            string_begin_ = text_.size();
        keep(opens && depth_ == k_outline_depth ? "null" : std::string_view(&c, 1));
    }
    depth_ += opens ? 1 : 0;
    in_string_ = c == '"';
    is_cut_ = false;
}

void JsonOutline::keep(std::string_view bytes) {
    text_.append(bytes.substr(0, k_max_outline_bytes - std::min(text_.size(), k_max_outline_bytes)));
}

}  // namespace atl::guest
