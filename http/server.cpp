#include "http/server.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "http/problem.hpp"
#include "http/session.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr int k_accepts_a_turn = 64;
constexpr base::Millis k_exhausted_pause{100};

}  // namespace

Server::Server(base::Executor executor, Settings settings, Router router, const Authenticator& authenticator)
    : executor_(executor),
      state_(executor, std::move(settings), std::move(router), authenticator),
      tasks_(executor, "http"),
      grace_timer_(executor),
      pause_timer_(executor) {}

Server::~Server() = default;

base::Result<std::string> Server::listen(const std::string& spec) {
    auto listener = Listener::open(executor_, spec, state_.settings.unix_socket_group);
    if (listener.has_error())
        return listener.error();
    listeners_.push_back(std::make_unique<Listener>(std::move(*listener)));
    return listeners_.back()->address();
}

void Server::start() {
    for (auto& listener : listeners_) {
        base::LogLine(base::evt::server_listening).field("addr", listener->address()).info();
        tasks_.spawn(async_accept(*listener));
    }
}

base::Task<> Server::async_accept(Listener& listener) {
    while (!state_.stopping) {
        const bool open = co_await listener.async_wait();
        if (!open || state_.stopping)
            break;
        bool exhausted = false;
        for (int i = 0; i < k_accepts_a_turn; ++i) {
            auto socket = listener.accept(exhausted);
            if (!socket)
                break;
            take(std::move(*socket), listener.reach());
        }
        if (!exhausted)
            continue;
        // Without a descriptor the client stays in the backlog and would wake us again at once.
        base::LogLine(base::evt::task_failed).field("err", "out of file descriptors").warn();
        boost::system::error_code error;
        auto token = boost::asio::redirect_error(boost::asio::use_awaitable_t<base::Executor>{}, error);
        pause_timer_.expires_after(k_exhausted_pause);
        co_await pause_timer_.async_wait(token);
    }
}

void Server::take(Socket socket, Reach reach) {
    if (sessions_.size() >= state_.settings.max_connections) {
        const std::string id = state_.new_request_id();
        const Response response = problem(Error(Errc::capacity, "The server has no connections left."), id);
        std::string out;
        write_response(out, response, id, state_.date(), KeepAlive::no, Framing::length);
        boost::system::error_code ignored;
        socket.write_some(boost::asio::buffer(out), ignored);
        socket.shutdown(Socket::shutdown_send, ignored);
        return;
    }
    auto session = std::make_shared<Session>(state_, std::move(socket), reach);
    sessions_.insert(session.get());
    tasks_.spawn(async_serve(std::move(session)));
}

base::Task<> Server::async_serve(std::shared_ptr<Session> session) {
    // Erased also when the session throws; nothing else knows it then.
    struct Leave {
        std::unordered_set<Session*>& sessions;
        Session* session;
        ~Leave() { sessions.erase(session); }
    };
    const Leave leave{sessions_, session.get()};
    co_await session->async_run();
}

void Server::stop(base::Millis grace, std::function<void()> done) {
    state_.stopping = true;
    for (auto& listener : listeners_)
        listener->close();
    pause_timer_.cancel();
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
        state_.wheel.stop();
        done();
    });
}

}  // namespace atl::http
