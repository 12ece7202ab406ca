// A call of a tool as Server-Sent Events: progress while it is at work, or a comment where it is silent for
// long, then the result, which is passed on as the guest sends it. The guest's bytes cannot end a frame: a
// line break in them becomes a space.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "http/api/guest_call.hpp"
#include "http/api/result_frame.hpp"

namespace atl::http {

class ToolStream final : public BodySource {
  public:
    struct Names {
        std::string tool;
        std::string tool_call_id;  // empty: none
        EventNames events = EventNames::none;
    };

    /// What a stream does beside its frames.
    struct Surroundings {
        base::Timers& timers;    // outlives it
        base::Millis heartbeat;  // of silence, until a comment
        /// Takes the call if the client leaves before the reply. Empty: the call is given up then.
        std::function<void(std::unique_ptr<GuestCall>)> left;
    };

    /// `unavailable`, the text of an object, is the result if the sandbox is lost before the reply.
    ToolStream(std::unique_ptr<GuestCall> call, Names names, Surroundings around, std::string unavailable)
        : call_(std::move(call)),
          names_(std::move(names)),
          around_(std::move(around)),
          unavailable_(std::move(unavailable)) {}
    ~ToolStream() override;

    /// Whether a call that was begun ended so because its sandbox, or the way to it, is gone.
    static bool means_lost_sandbox(base::Errc code) noexcept;

    /// The only frame of a stream whose result, the text of an object, is known at once.
    static std::string result_frame(const Names& names, std::string_view result);

    base::Task<base::Result<std::size_t>> async_read_some(std::span<char> room) override;

  private:
    enum class Phase : std::uint8_t { begin, working, result, over };

    base::Task<> async_fill();
    base::Task<> async_take_result();
    void add_progress(std::string_view status, std::string_view progress);
    void begin_result();
    void fail(const base::Error& error);
    void end_without_reply(const base::Error& error);

    std::unique_ptr<GuestCall> call_;
    Names names_;
    Surroundings around_;
    base::TimerId timer_ = 0;
    std::string unavailable_;
    Phase phase_ = Phase::begin;
    std::string waiting_;  // text that is to be sent
    std::size_t sent_bytes_ = 0;
    std::optional<ResultFrame> result_;
    std::optional<base::Error> broken_;  // the stream ended within the frame of the result
};

}  // namespace atl::http
