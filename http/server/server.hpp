// The HTTP server: listeners, their sessions, the cap on connections, graceful end. Single-threaded.
// Destroy it after the io_context has run out of work. Not here: what answers (service.hpp), one connection
// (session.hpp).
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/task_group.hpp"
#include "http/server/limit_log.hpp"
#include "http/server/listener.hpp"
#include "http/server/server_state.hpp"
#include "http/server/services.hpp"

namespace atl::http {

class Session;

/// The functions that a listener inside a sandbox calls for its connections. Both may be empty.
struct InnerAccess {
    /// How long the next connection has to wait to be accepted; 0: not at all.
    std::function<base::Millis()> pause;
    /// Called for each that is accepted. What it gives lives as long as the connection; the service refuses
    /// with its error.
    std::function<base::Result<std::shared_ptr<const void>>()> enter;
};

class Server {
  public:
    /// `clock` and `timers` must outlive the server.
    Server(base::Executor executor, const base::Clock& clock, base::Timers& timers, Settings settings);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// Opens listeners: "127.0.0.1:4100", "[::1]:4100", "unix:/run/atoll.sock", or each address of
    /// "localhost:4100"; port 0 lets the kernel choose. `services` answer there and must outlive the server.
    /// Gives the addresses as bound, at least one. Clients wait in the backlog until start(). Errors:
    /// listen_failed.
    base::Result<std::vector<std::string>> listen(const std::string& spec, Services services);
    enum class Opening : std::uint8_t { open, taken, refused };
    /// Serves plain HTTP at once on 127.0.0.1 and, where the host has it, [::1], until close_loopback().
    /// `services` must outlive the server. taken: another program listens there; refused: no descriptors, or
    /// the server is stopping. Precondition: the port is not open.
    Opening open_loopback(std::uint16_t port, const Services& services);
    /// Accepts no more; connections that are open stay. A port that is not open is ignored.
    void close_loopback(std::uint16_t port);
    /// Serves plain HTTP at once on a listening socket inside a sandbox, until close_inner(). A connection
    /// from there counts twice, since it has a connection to an upstream beside it. The services live until
    /// the last session of theirs has ended.
    void open_inner(base::UniqueFd fd, std::shared_ptr<const Services> services, InnerAccess access);
    /// Accepts no more there, and ends the connections that are open. Ignores services that are not open.
    void close_inner(const Services& services);
    /// From now on TCP listeners speak HTTPS with this; open connections stay as they are, Unix sockets
    /// plain.
    void use_tls(std::shared_ptr<const TlsContext> tls) { state_.tls = std::move(tls); }
    /// Serves on all listeners.
    void start();
    /// Accepts no more; idle connections close, streams end with their last word, requests that run finish
    /// within `grace` and are cut off after it. Then `done`, once, when no session is left and the loop has
    /// none of this server's work. Call once.
    void stop(base::Millis grace, std::function<void()> done);

    std::size_t connections() const noexcept { return sessions_.size(); }
    std::size_t max_connections() const noexcept { return state_.settings.max_connections; }
    /// The memory of request bodies and WebSocket messages that are not complete, and how many wait for it.
    const BodyBudget& bodies() const noexcept { return state_.bodies; }
    /// Responses of all services since the start, by status; a stream counts when it has ended.
    const auto& responses() const noexcept { return state_.responses; }
    /// The loop's queue: coroutines that are to be woken, and other work that was put off (defer_queue.hpp).
    std::size_t queued_wakes() const;

  private:
    enum class Encryption : std::uint8_t { as_configured, none };
    using Timer = boost::asio::basic_waitable_timer<
        std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, base::Executor>;

    struct Door {
        /// `services` may own nothing.
        Door(Listener with, std::shared_ptr<const Services> to, Encryption how)
            : listener(std::move(with)),
              services(std::move(to)),
              encryption(how),
              pause(listener.executor()) {}
        void close();

        Listener listener;
        std::shared_ptr<const Services> services;
        InnerAccess inner{};  // of a listener inside a sandbox
        Encryption encryption;
        Timer pause;
        bool is_inner = false;  // inside a sandbox
    };
    using DoorPtr = std::shared_ptr<Door>;

    base::Task<> async_accept(DoorPtr kept);
    bool is_plain(const Door& door) const;
    base::Task<> async_serve(std::shared_ptr<Session> session, DoorPtr kept);
    void take(Accepted client, const DoorPtr& at);
    void refuse(Accepted& client, Door& door, const base::Error& error);

    base::Executor executor_;
    ServerState state_;
    base::TaskGroup tasks_;
    LimitLog limit_log_;
    std::vector<DoorPtr> doors_;  // of listen()
    std::map<std::uint16_t, std::vector<DoorPtr>> loopback_;
    std::map<const Services*, DoorPtr> inner_;
    std::unordered_set<Session*> sessions_;
    std::size_t inner_sessions_ = 0;  // of listeners inside sandboxes
    Timer grace_timer_;
};

}  // namespace atl::http
