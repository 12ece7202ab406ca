// The pipe to an agent's stdin. It queues the bytes that the agent has not read yet, within a bound.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "bridge/guest/loop.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {

/// Room for two commands of any size.
inline constexpr std::size_t k_max_agent_input_bytes = 2 * bridge::k_max_command_line_bytes;

class AgentInput final : private FdHandler {
  public:
    /// `on_broken` is called once, from the loop, if the agent closes its stdin or lets the queue overflow.
    AgentInput(Loop& loop, std::function<void(const char* why)> on_broken)
        : loop_(loop), on_broken_(std::move(on_broken)) {}
    ~AgentInput() { close(); }
    AgentInput(const AgentInput&) = delete;
    AgentInput& operator=(const AgentInput&) = delete;

    /// Takes the nonblocking write end.
    void open(base::UniqueFd pipe) { pipe_ = std::move(pipe); }
    /// Complete lines. Ignored once closed or broken.
    void write(std::string_view lines);
    void close_when_written();
    void close();

  private:
    void on_ready(std::uint32_t events) override;
    void flush();
    void wait();
    void broken(const char* why);

    Loop& loop_;
    std::function<void(const char*)> on_broken_;
    base::UniqueFd pipe_;
    std::string queue_;
    std::size_t sent_bytes_ = 0;  // of queue_
    bool waiting_ = false;
    bool closing_ = false;
    TimerId broken_timer_ = 0;
};

}  // namespace atl::guest
