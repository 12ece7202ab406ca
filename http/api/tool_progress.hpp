// How far a long call of a tool is, in the log of its conversation: the guest's words about it, at most one
// in k_tool_progress_interval, and then how it ended. A call of which the guest says no more than that it
// lasts leaves nothing. Not here: the stream of the call itself (tool_stream.hpp), which has every word.
#pragma once

#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/conversation/manager.hpp"

namespace atl::http {

/// `message` of an object that the guest wrote, cut; empty if there is none.
std::string progress_message(std::string_view json);

class ToolProgressLog {
  public:
    /// `conversations` must outlive it.
    ToolProgressLog(conversation::Manager& conversations, std::string sandbox_id, std::string tool,
                    std::string tool_call_id);
    /// The call is over: `failed`, if nobody has told its end.
    ~ToolProgressLog();
    ToolProgressLog(const ToolProgressLog&) = delete;
    ToolProgressLog& operator=(const ToolProgressLog&) = delete;

    /// The text of an object that the guest wrote.
    void on_progress(std::string_view json);
    void on_end(std::string_view status);

    static constexpr std::string_view k_completed = "completed";
    static constexpr std::string_view k_failed = "failed";

  private:
    conversation::Manager& conversations_;
    std::string sandbox_id_;
    conversation::ToolProgress progress_;
    bool is_told_ = false;
    base::SteadyTime told_at_{};
};

}  // namespace atl::http
