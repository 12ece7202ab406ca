#include "tests/bench/egress_lab.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "tests/bench/bodies.hpp"
#include "tests/bench/memory.hpp"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint16_t k_proxy_port = 3128;
constexpr std::uint16_t k_routes_port = 3129;
constexpr int k_wait_seconds = 30;
constexpr double k_start_ms = 10'000;
constexpr const char* k_tinyproxy = "/usr/bin/tinyproxy";

void answer_all(int listener, const Upstream::Answer& answer) {
    for (;;) {
        const base::UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        if (!fd)
            throw std::system_error(errno, std::generic_category(), "accept");
        try {
            answer(fd.get());
        } catch (const std::exception&) {
            // The client has what it wanted, or tells what it misses.
        }
    }
}

/// A process in whose net namespace the proxy of `server` listens.
pid_t process_inside(const Server& server) {
    const fs::path ours = fs::read_symlink("/proc/self/ns/net");
    for (const pid_t pid : sandbox_processes(server.pid())) {
        try {
            if (fs::read_symlink("/proc/" + std::to_string(pid) + "/ns/net") == ours)
                continue;
            const InNetOf inside(pid);
            connect_to(k_proxy_port, k_wait_seconds);
            return pid;
        } catch (const std::exception&) {
            // Another sandbox, or it has ended.
        }
    }
    throw std::runtime_error("no proxy listens in a sandbox, or this is not root");
}

// It does as a route: each request has a connection of its own upstream, and each byte goes on at once.
std::string proxy_pass(std::uint16_t upstream, const std::string& listen) {
    return "server { listen " + listen +
           "; location / { return 204; } location /bench/ { proxy_pass http://127.0.0.1:" +
           std::to_string(upstream) +
           "/; proxy_http_version 1.1; proxy_buffering off; proxy_set_header X-Api-Key bench; } }";
}

}  // namespace

Upstream::Upstream(Answer answer) : child_([&] { answer_all(listener_.fd.get(), answer); }) {}

void receive_request(int fd) {
    std::string head;
    for (char piece[4096]; head.find("\r\n\r\n") == std::string::npos;) {
        const ssize_t got = ::recv(fd, piece, sizeof piece, 0);
        if (got <= 0)
            throw std::runtime_error("no request");
        head.append(piece, static_cast<std::size_t>(got));
    }
}

base::UniqueFd open_tunnel(const Way& way, std::uint16_t upstream) {
    base::UniqueFd fd = connect_to(way.port, k_wait_seconds);
    // The rule is for a name. The floor is not made to look one up.
    const std::string host = (way.net_of ? "localhost:" : "127.0.0.1:") + std::to_string(upstream);
    const std::string head = "CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    send_all(fd.get(), head.data(), head.size());
    // HTTP/1.1 of the product, HTTP/1.0 of tinyproxy.
    std::string answer;
    for (char byte = 0; !answer.ends_with("\r\n\r\n"); answer.push_back(byte)) {
        if (::recv(fd.get(), &byte, 1, 0) != 1)
            throw std::runtime_error("no answer to CONNECT");
    }
    if (answer.find(" 200 ") == std::string::npos)
        throw std::runtime_error("CONNECT: " + answer.substr(0, answer.find('\r')));
    return fd;
}

Tinyproxy::Tinyproxy() {
    port_ = LoopbackListener().port;  // free a moment ago
    const fs::path conf = dir_.path() / "conf";
    std::ofstream(conf) << "Port " << port_ << "\nListen 127.0.0.1\nTimeout 600\nMaxClients 100\n"
                        << "DisableViaHeader Yes\nLogLevel Error\nLogFile \""
                        << (dir_.path() / "log").string() << "\"\n";
    child_.emplace([&] {
        ::execl(k_tinyproxy, k_tinyproxy, "-d", "-c", conf.c_str(), nullptr);
        throw std::system_error(errno, std::generic_category(),
                                "tinyproxy: scripts/setup --bench installs it");
    });
    for (const auto began = Clock::now(); ms_since(began) < k_start_ms; ::poll(nullptr, 0, 1)) {
        try {
            connect_to(port_, k_wait_seconds);
            return;
        } catch (const std::exception&) {
            if (child_->has_ended())
                throw std::runtime_error("tinyproxy did not start");
        }
    }
    throw std::runtime_error("tinyproxy does not listen");
}

std::vector<std::string> egress_flags(std::uint16_t upstream) {
    return {"--egress-private", "127.0.0.1/32:" + std::to_string(upstream)};
}

std::string create_egress_sandbox(const Server& server, const std::string& rule, std::uint16_t route) {
    nlohmann::json network{{"mode", "egress"}, {"allow", nlohmann::json::array({rule})}};
    if (route != 0) {
        const nlohmann::json bench{{"name", "bench"},
                                   {"upstream", "http://127.0.0.1:" + std::to_string(route)},
                                   {"headers", {{"x-api-key", "bench"}}}};
        network["routes"] = nlohmann::json::array({bench});
    }
    const nlohmann::json body{{"network", network}, {"limits", {{"cpuPercent", 200}}}};
    Connection connection(server.port());
    const Response made = connection.exchange(server.request("POST", "/v1/sandboxes", body.dump()));
    return Server::created_id(made.status, made.body);
}

EgressLab::EgressLab(const Upstream::Answer& answer, const std::string& rule_suffix)
    : upstream_(answer), upstream_of_nginx_(answer), server_(egress_flags(upstream_.port())) {
    create_egress_sandbox(server_, "localhost:" + std::to_string(upstream_.port()) + rule_suffix,
                          upstream_.port());
    inside_ = process_inside(server_);
    pin(server_.pid(), Cpu::first);
}

Way EgressLab::product() const {
    return {k_proxy_port, inside_};
}

Way EgressLab::routes() const {
    return {k_routes_port, inside_};
}

Way EgressLab::tinyproxy() {
    if (!tinyproxy_) {
        tinyproxy_.emplace();
        pin(tinyproxy_->pid(), Cpu::first);
    }
    return tinyproxy_->way();
}

Way EgressLab::nginx() {
    if (!nginx_) {
        nginx_.emplace([&](const std::string&, const std::string& listen) {
            return proxy_pass(upstream_of_nginx_.port(), listen);
        });
        pin(nginx_->pid(), Cpu::first);
    }
    return {nginx_->port(), {}};
}

}  // namespace atl::bench
