// The routes of the API over the real managers and a world of fakes, through real sockets. Every response is
// checked against the server's OpenAPI document.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "core/conversation/journal.hpp"
#include "core/conversation/manager.hpp"
#include "core/execution/executions.hpp"
#include "core/sandbox/manager.hpp"
#include "core/secrets/secrets.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/api/api.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/fake_secret_store.hpp"
#include "tests/support/fake_world.hpp"
#include "tests/unit/http/openapi_checker.hpp"
#include "tests/unit/http/test_server.hpp"

namespace atl::test {

using nlohmann::json;

inline const base::SystemClock k_clock;
inline constexpr const char* k_test_epoch = "epoch1";
inline const http::StreamTokens k_tokens(std::string(60, 'k'), k_clock);

/// "key of NAME" is a key for the conversations of NAME.
struct UserKeyStore final : http::KeyStore {
    std::optional<http::Principal> find(std::string_view key) override {
        constexpr std::string_view k_prefix = "key of ";
        if (!key.starts_with(k_prefix))
            return std::nullopt;
        http::Principal principal;
        principal.user_id = key.substr(k_prefix.size());
        return principal;
    }
    bool is_in(std::string_view text) override { return text.find("key of ") != std::string_view::npos; }
};
inline UserKeyStore user_keys;

/// Programs that say nothing and never end.
struct SilentPrograms final : execution::Programs {
    struct Silent final : execution::Program {
        void run(execution::ProgramSpec, execution::ProgramObserver&) override {}
        bool answer(std::uint64_t, std::string_view) override { return false; }
        bool answer_checked(std::uint64_t, std::string_view) override { return false; }
        bool answer_error(std::uint64_t, std::string_view) override { return false; }
        void hold() override {}
        void resume() override {}
    };
    std::unique_ptr<execution::Program> start(sandbox::Operations&, const execution::Engine&,
                                              execution::ProgramObserver&) override {
        return std::make_unique<Silent>();
    }
};

class ApiServer final : public ServerThread {
  public:
    ApiServer() : ServerThread(&user_keys, &k_tokens) {
        sandboxes_.emplace(
            sandbox::ManagerPorts{world.clock, world.timers, world, world, world, world, world, world.node},
            sandbox::ManagerSettings{2, {}});
        journal_.emplace(world.store, world.timers);
        conversation::ManagerSettings settings;
        settings.log_epoch = k_test_epoch;
        settings.agents = {{"shell", sandbox::AgentSpec::Kind::shell, {}, {}},
                           {"echo", sandbox::AgentSpec::Kind::echo, {}, {}}};
        manager_.emplace(world.clock, world.timers, *sandboxes_, *journal_, world.store, budgets.log,
                         settings);
        manager_->restore(load_start(world.store).value()).value();
        http::SystemInfo system;
        system.version = "1.2.3";
        system.bubblewrap = "0.8.0";
        system.default_agent = "shell";
        system.networks = {"none"};
        system.enforcement = [] { return sandbox::Enforcement{}; };
        system.capacity = [this] { return http::Capacity{sandboxes_->living(), sandboxes_->capacity()}; };
        system.undying = [this] { return sandboxes_->undying(10); };
        system.ready = [this] { return ready; };
        executions_.emplace(
            execution::ExecutionContext{budgets.results, world.clock, world.timers, *sandboxes_, programs_},
            execution::Engines({}), execution::ExecutionSettings{},
            [this](const sandbox::Demand& demand) { return manager_->has_capacity(demand); });
        api_.emplace(http::Api{*manager_, budgets, std::move(system), &k_tokens});
        api_->executions = &*executions_;
        secrets_ =
            secrets::Secrets::open({secret_store, world.clock, ceilings_}, secrets::new_sealing_key().value())
                .value();
        api_->secrets = secrets_.get();
        pump();
        start({}, http::make_router(*api_), "127.0.0.1:0");
        checker_.emplace(client().request("GET", "/openapi.json").body);
    }
    ~ApiServer() {
        on_loop([this] {
            pumping_ = false;
            pump_timer_.cancel();
        });
        finish();
    }

    /// A request on a connection of its own. The response is checked against the document.
    HttpResponse call(const std::string& method, const std::string& path, const std::string& body = "",
                      const HeaderList& headers = {}) {
        auto response = client().request(method, path, body, headers);
        CHECK(checker_->check(method, path, response) == "");
        return response;
    }
    /// The same request with other credentials or none.
    HttpResponse call_as(const HeaderList& who, const std::string& method, const std::string& path,
                         const std::string& body = "") {
        auto response = HttpClient(address, who).request(method, path, body);
        CHECK(checker_->check(method, path, response) == "");
        return response;
    }
    json call_json(const std::string& method, const std::string& path, const std::string& body = "") {
        return json::parse(call(method, path, body).body);
    }
    std::string code(const std::string& method, const std::string& path, const std::string& body = "") {
        return call_json(method, path, body)["code"];
    }
    std::string create(const std::string& body = "{}") {
        return call_json("POST", "/v1/conversations", body)["id"];
    }

    /// The agent of the one open turn says something, or ends the turn.
    void agent_says(std::string_view name, std::string_view data) {
        REQUIRE(eventually([&] { return !world.queries.empty(); }));
        on_loop([&] { world.queries.front()->observer->on_event({name, data}); });
    }
    void agent_ends_turn() {
        agent_says("done", "{}");
        on_loop([&] {
            const auto query = world.queries.front();
            if (query->observer != nullptr)
                world.end_query(*query, sandbox::QueryEnd::done);
            std::erase(world.queries, query);
        });
    }
    http::Api& api() { return *api_; }
    const OpenApiChecker& checker() const { return *checker_; }

    base::Budgets budgets;
    FakeWorld world{1};
    base::Result<void> ready;
    FakeSecretStore secret_store;
    std::atomic<bool> time_passes = false;  // timers fire as soon as nothing else is to do

  private:
    // Runs the pending work of the ports, in any order.
    void pump() {
        while (world.timers.run_deferred() || world.run_pending()) {
        }
        if (time_passes)
            world.timers.fire_next();
        if (!pumping_)
            return;
        pump_timer_.expires_after(std::chrono::milliseconds{1});
        pump_timer_.async_wait([this](const boost::system::error_code& error) {
            if (!error)
                pump();
        });
    }

    std::optional<sandbox::Manager> sandboxes_;
    std::optional<conversation::Journal> journal_;
    std::optional<conversation::Manager> manager_;
    SilentPrograms programs_;
    std::optional<execution::Executions> executions_;
    egress::Ceilings ceilings_;
    std::unique_ptr<secrets::Secrets> secrets_;
    std::optional<http::Api> api_;
    std::optional<OpenApiChecker> checker_;
    bool pumping_ = true;
    boost::asio::basic_waitable_timer<std::chrono::steady_clock> pump_timer_{io_};
};

inline const std::string k_no_id(20, 'a');

}  // namespace atl::test
