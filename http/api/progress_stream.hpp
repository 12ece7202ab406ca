// A call of the guest as Server-Sent Events: its progress while it is at work, or a comment where it is
// silent for long, and then what its reply means. Not here: what the frames say, which a derived class
// writes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "http/api/event_stream.hpp"
#include "http/api/guest_call.hpp"

namespace atl::http {

/// Appends the beginning of a frame, up to its object.
void begin_frame(std::string& out, std::string_view type, EventNames names);

class ProgressStream : public BodySource {
  public:
    /// The surroundings of a stream: its time, and the end of its client.
    struct Surroundings {
        base::Timers& timers;    // outlives it
        base::Millis heartbeat;  // of silence, until a comment
        /// Takes the call if the client leaves before the reply. Empty: the call is given up then.
        std::function<void(std::unique_ptr<GuestCall>)> left;
    };

    ProgressStream(const ProgressStream&) = delete;
    ProgressStream& operator=(const ProgressStream&) = delete;
    base::Task<base::Result<std::size_t>> async_read_some(std::span<char> room) final;

  protected:
    ProgressStream(std::unique_ptr<GuestCall> call, Surroundings around, EventNames names)
        : call_(std::move(call)), names_(names), around_(std::move(around)) {}
    ~ProgressStream() override;

    /// Appends what comes next to waiting_; nothing at the end. Sets broken_ where the stream cannot go on.
    virtual base::Task<> async_fill() = 0;
    /// Appends a frame with what the guest said, the text of an object.
    virtual void add_progress(std::string_view json) = 0;
    /// Waits for what the guest says next, and appends that. False: it has replied. Errors: those of
    /// GuestCall::async_reply(), when it does not reply.
    base::Task<base::Result<bool>> async_add_progress();
    /// Appends the frame of an error.
    void add_error(const base::Error& error);
    /// True once a part of the stream has been read: a failure is no answer of its own then.
    bool is_begun() const noexcept { return is_begun_; }

    std::unique_ptr<GuestCall> call_;
    const EventNames names_;
    std::string waiting_;                // text that is to be sent
    std::optional<base::Error> broken_;  // what the next read gives

  private:
    Surroundings around_;
    base::TimerId timer_ = 0;
    std::size_t sent_bytes_ = 0;
    bool is_at_work_ = true;
    bool is_begun_ = false;
};

}  // namespace atl::http
