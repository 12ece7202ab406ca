// The Channel port over the guest's Unix socket: an operation has a connection for itself, so closing is
// cancelling and no answer can reach the wrong request; a query that ended with `done` leaves its connection
// to the next one. Connecting and writing happen in the initiating call, which never blocks; everything else
// follows from the loop. Destroying a channel closes its control stream, upon which the guest ends.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bridge/control_stream.hpp"
#include "bridge/protocol.hpp"
#include "bridge/query_stream.hpp"
#include "bridge/request.hpp"
#include "bridge/stream.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::bridge {

class UnixChannel final : public sandbox::Channel {
  public:
    /// `path` as connect(2) takes it, at most 107 bytes.
    UnixChannel(std::shared_ptr<StreamContext> context, std::string path);
    ~UnixChannel() override;
    UnixChannel(const UnixChannel&) = delete;
    UnixChannel& operator=(const UnixChannel&) = delete;

    void start(const sandbox::AgentSpec& agent, std::function<void(base::Result<void>)> on_ready,
               std::function<void(std::string detail)> on_agent_exit) override;
    void watch_ports(sandbox::OnPorts on_ports) override { on_ports_ = std::move(on_ports); }
    void on_lost(std::function<void(std::string detail)> lost) override { on_lost_ = std::move(lost); }
    void start_agent(const sandbox::AgentSpec& agent, std::function<void(base::Result<void>)> done) override;
    std::unique_ptr<sandbox::Query> query(std::string_view turn, std::string_view prompt,
                                          std::string_view options,
                                          sandbox::QueryObserver& observer) override;
    void end_stray_processes() override { leftovers_ = LeftoverRule::end; }
    /// Fails with no_turn if the guest runs no such turn.
    void interrupt(std::string_view turn, std::function<void(base::Result<void>)> done) override;
    /// Fails with no_turn likewise.
    void permit(std::string_view turn, std::string_view id, std::string_view option_id,
                std::function<void(base::Result<void>)> done) override;
    void shutdown(std::function<void(base::Result<void>)> done) override;

  private:
    void request(std::string command, base::Millis deadline, base::Errc refused,
                 std::function<void(base::Result<void>)> done);

    std::shared_ptr<StreamContext> context_;
    std::string path_;
    sandbox::OnPorts on_ports_;                        // until the start
    std::function<void(std::string detail)> on_lost_;  // likewise
    std::unique_ptr<ControlStream> control_;
    std::shared_ptr<IdleStream> idle_;
    std::list<std::optional<Request>> requests_;
    LeftoverRule leftovers_ = LeftoverRule::keep;  // of the next query
};

class UnixChannels final : public sandbox::Channels {
  public:
    /// `timers` must outlive all channels and queries.
    UnixChannels(base::Executor executor, base::Timers& timers);

    std::unique_ptr<sandbox::Channel> open(const std::string& sandbox_id,
                                           const sandbox::Process& process) override;
    std::unique_ptr<sandbox::Operations> open_operations(const sandbox::Process& process) override;

  private:
    std::shared_ptr<StreamContext> context_;
};

/// The line of a start or an agent command.
std::string encode_agent_command(std::string_view name, const sandbox::AgentSpec& agent);

}  // namespace atl::bridge
