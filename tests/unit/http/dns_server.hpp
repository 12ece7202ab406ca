// A DNS server on loopback, in the loop of the test, which scripts its answers, right or wrong. UDP and TCP
// on one port, which several servers may share at different addresses of 127.0.0.0/8.
#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/task.hpp"

namespace atl::test {

struct DnsQuestion {
    enum class Transport : std::uint8_t { udp, tcp };

    std::uint16_t id = 0;
    std::string name;  // with the dots between its labels only
    std::uint16_t type = 0;
    Transport transport = Transport::udp;
    std::string section;  // as it came
};

inline constexpr std::uint16_t k_dns_a = 1;
inline constexpr std::uint16_t k_dns_alias = 5;
inline constexpr std::uint16_t k_dns_aaaa = 28;

/// In the order of the network.
inline std::string dns_number(std::uint32_t number, int bytes) {
    std::string out;
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        out.push_back(static_cast<char>(number >> static_cast<unsigned>(shift) & 0xffU));
    return out;
}

inline std::string dns_name_bytes(std::string_view name) {
    std::string out;
    while (!name.empty()) {
        const auto label = name.substr(0, name.find('.'));
        out.push_back(static_cast<char>(label.size()));
        out.append(label);
        name.remove_prefix(std::min(name.size(), label.size() + 1));
    }
    return out + '\0';
}

struct DnsRecord {
    std::uint16_t type = 0;
    std::string data;
    std::uint32_t ttl = 60;
    std::string owner;  // empty: the name of the question
};

inline DnsRecord dns_address(const std::string& text, std::uint32_t ttl = 60) {
    const auto address = boost::asio::ip::make_address(text);
    const auto record = [&](std::uint16_t type, const auto& bytes) {
        return DnsRecord{type, std::string(bytes.begin(), bytes.end()), ttl, ""};
    };
    return address.is_v4() ? record(k_dns_a, address.to_v4().to_bytes())
                           : record(k_dns_aaaa, address.to_v6().to_bytes());
}

enum class DnsCode : std::uint16_t { ok = 0, server_failure = 2, no_such_name = 3, refused = 5 };
inline constexpr std::uint16_t k_dns_truncated = 0x0200;

/// A response with those of `records` that the question asks for, and aliases.
inline std::string dns_reply(const DnsQuestion& question, const std::vector<DnsRecord>& records,
                             DnsCode code = DnsCode::ok, std::uint16_t flags = 0) {
    std::string answers;
    std::uint32_t count = 0;
    for (const auto& record : records) {
        if (record.type != question.type && record.type != k_dns_alias)
            continue;
        ++count;
        answers += record.owner.empty() ? dns_number(0xc00c, 2) : dns_name_bytes(record.owner);
        answers += dns_number(record.type, 2) + dns_number(1, 2) + dns_number(record.ttl, 4) +
                   dns_number(static_cast<std::uint32_t>(record.data.size()), 2) + record.data;
    }
    return dns_number(question.id, 2) + dns_number(0x8180U | flags | static_cast<std::uint16_t>(code), 2) +
           dns_number(1, 2) + dns_number(count, 2) + dns_number(0, 4) + question.section + answers;
}

class DnsServer {
  public:
    using Replies = std::vector<std::string>;
    using Script = std::function<Replies(const DnsQuestion&)>;

    /// Port 0: one that is free for both transports. Throws boost::system::system_error.
    explicit DnsServer(boost::asio::io_context& loop, const std::string& address = "127.0.0.1",
                       std::uint16_t port = 0)
        : udp_(loop), acceptor_(loop) {
        open(boost::asio::ip::make_address(address), port);
        receive();
        accept();
    }
    DnsServer(const DnsServer&) = delete;
    DnsServer& operator=(const DnsServer&) = delete;

    std::uint16_t port() const { return udp_.local_endpoint().port(); }
    std::size_t asked(const std::string& name) const {
        return static_cast<std::size_t>(std::count_if(
            questions.begin(), questions.end(), [&](const auto& question) { return question.name == name; }));
    }

