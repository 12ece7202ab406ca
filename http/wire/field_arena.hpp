// Memory that the parsers of requests and of responses use: the text of one message's head and trailers, kept
// while it is parsed. Pure. Internal to the parsers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/wire/message.hpp"

namespace atl::http {

/// Empties `text` and frees its memory, but for what the next message is likely to need.
inline void clear_text(std::string& text) {
    constexpr std::size_t k_kept_bytes = 4096;
    if (text.capacity() > k_kept_bytes)
        std::string().swap(text);
    text.clear();
}

class FieldArena {
  public:
    /// A text that was kept; views are made once the head is complete.
    struct Piece {
        std::size_t offset = 0;
        std::size_t size = 0;
    };

    Piece keep(std::string_view text) {
        const Piece piece{text_.size(), text.size()};
        text_.append(text);
        return piece;
    }
    /// Valid until keep() or clear().
    std::string_view view(Piece piece) const {
        return std::string_view(text_).substr(piece.offset, piece.size);
    }
    /// Gives the value's piece.
    Piece add_field(std::string_view name, std::string_view value) {
        const Piece kept_name = keep(name);
        return fields_.emplace_back(kept_name, keep(value)).second;
    }
    /// The views of the head stay as they are.
    void add_trailer(std::string_view name, std::string_view value) { trailers_.emplace_back(name, value); }

    void show_fields(std::vector<HeaderField>& out) const {
        for (const auto& [name, value] : fields_)
            out.push_back({view(name), view(value)});
    }
    void show_trailers(std::vector<HeaderField>& out) const {
        for (const auto& [name, value] : trailers_)
            out.push_back({name, value});
    }
    /// Frees the memory, but for what the next message is likely to need.
    void clear() {
        clear_text(text_);
        fields_.clear();
        trailers_.clear();
    }

  private:
    std::string text_;
    std::vector<std::pair<Piece, Piece>> fields_;
    std::vector<std::pair<std::string, std::string>> trailers_;
};

}  // namespace atl::http
