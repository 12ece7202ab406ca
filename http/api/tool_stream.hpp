// A call of a tool as Server-Sent Events: progress while it is at work, then the result, which is passed on
// as the guest sends it. The guest's bytes cannot end a frame: a line break in them becomes a space.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/api/progress_stream.hpp"
#include "http/api/result_frame.hpp"

namespace atl::http {

class ToolStream final : public ProgressStream {
  public:
    struct Names {
        std::string tool;
        std::string tool_call_id;  // empty: none
        EventNames events = EventNames::none;
    };

    /// The result if the sandbox is lost before the reply: the text of an object, which says why.
    using Unavailable = std::function<std::string(const base::Error& why)>;
    ToolStream(std::unique_ptr<GuestCall> call, Names names, Surroundings around, Unavailable unavailable)
        : ProgressStream(std::move(call), std::move(around), names.events),
          tool_(std::move(names)),
          unavailable_(std::move(unavailable)) {}

    /// True if `code` says that the sandbox of a call that had begun, or the connection to it, is gone.
    static bool means_lost_sandbox(base::Errc code) noexcept;

    /// The only frame of a stream whose result, the text of an object, is known at once.
    static std::string result_frame(const Names& names, std::string_view result);

  private:
    enum class Phase : std::uint8_t { begin, working, result, over };

    base::Task<> async_fill() override;
    base::Task<> async_take_result();
    void add_progress(std::string_view json) override;
    void add_status(std::string_view status, std::string_view message);
    void begin_result();
    void end_without_reply(const base::Error& error);

    Names tool_;
    Unavailable unavailable_;
    Phase phase_ = Phase::begin;
    std::optional<ResultFrame> result_;
};

}  // namespace atl::http
