// Previews without sockets and in time that stands still: the service over the real managers and fakes of
// every port, between a browser and a dev server that are both played by the test.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/task_group.hpp"
#include "core/plain/preview_limits.hpp"
#include "http/access/access.hpp"
#include "http/access/stream_tokens.hpp"
#include "http/proxy/preview_service.hpp"
#include "http/server/session.hpp"
#include "tests/unit/core/house.hpp"
#include "tests/unit/http/fake_stream.hpp"

namespace atl::test {

class PreviewHouse {
  public:
    /// Tells if earlier sandboxes have used the port numbers of the previews.
    enum class Numbers : std::uint8_t { unused, used };

    static constexpr const char* k_key = "the.api/key+";

    explicit PreviewHouse(http::PreviewSettings settings = {}, Numbers numbers = Numbers::unused) {
        if (numbers == Numbers::used)
            use_numbers();
        house_.conversations->preview_ports().enable(doors_, {});
        service_ =
            std::make_unique<http::PreviewService>(std::move(settings), *house_.conversations, make_pool(),
                                                   http::PreviewService::Known{keys_, tokens_});
        services_ = std::make_unique<http::Services>(*service_);
    }
    ~PreviewHouse() {
        for (const auto& session : sessions_)
            session->abort();
        run();
    }
    PreviewHouse(const PreviewHouse&) = delete;
    PreviewHouse& operator=(const PreviewHouse&) = delete;

    http::PreviewService& service() noexcept { return *service_; }
    conversation::PreviewPorts& ports() { return house_.conversations->preview_ports(); }
    /// The id of the sandbox of a new conversation.
    std::string make_sandbox(sandbox::PreviewSettings preview = {}) {
        conversation::CreateRequest wanted;
        wanted.preview = std::move(preview);
        return house_.create(std::move(wanted))->record.sandbox_id;
    }
    /// The same, with a preview that only its tokens open.
    std::string make_private_sandbox() {
        conversation::CreateRequest wanted;
        wanted.preview.access = sandbox::PreviewAccess::token_bearers;
        return house_.create(std::move(wanted))->record.sandbox_id;
    }
    std::string token(const std::string& sandbox, http::Scope scope) {
        return tokens_.issue(sandbox, scope, std::chrono::seconds(600)).token;
    }
    /// The same of one that is paused, and that a request wakes.
    std::string make_sleeper() {
        conversation::CreateRequest wanted;
        wanted.preview.wake = true;
        const conversation::Record made = house_.create(std::move(wanted))->record;
        const auto paused = house_.answer([&](auto reply) {
            house_.conversations->pause(made.id, conversation::PauseMode::cold, std::move(reply));
        });
        REQUIRE(paused.has_value());
        advance(k_time_to_end);
        return made.sandbox_id;
    }
    /// From now on no sandbox that is started gets up.
    void hold_starts() { is_held_ = true; }
    /// Its number, as text.
    std::string number(const std::string& sandbox) {
        const std::string url = ports().url(sandbox);
        REQUIRE(url.starts_with(k_before));
        return url.substr(k_before.size(), url.size() - k_before.size() - 1);
    }
    /// A browser at the listener of this number.
    std::shared_ptr<FakePeer> connect(const std::string& number) {
        auto peer = std::make_shared<FakePeer>(loop_.get_executor());
        auto connection = std::make_shared<http::Connection>(
            std::make_unique<FakeStream>(peer), house_.world.clock, house_.world.timers, state_.settings);
        sessions_.push_back(std::make_shared<http::Session>(
            state_, *services_, std::move(connection), *http::parse_address("127.0.0.1"),
            http::ListenerScope::loopback, http::CountLimiter::Lease(),
            static_cast<std::uint16_t>(std::stoi(number))));
        tasks_.spawn(async_serve(sessions_.back()));
        run();
        return peer;
    }
    /// Sends, and gives what came back; `then` is what the dev server says to it.
    std::string ask(FakePeer& client, std::string_view request, std::string_view then = "") {
        const std::size_t before = upstreams_.size();
        client.send(request);
        run();
        if (!then.empty()) {
            REQUIRE(upstreams_.size() == before + 1);
            seen_ = upstream().take();
            upstream().send(then);
            run();
        }
        return client.take();
    }
    /// The head that the dev server got last, with ask().
    const std::string& seen() const noexcept { return seen_; }
    /// The dev server's end of the request that was begun last.
    FakePeer& upstream() { return *upstreams_.back(); }
    std::size_t requests() const noexcept { return upstreams_.size(); }
    /// Lets time pass; each timer fires at its time.
    void advance(base::Millis by) {
        run();
        house_.world.timers.advance(by, [this] { run(); });
    }
    /// Does all that can be done without time.
    void run() {
        std::size_t done = 0;
        do {
            settle();
            loop_.restart();
            done = loop_.poll();
        } while (done > 0);
        settle();
    }

