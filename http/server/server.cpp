#include "http/server/server.hpp"

#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

#include "core/base/defer_queue.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "http/server/session.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr int k_accepts_a_turn = 64;
constexpr base::Millis k_exhausted_pause{100};
constexpr std::size_t k_dropped_bytes = 4096;

}  // namespace

Server::Server(base::Executor executor, const base::Clock& clock, base::Timers& timers, Settings settings)
    : executor_(executor),
      state_(clock, timers, std::move(settings)),
      tasks_(executor, "http"),
      grace_timer_(executor) {}

Server::~Server() = default;

base::Result<std::vector<std::string>> Server::listen(const std::string& spec, Services services) {
    auto listeners = Listener::open(executor_, spec, state_.settings.unix_socket_group);
    if (listeners.has_error())
        return listeners.error();
    const auto kept = std::make_shared<const Services>(std::move(services));
    std::vector<std::string> addresses;
    for (Listener& listener : *listeners) {
        addresses.push_back(listener.address());
        doors_.push_back(std::make_shared<Door>(std::move(listener), kept, Encryption::as_configured));
    }
    return addresses;
}

Server::Opening Server::open_loopback(std::uint16_t port, const Services& services) {
    if (state_.stopping)
        return Opening::refused;
    const std::shared_ptr<const Services> lent(std::shared_ptr<const void>(), &services);
    std::vector<DoorPtr> opened;
    for (const int family : {AF_INET, AF_INET6}) {
        int error = 0;
        auto listener = Listener::open_loopback(executor_, family, port, error);
        if (listener)
            opened.push_back(std::make_shared<Door>(std::move(*listener), lent, Encryption::none));
        else if (error == EADDRINUSE || error == EACCES)
            return Opening::taken;
        else if (family == AF_INET || (error != EAFNOSUPPORT && error != EADDRNOTAVAIL))
            return Opening::refused;
    }
    for (const DoorPtr& door : opened)
        tasks_.spawn(async_accept(door));
    loopback_[port] = std::move(opened);
    return Opening::open;
}

void Server::close_loopback(std::uint16_t port) {
    const auto closed = loopback_.extract(port);
    if (closed.empty())
        return;
    for (const DoorPtr& door : closed.mapped())
        door->close();
}

void Server::open_inner(base::UniqueFd fd, std::shared_ptr<const Services> services, InnerAccess access) {
    if (state_.stopping)
        return;
    const Services* const key = services.get();
    auto door = std::make_shared<Door>(Listener::adopt(executor_, std::move(fd)), std::move(services),
                                       Encryption::none);
    door->inner = std::move(access);
    door->is_inner = true;
    inner_[key] = door;
    tasks_.spawn(async_accept(std::move(door)));
}

void Server::close_inner(const Services& services) {
    const auto closed = inner_.extract(&services);
    if (closed.empty())
        return;
    closed.mapped()->close();
    for (Session* const session : sessions_) {
        if (&session->services() == &services)
            session->abort();
    }
}

void Server::Door::close() {
    listener.close();
    pause.cancel();
}

void Server::start() {
    for (const DoorPtr& door : doors_) {
        base::LogLine(base::evt::server_listening).field("addr", door->listener.address()).info();
        tasks_.spawn(async_accept(door));
    }
}

bool Server::is_plain(const Door& door) const {
    return !state_.tls || door.encryption == Encryption::none ||
           door.listener.reach() == ListenerScope::unix_socket;
}

std::size_t Server::queued_wakes() const {
    return boost::asio::use_service<base::DeferQueue>(executor_.context()).size();
}

base::Task<> Server::async_accept(DoorPtr kept) {
    Door& door = *kept;
    Listener& listener = door.listener;
    while (!state_.stopping && listener.is_open()) {
        const bool open = co_await listener.async_wait();
        if (!open || state_.stopping)
            break;
        bool exhausted = false;
        base::Millis pause{0};
        for (int i = 0; i < k_accepts_a_turn; ++i) {
            pause = door.inner.pause ? door.inner.pause() : pause;
            if (pause > base::Millis(0))
                break;
            auto client = listener.accept(exhausted);
            if (!client)
                break;
            take(std::move(*client), kept);
        }
        // Without a descriptor the client stays in the backlog and would wake us again at once.
        if (exhausted) {
            base::LogLine(base::evt::task_failed).field("err", "out of file descriptors").warn();
            pause = k_exhausted_pause;
        }
        if (pause == base::Millis(0))
            continue;
        boost::system::error_code error;
        auto token = boost::asio::redirect_error(boost::asio::use_awaitable_t<base::Executor>{}, error);
        door.pause.expires_after(pause);
        co_await door.pause.async_wait(token);
    }
}

