#include "app/sandbox_egress.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/isolation/user_namespace.hpp"
#include "http/egress/egress_dial.hpp"
#include "http/egress/egress_report.hpp"
#include "http/egress/egress_tls.hpp"

namespace atl::app {

base::Result<std::shared_ptr<const http::TlsContext>> upstream_tls(const Config& config) {
    auto made = http::TlsContext::make_client(config.egress_ca);
    if (made)
        return made;
    const std::string why = made.error().detail();
    if (!config.egress_ca.empty())
        return base::Error(made.error().code(), "--egress-ca: " + why);
    return base::Error(made.error().code(), "network \"egress\" cannot verify any upstream: " + why +
                                                isolation::root_fix_line("apt-get install ca-certificates"));
}

namespace {

http::EgressQuestions::Ports questions_of(const SandboxEgress::Ports& ports,
                                          const http::EgressPolicy& policy) {
    conversation::Manager& conversations = ports.conversations;
    auto tell = [&conversations](const std::string& sandbox_id,
                                 const conversation::EgressQuestion& question) {
        return conversations.on_egress_question(sandbox_id, question);
    };
    auto tell_decision = [&conversations](const std::string& sandbox_id, const std::string& id,
                                          std::string_view decision) {
        conversations.on_egress_decision(sandbox_id, id, decision);
    };
    auto allow = [&conversations](const std::string& sandbox_id, const std::string& rule,
                                  const std::string& by_user_id, http::EgressQuestions::Done done) {
        conversations.allow_host(
            sandbox_id, rule, by_user_id,
            [done = std::move(done)](const base::Result<conversation::View>& changed) {
                done(changed ? base::Result<void>() : base::Result<void>(changed.error()));
            });
    };
    return {ports.clock, ports.timers, policy, std::move(tell), std::move(tell_decision), std::move(allow)};
}

}  // namespace

SandboxEgress::SandboxEgress(const Config& config, const Ports& ports, const sandbox::Manager& sandboxes,
                             std::shared_ptr<const http::TlsContext> tls,
                             std::shared_ptr<http::EgressRecorder> recorder)
    : recorder_(std::move(recorder)),
      bounds_(std::make_shared<http::EgressBounds>(
          ports.executor, ports.clock, ports.timers,
          [&sandboxes](const std::string& id) {
              const sandbox::Record* const record = sandboxes.find(id);
              return record == nullptr ? base::ShareHolder::thing(id) : sandbox::user_of(*record);
          },
          http::EgressBounds::Totals{ports.server.max_connections(), config.user_share_percent})),
      policy_(config.egress),
      questions_(questions_of(ports, policy_)),
      resolver_(ports.executor, ports.timers, ports.clock, {}),
      look_ups_(resolver_, bounds_),
      secrets_(ports.secrets),
      service_(ports.server,
               http::EgressParts{policy_, http::told_look_up(look_ups_.look_up(), recorder_),
                                 http::make_egress_dial(ports.executor, ports.timers),
                                 http::make_hello_reader, http::make_egress_tls(ports.timers, std::move(tls)),
                                 &secrets_, recorder_, bounds_, &questions_, config.egress.is_on()}) {}

bool needs_egress(const Config& config, const std::vector<sandbox::AgentSpec>& agents) {
    return config.egress.is_on() ||
           std::ranges::any_of(agents, [](const auto& agent) { return !agent.routes.empty(); });
}

base::Result<std::unique_ptr<SandboxEgress>> SandboxEgress::open(const Config& config, const Ports& ports,
                                                                 sandbox::Manager& sandboxes) {
    std::unique_ptr<SandboxEgress> made;
    if (!needs_egress(config, ports.conversations.agents()))
        return made;
    auto tls = upstream_tls(config);
    if (!tls)
        return tls.error();
    auto recorder = open_egress_recorder(config, ports.clock, ports.timers, ports.conversations, sandboxes);
    if (!recorder)
        return recorder.error();
    try {
        made =
            std::make_unique<SandboxEgress>(config, ports, sandboxes, std::move(*tls), std::move(*recorder));
    } catch (const std::runtime_error& error) {
        return base::Error(base::Errc::host_unsupported, error.what());
    }
    for (const base::Budget* const budget : {&made->bounds_->connections(), &made->bounds_->look_ups()})
        ports.budgets.all.push_back(budget);
    sandboxes.set_egress(&made->service_);
    ports.conversations.set_unattended(
        [&questions = made->questions_](const std::string& id) { questions.leave_unattended(id); });
    return made;
}

}  // namespace atl::app
