// The host's end of a connection to a port inside: a `dial` command out, its reply, then bytes both ways.
#pragma once

#include <string>

#include "bridge/line_reader.hpp"
#include "core/sandbox/operations.hpp"

namespace atl::bridge {

class DialStream final : public sandbox::Dial, private Stream::Reader {
  public:
    /// `observer` must outlive this; it may destroy this in any call.
    DialStream(std::shared_ptr<StreamContext> context, const std::string& path, std::uint16_t port,
               sandbox::DialObserver& observer);
    ~DialStream() override;

    std::size_t write(std::string_view bytes) override;
    void close_write() override { stream_->close_write(); }
    void resume() override { stream_->resume(); }

  private:
    Stream::Taken on_bytes(Stream& stream, std::string_view bytes) override;
    Stream::AtEof on_eof() override;
    void on_writable() override;
    void on_end(Stream::End end, std::string_view detail) override;
    Stream::Pace pace() const override;
    void fail(base::Error error);

    std::shared_ptr<StreamContext> context_;
    sandbox::DialObserver& observer_;
    LineCutter reply_;
    bool open_ = false;
    bool read_ended_ = false;
    bool wants_room_ = false;
    base::TimerId deadline_ = 0;
    std::shared_ptr<Stream> stream_;
};

}  // namespace atl::bridge
