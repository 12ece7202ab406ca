// The control connection of a generation: `start` out, the reply in, then open until the generation ends.
// All that may come after the reply is one agent_exit; anything else breaks the stream, so a guest cannot
// make the server read it for ever. Closing it makes the guest end.
#pragma once

#include <functional>
#include <string>

#include "bridge/line_stream.hpp"
#include "core/base/error.hpp"

namespace atl::bridge {

class ControlStream final : private LineStream::Sink {
  public:
    using OnReady = std::function<void(base::Result<void>)>;
    using OnAgentExit = std::function<void(std::string detail)>;

    /// As sandbox::Channel::start(). The callbacks may destroy this.
    ControlStream(std::shared_ptr<StreamContext> context, const std::string& path, std::string command,
                  OnReady on_ready, OnAgentExit on_agent_exit);
    ~ControlStream();

  private:
    void on_line(std::string_view line) override;
    void on_end(LineStream::End end, std::string_view detail) override;
    void on_reply(std::string_view line);
    void not_ready(base::Errc code, std::string detail);
    void agent_gone(std::string detail);

    std::shared_ptr<StreamContext> context_;
    OnReady on_ready_;           // null once called
    OnAgentExit on_agent_exit_;  // null once called
    base::TimerId deadline_ = 0;
    std::shared_ptr<LineStream> stream_;
};

}  // namespace atl::bridge
