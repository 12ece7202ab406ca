// How a command's output becomes events: what comes within a few milliseconds of the event before it is
// gathered into one, so that a program that writes letter by letter does not fill a log with letters. The
// first text is never held back, and the order of the streams is that in which they were read. Pure: who
// owns one arms the timer. Nothing but what is held takes memory, and that is bounded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "bridge/guest/loop.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {

/// How long after an event the next text is gathered.
inline constexpr Millis k_delta_gather{5};

class DeltaGather {
  public:
    /// Takes `text` (UTF-8, not empty) of `stream`, which must outlive this, and appends to `lines` the
    /// events that go out now. True: call expire() after k_delta_gather.
    bool feed(std::string_view stream, std::string_view text, std::string& lines) {
        if (!gathering_) {
            bridge::append_text_deltas(lines, text, stream);
            return gathering_ = true;
        }
        if (stream != stream_)
            flush(lines);
        stream_ = stream;
        held_ += text;
        if (held_.size() >= bridge::k_max_delta_bytes)
            flush(lines);
        return false;
    }
    /// The time is over: appends what was held. True: as feed().
    bool expire(std::string& lines) {
        gathering_ = !held_.empty();
        flush(lines);
        return gathering_;
    }
    /// Appends what is held; an event of another kind follows.
    void flush(std::string& lines) {
        bridge::append_text_deltas(lines, held_, stream_);
        held_.clear();
    }

  private:
    bool gathering_ = false;
    std::string_view stream_;
    std::string held_;  // of stream_
};

}  // namespace atl::guest
