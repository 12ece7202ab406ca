#include <utility>

#include "core/plain/egress_limits.hpp"
#include "core/sandbox/manager.hpp"
#include "core/sandbox/manager_parts.hpp"

namespace atl::sandbox {

using base::Errc;
using base::Error;
using base::Result;

/// Empty: the sandbox needs none.
Result<std::string> Manager::make_issuer(const Record& record) const {
    if (record.network != NetworkMode::egress)
        return std::string();
    if (egress_ == nullptr)
        return check_network(record.network, record.egress).error();
    if (auto may = egress_->check_start(record.egress); !may)
        return may.error();
    return egress_->make_issuer(record.id);
}

// The guest gets no command before the listener is there: a program inside could take its port.
void Manager::open_egress(Sandbox& sandbox, const AgentSpec& agent) {
    Generation& generation = *sandbox.generation;
    const std::string id = sandbox.record.id;
    const std::uint32_t number = generation.number;
    const auto fail = [this, id, number](Error error) {
        Generation* const living = lookup(id, number);
        if (living == nullptr || living->machine.phase() != GenerationMachine::Phase::launching)
            return;
        living->start_error = error;
        perform(*lookup(id), living->machine.channel_failed(error.detail()));
    };
    generation.timer = ports_.timers.arm(base::k_egress_listen_deadline, [this, id, number, fail] {
        if (Generation* const living = lookup(id, number))
            living->timer = 0;
        fail(Error(Errc::sandbox_failed, "its proxy could not listen inside in time"));
    });
    // Calls `go_on` with each listener while the generation still waits for it.
    const auto listen = [this, id, number, fail](std::uint16_t port, auto go_on) {
        lookup(id, number)
            ->process->listen(port, [this, id, number, fail, go_on](Result<InnerListener> made) {
                Generation* const living = lookup(id, number);
                if (living == nullptr || living->machine.phase() != GenerationMachine::Phase::launching)
                    return;
                if (!made)
                    return fail(made.error());
                go_on(std::move(*made));
            });
    };
    listen(base::k_egress_port, [this, id, number, agent, listen](InnerListener proxy) {
        egress_->open(id, lookup(id)->record.egress, std::move(proxy));
        listen(base::k_route_port, [this, id, number, agent](InnerListener routes) {
            ports_.timers.cancel(std::exchange(lookup(id, number)->timer, 0));
            Sandbox& ours = *lookup(id);
            egress_->open_routes(id, ours.record.egress, agent.routes, std::move(routes));
            // A change that came since the start began found no routes yet.
            if (ours.record.network != NetworkMode::egress)
                egress_->change(id, {ours.record.network, ours.record.egress});
            connect(ours, agent);
        });
    });
}

base::Result<void> Manager::check_network(NetworkMode mode, const EgressSettings& egress) const {
    if (mode != NetworkMode::egress)
        return {};
    if (egress_ == nullptr)
        return Error(Errc::network_not_allowed,
                     "network \"egress\" is off; the operator allows it with --egress-allow PATTERN, such as "
                     "--egress-allow '*' for every public name");
    if (enforcement(mode).network != to_string(mode))
        return Error(
            Errc::host_unsupported,
            "network \"egress\" needs a listener inside the sandbox, and this server can make none: it "
            "may not join the net namespace of a sandbox");
    return egress_->check(egress);
}

void Manager::set_network(const std::string& id, const NetworkSettings& network) {
    Sandbox* const sandbox = lookup(id);
    if (sandbox == nullptr)
        return;
    sandbox->record.network = network.mode;
    sandbox->record.egress = network.egress;
    if (sandbox->generation && sandbox->generation->network == NetworkMode::egress && egress_ != nullptr)
        egress_->change(id, network);
}

NetworkMode Manager::network(const Record& record) const {
    const Sandbox* const sandbox = lookup(record.id);
    return sandbox != nullptr && sandbox->generation ? sandbox->generation->network : record.network;
}

}  // namespace atl::sandbox
