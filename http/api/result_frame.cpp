#include "http/api/result_frame.hpp"

#include <algorithm>
#include <utility>

#include "core/plain/operation_limits.hpp"

namespace atl::http {

void ResultFrame::add(std::string_view result) {
    const std::size_t size = text_.size();
    text_ += result;
    std::replace_if(
        text_.begin() + static_cast<std::ptrdiff_t>(size), text_.end(),
        [](char byte) { return byte == '\n' || byte == '\r'; }, ' ');
}

void ResultFrame::end() {
    text_ += "}\n\n";
    is_whole_ = true;
}

void ResultFrame::take(std::string& out) {
    if (!is_whole_ && !is_begun_ && text_.size() <= base::k_tool_held_result_bytes)
        return;
    is_begun_ = true;
    out += std::exchange(text_, {});
}

}  // namespace atl::http
