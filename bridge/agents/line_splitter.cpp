#include "bridge/agents/line_splitter.hpp"

#include <utility>

namespace atl::guest {

void LineSplitter::feed(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t newline = bytes.find('\n');
        const std::string_view piece = bytes.substr(0, newline);
        const bool whole = partial_.empty() && !discarding_ && newline != std::string_view::npos;
        if (whole && piece.size() <= limit_bytes_) {
            sink_.on_line(piece);
        } else {
            keep(piece);
            if (newline == std::string_view::npos)
                return;
            if (!discarding_)
                sink_.on_line(partial_);
            partial_ = {};
            discarding_ = false;
        }
        bytes.remove_prefix(newline + 1);
    }
}

void LineSplitter::keep(std::string_view bytes) {
    if (discarding_)
        return;
    if (partial_.size() + bytes.size() <= limit_bytes_) {
        partial_.append(bytes);
        return;
    }
    const std::string head = std::exchange(partial_, {});
    discarding_ = true;
    sink_.on_long_line(head.empty() ? bytes : head);
}

}  // namespace atl::guest
