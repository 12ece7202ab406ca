// A server with a trivial routing table on a real loopback socket, its loop in a thread of its own.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <boost/asio/post.hpp>
#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "core/base/asio_timers.hpp"
#include "http/server/gate.hpp"
#include "http/server/server.hpp"
#include "tests/support/http_client.hpp"
#include "tests/unit/http/test_routes.hpp"

namespace atl::test {

inline constexpr const char* k_test_key = "test-key";

/// A socket file without a listener, as a killed server leaves it.
inline void leave_dead_socket(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        throw std::runtime_error("bind " + path);
}

/// The settings of the server and of its one service.
struct TestSettings : http::Settings, http::GateSettings {
    /// Reads on behind a refusal until the client has sent all, however slow that is.
    TestSettings&& lingering() && {
        linger_deadline = k_client_deadline;
        return std::move(*this);
    }
};

/// A server whose loop runs in a thread of its own.
class ServerThread {
  public:
    /// `keys` and `tokens` as of KeyAuthenticator.
    explicit ServerThread(http::KeyStore* keys = nullptr, const http::TokenVerifier* tokens = nullptr)
        : authenticator_(k_test_key, keys, tokens) {}
    ServerThread(const ServerThread&) = delete;
    ServerThread& operator=(const ServerThread&) = delete;

    /// Runs `work` on the loop and waits for it. Not once the server has stopped: the loop has ended then.
    template <class Work>
    auto on_loop(Work work) {
        std::packaged_task<decltype(work())()> task(std::move(work));
        auto result = task.get_future();
        boost::asio::post(io_, [&task] { task(); });
        return result.get();
    }
    /// Waits until `condition`, asked on the loop, holds.
    template <class Condition>
    bool eventually(Condition condition) {
        const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
        while (std::chrono::steady_clock::now() < deadline) {
            if (on_loop(condition))
                return true;
            std::this_thread::yield();
        }
        return false;
    }
    void begin_stop(base::Millis grace) {
        if (!std::exchange(stopping_, true))
            on_loop([&] { server_->stop(grace, [this] { stopped_.set_value(); }); });
    }
    void stop(base::Millis grace) {
        begin_stop(grace);
        done_.wait();
    }
    bool is_stopped() { return done_.wait_for(std::chrono::seconds{0}) == std::future_status::ready; }
    std::size_t connections() {
        return on_loop([&] { return connections_now(); });
    }
    /// The same, asked from the loop.
    std::size_t connections_now() const { return server_->connections(); }
    const http::BodyBudget& bodies_now() const { return server_->bodies(); }
    /// Clients from now on speak TLS.
    void use_tls(std::shared_ptr<const http::TlsContext> tls) {
        on_loop([&] { server_->use_tls(std::move(tls)); });
    }
    HttpClient tls_client() { return HttpClient("https://" + address, {{"X-API-Key", k_test_key}}); }
    HttpClient client() { return HttpClient(address, {{"X-API-Key", k_test_key}}); }

    std::string address;

  protected:
    ~ServerThread() = default;
    void start(TestSettings settings, http::Router router, const std::string& listen) {
        prepare(settings, std::move(router));
        address = server_->listen(listen, *gate_).value().front();
        run();
    }
    /// The same in steps, for a server with more listeners or services.
    void prepare(const TestSettings& settings, http::Router router) {
        gate_.emplace(settings, std::move(router), authenticator_);
        server_.emplace(io_.get_executor(), clock_, timers_, settings);
    }
    void run() {
        server_->start();
        thread_ = std::thread([this] { io_.run(); });
    }
    http::Gate& gate() { return *gate_; }
    http::Server& server() { return *server_; }
    /// To be called first by the destructor of what the routes refer to.
    void finish() {
        stop(std::chrono::seconds{2});
        thread_.join();
    }

    boost::asio::io_context io_{1};

  private:
    base::SystemClock clock_;
    base::AsioTimers timers_{io_.get_executor()};
    http::KeyAuthenticator authenticator_;
    std::optional<http::Gate> gate_;
    std::optional<http::Server> server_;
    std::promise<void> stopped_;
    std::shared_future<void> done_ = stopped_.get_future().share();
    bool stopping_ = false;
    std::thread thread_;
};

class TestServer final : public ServerThread, public TestRoutes {
  public:
    explicit TestServer(TestSettings settings = {}, const std::string& listen = "127.0.0.1:0") {
        start(std::move(settings), http::Router(routes()), listen);
    }
    ~TestServer() { finish(); }

    enum class Piece { one_of_more, last };
    /// Gives the stream a piece of its body.
    void push(std::string payload, Piece piece = Piece::one_of_more) {
        on_loop([&] {
            feed.finished = piece == Piece::last;
            feed_stream(std::move(payload));
        });
    }
};

}  // namespace atl::test
