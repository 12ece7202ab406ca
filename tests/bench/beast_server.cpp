#include "tests/bench/beast_server.hpp"

#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>
#include <unordered_set>

#include "tests/bench/sockets.hpp"

namespace atl::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using beast::error_code;
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using Payload = std::shared_ptr<const std::string>;

constexpr std::string_view k_answer = "{\"ev\":\"message\"}\n{\"ev\":\"done\"}\n";

/// The process at the other end of the Unix socket: answers each line with two.
void run_peer(int socket) {
    std::array<char, 4096> buffer;
    while (::recv(socket, buffer.data(), buffer.size(), 0) > 0)
        ::send(socket, k_answer.data(), k_answer.size(), MSG_NOSIGNAL);
}

class Session;

class Room {
  public:
    Room(asio::io_context& loop, int peer, const std::vector<std::string>& payloads)
        : peer_(loop, asio::local::stream_protocol(), peer) {
        for (const std::string& payload : payloads)
            payloads_.push_back(std::make_shared<const std::string>(payload));
        await_answer();
    }
    void join(Session& session) { sessions_.insert(&session); }
    void leave(Session& session) { sessions_.erase(&session); }
    /// Passes a message on. There is one at a time: the clients wait for their answers.
    void ask(beast::flat_buffer& message) {
        line_.assign(static_cast<const char*>(message.data().data()), message.size());
        line_ += '\n';
        message.clear();
        asio::async_write(peer_, asio::buffer(line_), [](const error_code&, std::size_t) {});
    }

  private:
    void await_answer();

    asio::basic_stream_socket<asio::local::stream_protocol, Executor> peer_;
    std::vector<Payload> payloads_;
    std::unordered_set<Session*> sessions_;
    std::string line_;
    std::array<char, 4096> answer_;
    std::size_t answered_ = 0;
};

class Session : public std::enable_shared_from_this<Session> {
  public:
    Session(Socket socket, Room& room) : stream_(std::move(socket)), room_(room) {
        stream_.next_layer().set_option(tcp::no_delay(true));
        stream_.text(true);
    }
    ~Session() { room_.leave(*this); }

    void run() {
        stream_.async_accept([self = shared_from_this()](const error_code& error) {
            if (error)
                return;
            self->room_.join(*self);
            self->read();
        });
    }
    void send(const std::vector<Payload>& payloads) {
        const bool idle = waiting_.empty();
        waiting_.insert(waiting_.end(), payloads.begin(), payloads.end());
        if (idle)
            write();
    }

  private:
    void read() {
        stream_.async_read(input_, [self = shared_from_this()](const error_code& error, std::size_t) {
            if (error)
                return;
            self->room_.ask(self->input_);
            self->read();
        });
    }
    void write() {
        stream_.async_write(asio::buffer(*waiting_.front()),
                            [self = shared_from_this()](const error_code& error, std::size_t) {
                                if (error)
                                    return;
                                self->waiting_.pop_front();
                                if (!self->waiting_.empty())
                                    self->write();
                            });
    }

    beast::websocket::stream<Socket> stream_;
    Room& room_;
    beast::flat_buffer input_;
    std::deque<Payload> waiting_;  // the first is under way
};

void Room::await_answer() {
    peer_.async_read_some(asio::buffer(answer_), [this](const error_code& error, std::size_t count) {
        if (error)
            return;
        answered_ += count;
        if (answered_ >= k_answer.size()) {
            answered_ = 0;
            for (Session* session : sessions_)
                session->send(payloads_);
        }
        await_answer();
    });
}

class Acceptor {
  public:
    Acceptor(asio::io_context& loop, int listener, Room& room)
        : acceptor_(loop, tcp::v4(), listener), room_(room) {
        accept();
    }

  private:
    void accept() {
        acceptor_.async_accept([this](const error_code& error, Socket socket) {
            if (!error)
                std::make_shared<Session>(std::move(socket), room_)->run();
            accept();
        });
    }

    asio::basic_socket_acceptor<tcp, Executor> acceptor_;
    Room& room_;
};

}  // namespace

BeastServer::BeastServer(std::vector<std::string> payloads) {
    LoopbackListener listener;
    SocketPair pair;
    port_ = listener.port;
    peer_ = std::make_unique<Child>([&] {
        pair.ours.reset();
        run_peer(pair.theirs.get());
    });
    server_ = std::make_unique<Child>([&] {
        pair.theirs.reset();
        asio::io_context loop(1);
        Room room(loop, pair.ours.release(), payloads);
        const Acceptor acceptor(loop, listener.fd.release(), room);
        loop.run();
    });
}

}  // namespace atl::bench
