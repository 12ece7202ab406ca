// The host's end of a program inside: an `exec` command out, its reply, then frames both ways until the exit.
#pragma once

#include <string>

#include "bridge/frame.hpp"
#include "bridge/line_reader.hpp"
#include "core/sandbox/operations.hpp"

namespace atl::bridge {

/// Frames that one handler hands out; then others have their turn.
inline constexpr std::size_t k_frames_per_handler = 64;

class RunStream final : public sandbox::Run, private Stream::Reader {
  public:
    /// `observer` must outlive this; it may destroy this in any call.
    RunStream(std::shared_ptr<StreamContext> context, const std::string& path, const sandbox::RunSpec& spec,
              sandbox::RunObserver& observer);
    ~RunStream() override;

    std::size_t write(std::string_view bytes) override;
    void close_input() override;
    void signal(int number) override;
    void resume() override { stream_->resume(); }

  private:
    Stream::Taken on_bytes(Stream& stream, std::string_view bytes) override;
    void on_end(Stream::End end, std::string_view detail) override;
    Stream::Pace pace() const override;

    Stream::Taken read_reply(Stream& stream, std::string_view bytes);
    Stream::Taken read_frames(Stream& stream, std::string_view bytes);
    const char* obey(Stream& stream, const Frame& frame);
    void fail(base::Error error);

    std::shared_ptr<StreamContext> context_;
    sandbox::RunObserver& observer_;
    LineCutter reply_;
    FrameDecoder decoder_{FrameDecoder::Sender::guest};
    bool started_ = false;
    bool input_ended_;
    bool wants_room_ = false;
    std::size_t granted_bytes_ = base::k_input_window_bytes;  // may still be sent for stdin
    base::TimerId deadline_ = 0;
    std::shared_ptr<Stream> stream_;
};

/// The exec command's line.
std::string encode_exec(const sandbox::RunSpec& spec);

}  // namespace atl::bridge
