// A call of the host under way (core/sandbox/calls.hpp has the other end): a coroutine that reads input,
// waits, and writes a reply with bytes behind it. It has the loop for as long as it does not wait, so it
// gives way with turn() after every piece of work. Once the host has closed the connection, the coroutine is
// destroyed where it waits. Not here: what the calls do.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bridge/frame.hpp"
#include "bridge/guest/connection.hpp"
#include "bridge/guest/task.hpp"

namespace atl::guest {

/// How a call ended. With an `error` it was refused, or, behind its reply, broke off.
struct CallEnd {
    std::string error;      // a sentence
    std::string_view code;  // a word of bridge::refusal, or empty

    bool is_good() const noexcept { return error.empty(); }
};

class Call final : public ConnectionUser {
  public:
    /// The coroutine of a call. It may keep the reference.
    using Work = std::function<Task<CallEnd>(Call&)>;

    /// `connection` outlives this or says on_closed().
    Call(Loop& loop, Connection& connection) : loop_(loop), connection_(&connection) {}
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// Follows the connection and begins. `on_gone` is called once, from the loop, when all is over; it
    /// destroys this.
    void start(Work work, std::function<void()> on_gone);

    /// While it lives, and before the reply, the host is told twice a second how far the call is, also where
    /// nothing moves. The innermost one counts.
    class Progress;
    /// `members`: JSON text without braces; may be empty. Once.
    void reply(std::string_view members);
    /// Bytes behind the reply, of any size. What the host does not read yet is queued: mind room(). A short
    /// answer goes out as one, when the coroutine waits or ends.
    void output(std::string_view bytes);

    /// An awaitable: an object that the coroutine of the call waits for with co_await.
    struct Wait;
    /// Everything else in the loop has had its turn.
    Wait turn();
    /// Waits until the host has read most of the output. Does not wait if little output is queued.
    Wait room();
    /// `fd` can be read, or is at its end. It is not in the loop otherwise.
    Wait readable(int fd);
    /// So much time has passed.
    Wait pause(Millis time);

    /// A piece of input, valid until the next wait; or the end of it.
    struct Input {
        std::string_view bytes;
        bool is_end = false;
    };
    struct InputWait;
    /// The first one asks the host for it. Before the reply.
    InputWait input();

  private:
    enum class For : std::uint8_t { nothing, turn, room, input, fd, pause };
    struct FdWatch final : FdHandler {
        explicit FdWatch(Call& in_call) : call(in_call) {}
        void on_ready(std::uint32_t) override { call.resume(); }
        Call& call;
    };

    std::size_t on_input(Connection& connection, std::string_view bytes) override;
    void on_drained(Connection& connection) override;
    void on_closed(Connection& connection) override;

    void wait(For what, std::coroutine_handle<> who, int fd = -1, Millis time = {});
    void resume();
    void settle();
    void send_held(std::string_view behind = {});
    void say_at_work();
    void gone();

    Loop& loop_;
    Connection* connection_;  // null once closed or finished
    Work work_;               // lives as long as the coroutine: that may be a lambda's
    std::optional<Task<CallEnd>> task_;
    std::function<void()> on_gone_;
    std::coroutine_handle<> waiting_;
    For waiting_for_ = For::nothing;
    FdWatch fd_watch_{*this};
    int fd_ = -1;  // in the loop
    TimerId turn_timer_ = 0;
    TimerId keepalive_timer_ = 0;
    std::function<std::string()> how_far_;  // of the innermost Progress
    bridge::FrameDecoder decoder_{bridge::FrameDecoder::Sender::host};
    Input piece_;
    std::string held_;  // of the reply and what is behind it: written at the next wait
    bool input_asked_ = false;
    bool in_input_ = false;  // inside on_input(), which goes on by itself
    bool replied_ = false;
};

class Call::Progress {
  public:
    /// `how_far` gives the text of an object; `call` outlives this.
    Progress(Call& call, std::function<std::string()> how_far);
    ~Progress() { call_.how_far_ = std::move(outer_); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

  private:
    Call& call_;
    std::function<std::string()> outer_;
};

struct Call::Wait {
    Call& call;
    For what;
    int fd;
    Millis time{};

    bool await_ready() const {
        return what == For::room && call.connection_ && call.connection_->wants_more();
    }
    void await_suspend(std::coroutine_handle<> who) const { call.wait(what, who, fd, time); }
    void await_resume() const noexcept {}
};

struct Call::InputWait {
    Call& call;

    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> who) const { call.wait(For::input, who); }
    Input await_resume() const noexcept { return call.piece_; }
};

inline Call::Wait Call::turn() {
    return {*this, For::turn, -1, {}};
}
inline Call::Wait Call::room() {
    return {*this, For::room, -1, {}};
}
inline Call::Wait Call::readable(int fd) {
    return {*this, For::fd, fd, {}};
}
inline Call::Wait Call::pause(Millis time) {
    return {*this, For::pause, -1, time};
}
inline Call::InputWait Call::input() {
    return {*this};
}

}  // namespace atl::guest
