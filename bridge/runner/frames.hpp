// The protocol between the server and a runner of code mode, as the host sees it: a big-endian u32, the
// length, and so many bytes of JSON, an object. The runner says ready, is sent one start, then sends logs and
// calls and exactly one result, its last frame. Everything else breaks the protocol, and the run ends as
// `protocol`. Pure. Not here: the socket, time limits, the schemas of arguments. Hostile input: the program
// may own the runner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace atl::bridge::runner {

inline constexpr std::size_t k_runner_frame_bytes = 4 * 1024 * 1024;
inline constexpr std::size_t k_runner_header_bytes = 4;
// An engine refuses a value of more than 120 levels: frame, arguments and tags fit beside it.
inline constexpr std::size_t k_runner_json_depth = 128;
inline constexpr std::size_t k_open_calls = 32;
inline constexpr std::size_t k_log_entry_bytes = 16;  // an empty entry costs memory too
// A run's frames may have so many bytes in all beside what is passed on of them: a frame is parsed whole.
// Names, ids and nonce of a frame are free.
inline constexpr std::size_t k_runner_spare_bytes = 1024UL * 1024;
inline constexpr std::size_t k_runner_envelope_bytes = 256;
// A frame before the run: ready, which is short. It is read before anybody knows whose it is.
inline constexpr std::size_t k_first_frame_bytes = 4096;

/// Appends the frame of `json`. False, and nothing is appended: it is longer than a frame may be.
bool append_frame(std::string& out, std::string_view json);

/// Cuts a stream of bytes into frames. Holds at most one frame and what was pushed last, if `next` is called
/// until it has none after each push; nothing once `refused`.
class FrameReader {
  public:
    void push(std::string_view bytes);
    /// The JSON text of the next frame, if it is complete. None forever once `refused`.
    std::optional<std::string> next();
    /// A frame is empty or announced longer than k_runner_frame_bytes.
    bool refused() const noexcept { return refused_; }
    /// No part of a frame is held: the stream may end here.
    bool is_between_frames() const noexcept { return !refused_ && held_.size() == read_; }

  private:
    std::string held_;
    std::size_t read_ = 0;  // so many bytes of held_ were returned
    bool refused_ = false;
};

/// The members of a frame that the host looks at, as texts; those that are missing or malformed are none.
/// HostMachine::take() judges what the frame may say: its reader is trusted no more than the runner.
struct RunnerFrame {
    enum class Member : std::uint8_t {
        type,
        run,
        nonce,
        engine,
        version,
        level,
        text,        // JSON, a string
        text_bytes,  // decimal: of the text itself
        id,          // decimal
        name,
        args,   // JSON, an array
        value,  // JSON
        error,  // empty: there is one
        error_kind,
        error_message,
        error_line,  // decimal
        too_deep,    // empty: it was not read
        too_long,    // empty: args or value are, and left out
    };
    static constexpr std::size_t k_members = 18;

    std::optional<std::string>& at(Member member) { return texts[static_cast<std::size_t>(member)]; }
    const std::string* find(Member member) const {
        const auto& text = texts[static_cast<std::size_t>(member)];
        return text ? &*text : nullptr;
    }
    std::array<std::optional<std::string>, k_members> texts;
};

/// Args and value are told if they have at most `max_value_bytes` as JSON; the message of an error is cut at
/// base::k_max_execution_error_bytes. Linear in the text, up to 50 ms a MiB: not for the loop, but for a
/// short frame.
RunnerFrame read_frame(std::string_view json, std::uint64_t max_value_bytes);

struct Limits {
    std::uint64_t max_calls = 100;
    std::uint64_t max_value_bytes = 1024 * 1024;  // of a call's arguments, its answer and the result, as JSON
    std::uint64_t max_log_bytes = 1024 * 1024;    // of all logs together, k_log_entry_bytes more for each
    std::uint64_t log_slack_bytes = 0;            // beyond it, for the entry that says that the logs end
};

struct Start {
    std::string run;
    std::string nonce;
    std::string language;
    std::string code;
    std::vector<std::string> tools;
    Limits limits;
};

struct Ready {
    std::string engine;
    std::string version;
};
struct Log {
    std::string level;      // log info warn error debug
    std::string text_json;  // a string
};
struct Call {
    std::uint64_t id = 0;
    std::string name;
    std::string args_json;  // an array
};
struct Failure {
    std::string kind;  // syntax runtime memory denied protocol
    std::string message;
    std::optional<std::uint64_t> line;
};
struct Ended {
    std::optional<std::string> value_json;  // none: undefined, or there is a failure
    std::optional<Failure> failure;
};
struct Violation {
    std::string reason;  // a short constant sentence: nothing of what the runner sent
};

using Received = std::variant<Ready, Log, Call, Ended, Violation>;

/// The state of one run, which decides what may come when. After a Violation every frame is one.
class HostMachine {
  public:
    /// Reads the frame with this JSON text and takes it: read_frame() and take().
    Received receive(std::string_view json);
    /// The same for a frame of `frame_bytes` that was read elsewhere. Precondition: is_running().
    Received take(RunnerFrame frame, std::size_t frame_bytes);
    /// Logs, calls and the result may come.
    bool is_running() const noexcept { return state_ == State::running; }
    std::uint64_t max_value_bytes() const noexcept { return start_.limits.max_value_bytes; }
    /// Appends the frame of start. False: not the time for it (ready has not come, or it was sent), too long,
    /// or without a run or a nonce.
    bool start(std::string& out, Start start);
    /// Appends the answer to an open call. False: no such call is open (answered, never made, the run ended);
    /// or `value_json` is not one JSON value, is deeper than k_runner_json_depth or longer than
    /// max_value_bytes: the call then stays open.
    bool answer(std::string& out, std::uint64_t id, std::string_view value_json);
    /// The same with text that the checker has read already: one JSON value, or empty if the text was none.
    /// The text reaches the program of this run alone.
    bool answer_checked(std::string& out, std::uint64_t id, std::string_view value_json);
    bool answer_error(std::string& out, std::uint64_t id, std::string_view message);

    std::size_t open_calls() const noexcept { return open_.size(); }
    bool ended() const noexcept { return state_ == State::ended; }

  private:
    enum class State : std::uint8_t { starting, ready, running, ended, broken };

    Received violation(const char* reason);
    bool has_paid(std::size_t frame_bytes, std::size_t passed_on_bytes);
    Received take_ready(const RunnerFrame& frame);
    Received take_log(RunnerFrame& frame, std::size_t frame_bytes);
    Received take_call(RunnerFrame& frame, std::size_t frame_bytes);
    Received take_result(RunnerFrame& frame);
    bool reply(std::string& out, std::uint64_t id, std::string_view key, std::string_view json);

    State state_ = State::starting;
    Start start_;
    std::set<std::uint64_t> open_;
    std::uint64_t last_call_ = 0;
    std::uint64_t log_bytes_ = 0;
    std::uint64_t spare_bytes_ = 0;
};

}  // namespace atl::bridge::runner
