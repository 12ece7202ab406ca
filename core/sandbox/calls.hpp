// A call: one request to the guest that is answered by one JSON object, with bytes before or behind it. Files
// and tools are calls. The rules of operations.hpp hold: the object that stands for the call is the call, and
// destroying it cancels what the guest does for it.
//
// Nothing that comes back is trusted: lines are bounded and of a JSON object's form, but what they say is the
// sandbox's word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace atl::sandbox {

struct CallSpec {
    /// `allowed`: the guest may be silent behind its reply for as long as it likes.
    enum class Silence : std::uint8_t { bounded, allowed };

    std::string_view command;  // a command of the guest, of static storage: bridge::cmd
    std::string members;       // the other members of its line: JSON text without the braces; may be empty
    Silence silence = Silence::bounded;
};

class CallObserver {
  public:
    virtual ~CallObserver() = default;
    /// The guest takes input now: CallSpec names a call that has some. At most once, before the reply.
    virtual void on_ready() {}
    /// The progress of a call that lasts: the text of a JSON object, valid during the call.
    virtual void on_progress(std::string_view /*json*/) {}
    /// The call has been granted. `json` is the text of an object, valid during the call. on_end() follows,
    /// behind the bytes, if there are any.
    virtual void on_reply(std::string_view json) = 0;
    /// Bytes behind the reply, valid during the call.
    virtual void on_bytes(std::string_view /*bytes*/) {}
    /// After a write() that took less than all: there is room again.
    virtual void on_writable() {}
    /// Last call: the reply and all bytes came.
    virtual void on_end() = 0;
    /// Last call. Before the reply: the guest refused, with one of the codes of files and tools; or, at any
    /// time, the call broke off: sandbox_failed, bridge_failed, deadline_exceeded.
    virtual void on_failed(const base::Error& error) = 0;
    /// True while no more is wanted; Call::resume() ends that.
    virtual bool is_full() const { return false; }
};

/// A call under way.
class Call {
  public:
    virtual ~Call() = default;
    /// Input. Returns how many bytes were taken; if not all, on_writable() follows. None before on_ready().
    virtual std::size_t write(std::string_view bytes) = 0;
    /// The input is complete. Without it what was written counts for nothing. Precondition: on_ready().
    virtual void end_input() = 0;
    /// After CallObserver::is_full().
    virtual void resume() = 0;
};

}  // namespace atl::sandbox
