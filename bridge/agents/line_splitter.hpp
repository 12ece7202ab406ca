// Cuts a program's output into lines. A line beyond a bound is discarded up to its newline: its beginning is
// reported at once, and its outline when it ends.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bridge/agents/json_outline.hpp"
#include "core/plain/guest_limits.hpp"

namespace atl::guest {

class LineSplitter {
  public:
    class Sink {
      public:
        /// Without its newline; valid during the call.
        virtual void on_line(std::string_view line) = 0;
        /// `head` is how it begins, at least some kilobytes; valid during the call.
        virtual void on_long_line(std::string_view head) = 0;
        /// That line has ended; `outline` is JsonOutline::text() of it, valid during the call.
        virtual void on_long_line_end(std::string_view /*outline*/) {}

      protected:
        ~Sink() = default;
    };

    explicit LineSplitter(Sink& sink, std::size_t limit_bytes = base::k_max_event_line_bytes)
        : sink_(sink), limit_bytes_(limit_bytes) {}
    void feed(std::string_view bytes);

  private:
    void keep(std::string_view bytes);

    Sink& sink_;
    const std::size_t limit_bytes_;
    std::string partial_;
    std::optional<JsonOutline> outline_;  // while a line is discarded
};

}  // namespace atl::guest