    Script answer = [](const DnsQuestion&) { return Replies{}; };
    std::vector<DnsQuestion> questions;

  private:
    using Tcp = boost::asio::ip::tcp;
    using Udp = boost::asio::ip::udp;
    struct Client {
        explicit Client(Tcp::socket socket_) : socket(std::move(socket_)) {}
        Tcp::socket socket;
        std::array<unsigned char, 2> length{};
        std::string message;
        std::string out;
    };

    void open(const boost::asio::ip::address& address, std::uint16_t port) {
        for (int attempts_left = 20;; --attempts_left) {
            udp_.open(Udp::v4());
            udp_.bind({address, port});
            acceptor_.open(Tcp::v4());
            acceptor_.set_option(Tcp::acceptor::reuse_address(true));
            boost::system::error_code taken;
            acceptor_.bind({address, udp_.local_endpoint().port()}, taken);
            if (!taken)
                break;
            udp_.close();
            acceptor_.close();
            if (port != 0 || attempts_left == 0)
                throw boost::system::system_error(taken);
        }
        acceptor_.listen();
    }
    void receive() {
        udp_.async_receive_from(boost::asio::buffer(datagram_), from_,
                                [this](const boost::system::error_code& error, std::size_t size) {
                                    if (error)
                                        return;
                                    const auto replies = replies_to(std::string_view(datagram_.data(), size),
                                                                    DnsQuestion::Transport::udp);
                                    boost::system::error_code ignored;
                                    for (const auto& reply : replies)
                                        udp_.send_to(boost::asio::buffer(reply), from_, 0, ignored);
                                    receive();
                                });
    }
    void accept() {
        acceptor_.async_accept([this](const boost::system::error_code& error, Tcp::socket socket) {
            if (error)
                return;
            read(std::make_shared<Client>(std::move(socket)));
            accept();
        });
    }
    void read(const std::shared_ptr<Client>& client) {
        boost::asio::async_read(client->socket, boost::asio::buffer(client->length),
                                [this, client](const boost::system::error_code& error, std::size_t) {
                                    if (error)
                                        return;
                                    client->message.resize(client->length[0] * 256U + client->length[1]);
                                    boost::asio::async_read(
                                        client->socket, boost::asio::buffer(client->message),
                                        [this, client](const boost::system::error_code& cut, std::size_t) {
                                            if (!cut)
                                                reply(client);
                                        });
                                });
    }
    void reply(const std::shared_ptr<Client>& client) {
        client->out.clear();
        for (const auto& message : replies_to(client->message, DnsQuestion::Transport::tcp))
            client->out += dns_number(static_cast<std::uint32_t>(message.size()), 2) + message;
        boost::asio::async_write(client->socket, boost::asio::buffer(client->out),
                                 [this, client](const boost::system::error_code& error, std::size_t) {
                                     if (!error)
                                         read(client);
                                 });
    }
    Replies replies_to(std::string_view message, DnsQuestion::Transport transport) {
        constexpr std::size_t k_header_bytes = 12;
        const auto number = [&](std::size_t at) {
            return static_cast<std::uint16_t>(static_cast<unsigned char>(message[at]) << 8U |
                                              static_cast<unsigned char>(message[at + 1]));
        };
        DnsQuestion question;
        question.id = number(0);
        question.transport = transport;
        std::size_t at = k_header_bytes;
        while (const auto length = static_cast<unsigned char>(message.at(at))) {
            question.name += (question.name.empty() ? "" : ".") + std::string(message.substr(at + 1, length));
            at += 1U + length;
        }
        question.type = number(at + 1);
        question.section = message.substr(k_header_bytes, at + 5 - k_header_bytes);
        questions.push_back(question);
        return answer(question);
    }

    Udp::socket udp_;
    Tcp::acceptor acceptor_;
    std::array<char, 4096> datagram_{};
    Udp::endpoint from_;
};

}  // namespace atl::test
