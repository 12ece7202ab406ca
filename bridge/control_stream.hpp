// The control connection of a generation: `start` out, the reply in, then open until the generation ends.
// All that may come after the reply is one agent_exit for each agent that was started and, where they were
// asked for, lists of ports, which are read slowly; anything else breaks the stream, so a guest cannot make
// the server read it for ever. Closing it makes the guest end.
// Not here: the `agent` command, which has a connection of its own; its start and its answer are told here,
// because the end of that agent may arrive first.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bridge/line_reader.hpp"
#include "core/base/error.hpp"

namespace atl::bridge {

class ControlStream final : private LineReader {
  public:
    using OnReady = std::function<void(base::Result<void>)>;
    using OnAgentExit = std::function<void(std::string detail)>;
    using OnPorts = std::function<void(std::vector<std::uint16_t> ports)>;
    using OnLost = std::function<void(std::string detail)>;
    /// A program says `ready` when it is ready; a built-in agent is ready as soon as the guest is.
    enum class Starts : std::uint8_t { guest, guest_and_agent, guest_and_program };

    /// Does what sandbox::Channel::start() does, with the ports of Channel::watch_ports() and the loss of
    /// Channel::on_lost(); `on_ports` may be empty, and so may `on_lost`: a loss is then the end of an agent
    /// that runs. `deadline`: until it is ready. The callbacks may destroy this.
    ControlStream(std::shared_ptr<StreamContext> context, const std::string& path, std::string command,
                  Starts starts, std::chrono::seconds deadline, OnReady on_ready, OnAgentExit on_agent_exit,
                  OnPorts on_ports = nullptr, OnLost on_lost = nullptr);
    ~ControlStream();

    /// Before an agent command is sent. agent_failed: an agent runs or is being started; bridge_failed: the
    /// guest is gone or not ready.
    base::Result<void> begin_agent();
    /// The answer to that command, once after each good begin_agent(). An end of the agent that came before
    /// it is told later, from the loop.
    void end_agent_start(const base::Result<void>& result);

  private:
    /// The state of the agent as far as the host knows; `unknown` after a start without an answer.
    enum class Agent : std::uint8_t { none, starting, running, unknown };

    void on_line(std::string_view line) override;
    void on_end(Stream::End end, std::string_view detail) override;
    Stream::Pace pace() const override { return on_ports_ ? Stream::Pace::slow : Stream::Pace::full; }
    void on_reply(std::string_view line);
    void not_ready(base::Errc code, std::string detail);
    void agent_gone(std::string detail);
    void lost(std::string detail);
    void break_off();

    std::shared_ptr<StreamContext> context_;
    OnReady on_ready_;           // null once called
    OnAgentExit on_agent_exit_;  // called while an agent runs only
    OnPorts on_ports_;           // null: not asked for
    OnLost on_lost_;             // likewise
    Starts starts_;
    Agent agent_;
    std::optional<std::string> early_exit_;  // of the agent whose start is not answered yet
    base::TimerId deadline_ = 0;
    base::TimerId exit_timer_ = 0;
    std::shared_ptr<Stream> stream_;
};

}  // namespace atl::bridge
