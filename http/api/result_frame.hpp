// The frame of an event stream that holds a tool's result, which comes in pieces and may break off. A result
// of at most k_tool_held_result_bytes is held until it is whole, so one that breaks off leaves no frame. A
// longer one is sent as it comes; if it breaks off its frame is never ended, so that no client takes it for
// an event. The guest's bytes cannot end a frame: a line break in them becomes a space. Pure.
#pragma once

#include <string>
#include <string_view>

#include "http/api/event_stream.hpp"

namespace atl::http {

class ResultFrame {
  public:
    /// `begin`: the frame up to where the result stands in its JSON object.
    explicit ResultFrame(std::string begin) : text_(std::move(begin)) {}

    void add(std::string_view result);
    /// The result is whole.
    void end();
    /// Moves what may be sent now behind `out`.
    void take(std::string& out);
    /// True if a part of the frame was taken: in its stream nothing but its rest may follow.
    bool is_begun() const noexcept { return is_begun_; }

  private:
    std::string text_;
    bool is_begun_ = false;
    bool is_whole_ = false;
};

}  // namespace atl::http