  private:
    struct OpenDoors final : conversation::PreviewDoors {
        Opening open(std::uint16_t) override { return Opening::open; }
        void close(std::uint16_t) override {}
    };
    static constexpr std::string_view k_before = "http://localhost:";
    static constexpr base::Millis k_time_to_end{60'000};  // of a sandbox that is asked to

    static base::Task<> async_serve(std::shared_ptr<http::Session> session) { co_await session->async_run(); }

    void settle() {
        if (!is_held_)
            return house_.settle();
        while (house_.world.timers.run_deferred()) {
        }
    }
    void use_numbers() {
        for (std::uint16_t place = 0; place < base::k_preview_numbers; ++place) {
            const auto number = static_cast<std::uint16_t>(base::k_first_preview_number + place);
            house_.world.store.preview_numbers[number] = {number, "", place + 1U, false};
        }
        house_.restart();
    }
    std::shared_ptr<http::UpstreamPool> make_pool() {
        const auto connect = [](const std::string&, std::uint16_t) -> base::Result<sandbox::InnerSocket> {
            return base::Error(base::Errc::host_unsupported);
        };
        const auto dial =
            [this](const std::string&, std::uint16_t,
                   const std::shared_ptr<const void>&) -> base::Result<std::unique_ptr<http::ByteStream>> {
            upstreams_.push_back(std::make_shared<FakePeer>(loop_.get_executor()));
            return std::make_unique<FakeStream>(upstreams_.back());
        };
        return std::make_shared<http::UpstreamPool>(loop_.get_executor(), house_.world.clock,
                                                    house_.world.timers, connect, http::UpstreamBounds{},
                                                    dial);
    }

    boost::asio::io_context loop_{1};
    OpenDoors doors_;
    House house_{sandbox::ManagerSettings{}};
    http::StreamTokens tokens_{std::string(60, 'k'), house_.world.clock};
    http::KeyAuthenticator keys_{k_key, nullptr, &tokens_};
    std::vector<std::shared_ptr<FakePeer>> upstreams_;  // one for each request that was begun
    std::unique_ptr<http::PreviewService> service_;
    std::unique_ptr<http::Services> services_;
    http::ServerState state_{house_.world.clock, house_.world.timers, http::Settings{}};
    base::TaskGroup tasks_{loop_.get_executor(), "test"};
    std::vector<std::shared_ptr<http::Session>> sessions_;
    std::string seen_;
    bool is_held_ = false;  // what others than the server do is not done
};

/// The request of a browser that opens the page at the port `number` of localhost.
inline std::string navigation(const std::string& number, std::string_view more = "") {
    return "GET / HTTP/1.1\r\nHost: localhost:" + number +
           "\r\nAccept: text/html,*/*\r\nSec-Fetch-Mode: navigate\r\n" + std::string(more) + "\r\n";
}

}  // namespace atl::test
