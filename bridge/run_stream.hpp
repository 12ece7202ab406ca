// The host's end of a program inside: an `exec` or `attach` command out, its reply, then frames both ways
// until the exit.
#pragma once

#include <chrono>
#include <string>

#include "bridge/frame.hpp"
#include "bridge/line_reader.hpp"
#include "core/sandbox/operations.hpp"

namespace atl::bridge {

/// For the reply to `exec`. Programs of a sandbox at its limit of processor time start one after another, so
/// a busy guest needs longer for many at once than for any other reply.
inline constexpr std::chrono::seconds k_exec_reply_deadline{30};

class RunStream final : public sandbox::Run, private Stream::Reader {
  public:
    /// `observer` must outlive this; it may destroy this in any call.
    RunStream(std::shared_ptr<StreamContext> context, const std::string& path, const sandbox::RunSpec& spec,
              sandbox::RunObserver& observer);
    /// Follows the kept process `id` from byte `after` of its output on.
    RunStream(std::shared_ptr<StreamContext> context, const std::string& path, const std::string& id,
              std::uint64_t after, sandbox::RunObserver& observer);
    /// The same for the sake of its stdin, without its output.
    RunStream(std::shared_ptr<StreamContext> context, const std::string& path, const std::string& id,
              sandbox::RunObserver& observer);
    ~RunStream() override;

    std::size_t write(std::string_view bytes) override;
    void close_input() override;
    void signal(int number) override;
    std::size_t waiting_input_bytes() const override { return base::k_input_window_bytes - granted_bytes_; }
    void resize(const sandbox::TerminalSize& size) override;
    void resume() override { stream_->resume(); }

  private:
    enum class Use : std::uint8_t { exec, attach };

    RunStream(std::shared_ptr<StreamContext> context, const std::string& path, std::string command, Use use,
              sandbox::RunObserver& observer);
    Stream::Taken on_bytes(Stream& stream, std::string_view bytes) override;
    void on_end(Stream::End end, std::string_view detail) override;
    Stream::Pace pace() const override;

    Stream::Taken read_reply(Stream& stream, std::string_view bytes);
    Stream::Taken read_frames(Stream& stream, std::string_view bytes);
    const char* handle(Stream& stream, const Frame& frame);
    void fail(base::Error error);

    std::shared_ptr<StreamContext> context_;
    sandbox::RunObserver& observer_;
    const Use use_;
    LineCutter reply_;
    FrameDecoder decoder_{FrameDecoder::Sender::guest};
    bool started_ = false;
    bool input_ended_ = false;
    bool has_terminal_ = false;
    bool wants_room_ = false;
    std::size_t granted_bytes_ = base::k_input_window_bytes;  // may still be sent for stdin
    base::TimerId deadline_ = 0;
    std::shared_ptr<Stream> stream_;
};

/// The exec command's line.
std::string encode_exec(const sandbox::RunSpec& spec);
/// The members of a command that say what to run, each behind a comma.
void append_program(std::string& line, const sandbox::RunSpec& spec);

}  // namespace atl::bridge
