#include "bridge/unix_channel.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "bridge/protocol.hpp"
#include "bridge/query_stream.hpp"
#include "bridge/unix_operations.hpp"

namespace atl::bridge {
namespace {

std::string_view kind_name(sandbox::AgentSpec::Kind kind) {
    switch (kind) {
        case sandbox::AgentSpec::Kind::shell:
            return agent_kind::shell;
        case sandbox::AgentSpec::Kind::echo:
            return agent_kind::echo;
        case sandbox::AgentSpec::Kind::command:
            return agent_kind::command;
        case sandbox::AgentSpec::Kind::none:
            break;
    }
    return agent_kind::none;
}

ControlStream::Starts starts_of(sandbox::AgentSpec::Kind kind) {
    switch (kind) {
        case sandbox::AgentSpec::Kind::none:
            return ControlStream::Starts::guest;
        case sandbox::AgentSpec::Kind::command:
            return ControlStream::Starts::guest_and_program;
        case sandbox::AgentSpec::Kind::shell:
        case sandbox::AgentSpec::Kind::echo:
            break;
    }
    return ControlStream::Starts::guest_and_agent;
}

}  // namespace

static_assert(sandbox::k_max_resume_bytes < k_max_command_line_bytes / 2);  // argv is in it, too

std::string encode_agent_command(std::string_view name, const sandbox::AgentSpec& agent) {
    std::string line = "{\"cmd\":";
    base::append_json_string(line, name);
    line += ",\"agent\":{\"kind\":";
    base::append_json_string(line, kind_name(agent.kind));
    line += ",\"argv\":[";
    for (const std::string& argument : agent.argv) {
        if (line.back() != '[')
            line += ',';
        base::append_json_string(line, argument);
    }
    line += ']';
    if (!agent.resume.empty())
        line.append(",\"resume\":").append(agent.resume);
    line += "}}\n";
    return line;
}

UnixChannel::UnixChannel(std::shared_ptr<StreamContext> context, std::string path)
    : context_(std::move(context)), path_(std::move(path)), idle_(std::make_shared<IdleStream>()) {}

UnixChannel::~UnixChannel() {
    idle_->drop();
}

void UnixChannel::start(const sandbox::AgentSpec& agent, std::function<void(base::Result<void>)> on_ready,
                        std::function<void(std::string detail)> on_agent_exit) {
    std::string command = encode_agent_command(cmd::start, agent);
    if (on_ports_)
        command.replace(command.rfind('}'), std::string::npos, k_with_ports);
    control_ = std::make_unique<ControlStream>(
        context_, path_, std::move(command), starts_of(agent.kind), agent.start_timeout, std::move(on_ready),
        std::move(on_agent_exit), std::move(on_ports_), std::move(on_lost_));
}

void UnixChannel::start_agent(const sandbox::AgentSpec& agent, std::function<void(base::Result<void>)> done) {
    base::Result<void> begun = control_ ? control_->begin_agent()
                                        : base::Error(base::Errc::bridge_failed, "the guest was not started");
    if (!begun)
        return boost::asio::post(context_->executor, [idle = idle_, begun, done = std::move(done)] {
            if (!idle->is_dropped())
                done(begun);
        });
    request(encode_agent_command(cmd::agent, agent), agent.start_timeout, base::Errc::agent_failed,
            [this, done = std::move(done)](base::Result<void> result) {
                control_->end_agent_start(result);
                done(std::move(result));
            });
}

std::unique_ptr<sandbox::Query> UnixChannel::query(std::string_view turn, std::string_view prompt,
                                                   std::string_view options,
                                                   sandbox::QueryObserver& observer) {
    const LeftoverRule leftovers = std::exchange(leftovers_, LeftoverRule::keep);
    return std::make_unique<QueryStream>(context_, path_, encode_query(turn, prompt, options, leftovers),
                                         idle_, observer);
}

void UnixChannel::interrupt(std::string_view turn, std::function<void(base::Result<void>)> done) {
    request(encode_command(cmd::interrupt, turn), base::k_control_reply_deadline, base::Errc::no_turn,
            std::move(done));
}

void UnixChannel::permit(std::string_view turn, std::string_view id, std::string_view option_id,
                         std::function<void(base::Result<void>)> done) {
    request(encode_permission(turn, id, option_id), base::k_control_reply_deadline, base::Errc::no_turn,
            std::move(done));
}

void UnixChannel::shutdown(std::function<void(base::Result<void>)> done) {
    request(encode_command(cmd::shutdown), base::k_control_reply_deadline, base::Errc::bridge_failed,
            std::move(done));
}

void UnixChannel::request(std::string command, base::Millis deadline, base::Errc refused,
                          std::function<void(base::Result<void>)> done) {
    const auto place = requests_.emplace(requests_.end());
    // The request goes before its answer is told: the callback may destroy the channel.
    place->emplace(context_, path_, std::move(command), deadline, refused,
                   [this, place, done = std::move(done)](base::Result<void> result) mutable {
                       const auto tell = std::move(done);
                       requests_.erase(place);
                       tell(std::move(result));
                   });
}

UnixChannels::UnixChannels(base::Executor executor, base::Timers& timers)
    : context_(std::make_shared<StreamContext>(executor, timers)) {}

std::unique_ptr<sandbox::Channel> UnixChannels::open(const std::string&, const sandbox::Process& process) {
    return std::make_unique<UnixChannel>(context_, process.bridge_path());
}

std::unique_ptr<sandbox::Operations> UnixChannels::open_operations(const sandbox::Process& process) {
    return std::make_unique<UnixOperations>(context_, process.bridge_path());
}

}  // namespace atl::bridge
