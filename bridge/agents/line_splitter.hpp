// Cuts an agent's output into lines. A line beyond base::k_max_event_line_bytes is discarded up to its
// newline and reported once; its memory is freed.
#pragma once

#include <string>
#include <string_view>

namespace atl::guest {

class LineSplitter {
  public:
    class Sink {
      public:
        /// Without its newline; valid during the call.
        virtual void on_line(std::string_view line) = 0;
        /// `head` is how it begins, at least some kilobytes; valid during the call.
        virtual void on_long_line(std::string_view head) = 0;

      protected:
        ~Sink() = default;
    };

    explicit LineSplitter(Sink& sink) : sink_(sink) {}
    void feed(std::string_view bytes);

  private:
    void keep(std::string_view bytes);

    Sink& sink_;
    std::string partial_;
    bool discarding_ = false;
};

}  // namespace atl::guest
