// The host's end of a call: its command out, lines back until the reply, then frames until the exit. Input,
// for a call that has some, goes out as frames once the guest has asked for it.
#pragma once

#include <string>

#include "bridge/frame.hpp"
#include "bridge/line_reader.hpp"
#include "core/sandbox/calls.hpp"

namespace atl::bridge {

class CallStream final : public sandbox::Call, private Stream::Reader {
  public:
    /// `observer` must outlive this; it may destroy this in any call.
    CallStream(std::shared_ptr<StreamContext> context, const std::string& path,
               std::shared_ptr<IdleStream> idle, const sandbox::CallSpec& spec,
               sandbox::CallObserver& observer);
    ~CallStream() override;

    std::size_t write(std::string_view bytes) override;
    void end_input() override;
    void resume() override;

  private:
    enum class Input : std::uint8_t { unasked, wanted, ended };

    Stream::Taken on_bytes(Stream& stream, std::string_view bytes) override;
    void on_writable() override;
    void on_end(Stream::End end, std::string_view detail) override;
    Stream::Pace pace() const override;

    Stream::Taken read_lines(Stream& stream, std::string_view bytes);
    const char* handle_line(std::string_view line);
    Stream::Taken read_frames(Stream& stream, std::string_view bytes);
    void wait_for_keepalive();
    void wait_for_reply();
    void stop_waiting();
    void on_deadline();
    void fail(base::Error error);

    bool is_open() const noexcept { return stream_ && stream_->has_reader(); }
    void on_exit(Stream& stream);

    std::shared_ptr<StreamContext> context_;
    std::shared_ptr<IdleStream> idle_;
    sandbox::CallObserver& observer_;
    LineCutter lines_;
    FrameDecoder decoder_{FrameDecoder::Sender::guest};
    Input input_ = Input::unasked;
    bool replied_ = false;
    sandbox::CallSpec::Silence silence_;  // behind the reply
    bool wants_room_ = false;
    std::size_t keepalives_ = 0;  // before the reply
    base::TimerId deadline_ = 0;
    base::TimerId reply_deadline_ = 0;
    std::shared_ptr<Stream> stream_;  // null once the call has left it to others
};

}  // namespace atl::bridge