void Server::take(Accepted client, const DoorPtr& at) {
    Door& door = *at;
    auto lease = door.services->any().connect(client.peer);
    if (lease.has_error())
        return refuse(client, door, lease.error());
    std::shared_ptr<const void> held;
    if (door.inner.enter) {
        auto entered = door.inner.enter();
        if (entered.has_error())
            return refuse(client, door, entered.error());
        held = std::move(*entered);
    }
    const std::size_t wanted = door.is_inner ? 2 : 1;
    if (sessions_.size() + inner_sessions_ + wanted > state_.settings.max_connections)
        return refuse(client, door, Error(Errc::capacity, "The server has no connections left."));
    const ListenerScope reach = door.listener.reach();
    auto connection = std::make_shared<Connection>(
        std::make_unique<SocketStream>(std::move(client.socket), std::move(held)), state_.clock,
        state_.timers, state_.settings, is_plain(door) ? nullptr : state_.tls);
    auto session = std::make_shared<Session>(state_, *door.services, std::move(connection), client.peer,
                                             reach, std::move(*lease), door.listener.port());
    sessions_.insert(session.get());
    if (door.is_inner)
        ++inner_sessions_;
    tasks_.spawn(async_serve(std::move(session), at));
}

// Says why and closes, without a session. The answer fits any socket's buffer. What has arrived is read,
// since closing a socket with input resets the connection, and the client might never see the answer; what
// comes later still may.
void Server::refuse(Accepted& client, Door& door, const Error& error) {
    // A handshake only to say no would cost more than the refusal is worth.
    const bool answers = is_plain(door);
    if (!answers || error.code() == Errc::capacity)
        limit_log_.log(error, client.peer);
    if (!answers)
        return;
    Request none;
    const bool aborted = false;
    RequestContext context(none, nullptr, aborted);
    context.request_id = state_.new_request_id();
    context.client.address = client.peer;
    Service& service = door.services->any();
    const Response response = service.refuse(context, error);
    state_.count_response(response.status);
    service.count_response(response.status);
    const std::string& id = context.request_id;
    std::string out;
    write_response(out, response, id, state_.date(), KeepAlive::no, Framing::length);
    boost::system::error_code ignored;
    client.socket.write_some(boost::asio::buffer(out), ignored);
    client.socket.shutdown(Socket::shutdown_send, ignored);
    std::array<char, k_dropped_bytes> dropped;
    client.socket.read_some(boost::asio::buffer(dropped), ignored);
}

base::Task<> Server::async_serve(std::shared_ptr<Session> session, DoorPtr kept) {
    const DoorPtr door = std::move(kept);  // its services outlive the session
    const std::shared_ptr<Session> served = std::move(session);
    // Erased also when the session throws; nothing else knows it then.
    struct Leave {
        Server& server;
        const Door& door;
        Session* session;
        ~Leave() {
            server.sessions_.erase(session);
            if (door.is_inner)
                --server.inner_sessions_;
        }
    };
    const Leave leave{*this, *door, served.get()};
    co_await served->async_run();
}

void Server::stop(base::Millis grace, std::function<void()> done) {
    state_.stopping = true;
    for (const DoorPtr& door : doors_)
        door->close();
    for (const auto& [port, doors] : loopback_) {
        for (const DoorPtr& door : doors)
            door->close();
    }
    for (const auto& [services, door] : inner_)
        door->close();
    for (Session* session : sessions_)
        session->stop();
    grace_timer_.expires_after(grace);
    grace_timer_.async_wait([this](const boost::system::error_code& error) {
        if (error)
            return;
        for (Session* session : sessions_)
            session->abort();
    });
    tasks_.on_empty([this, done = std::move(done)] {
        grace_timer_.cancel();
        done();
    });
}

}  // namespace atl::http
