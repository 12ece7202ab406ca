#include "bridge/agents/line_splitter.hpp"

#include <utility>

namespace atl::guest {

void LineSplitter::feed(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t newline = bytes.find('\n');
        const std::string_view piece = bytes.substr(0, newline);
        const bool whole = partial_.empty() && !outline_ && newline != std::string_view::npos;
        if (whole && piece.size() <= limit_bytes_) {
            sink_.on_line(piece);
        } else {
            keep(piece);
            if (newline == std::string_view::npos)
                return;
            if (outline_)
                sink_.on_long_line_end(outline_->text());
            else
                sink_.on_line(partial_);
            partial_ = {};
            outline_.reset();
        }
        bytes.remove_prefix(newline + 1);
    }
}

void LineSplitter::keep(std::string_view bytes) {
    if (outline_)
        return outline_->feed(bytes);
    if (partial_.size() + bytes.size() <= limit_bytes_) {
        partial_.append(bytes);
        return;
    }
    const std::string head = std::exchange(partial_, {});
    outline_.emplace();
    outline_->feed(head);
    outline_->feed(bytes);
    sink_.on_long_line(head.empty() ? bytes : head);
}

}  // namespace atl::guest
