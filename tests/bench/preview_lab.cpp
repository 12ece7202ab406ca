#include "tests/bench/preview_lab.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "tests/bench/in_net_of.hpp"
#include "tests/bench/memory.hpp"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint16_t k_inner_port = 5173;
constexpr const char* k_program = "atoll-bench-upstream";
// The name of the program inside; proc(5) cuts at 15 bytes.
constexpr std::string_view k_inner_name = "bench-upstream";
constexpr double k_start_ms = 20'000;
constexpr const char* k_sandbox =
    R"({"limits":{"cpuPercent":200,"maxSockets":8192,"maxOpenFiles":16384,"memoryMb":1024}})";

// The fastest way in which nginx does this: connections upstream are kept, bodies go on while they arrive
// and touch no disk. The fields that the product sets are set.
constexpr std::string_view k_proxy = R"(
    keepalive_requests 100000000;
    client_max_body_size 0;
    map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
    upstream preview { server 127.0.0.1:5173; keepalive 64; keepalive_requests 100000000; }
    server {
        listen LISTEN;
        location / {
            proxy_pass http://preview;
            proxy_http_version 1.1;
            proxy_set_header Host localhost:5173;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header X-Forwarded-Host $http_host;
            proxy_request_buffering off;
            proxy_max_temp_file_size 0;
            proxy_buffer_size 64k;
            proxy_buffers 8 64k;
            proxy_busy_buffers_size 128k;
            client_body_buffer_size 64k;
            proxy_read_timeout 1h;
        }
    })";

std::string file_text(const fs::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// The processes in sandboxes of `server` that answer.
std::set<pid_t> upstreams_of(const Server& server) {
    std::set<pid_t> found;
    for (const pid_t pid : sandbox_processes(server.pid())) {
        if (file_text("/proc/" + std::to_string(pid) + "/comm").starts_with(k_inner_name))
            found.insert(pid);
    }
    return found;
}

std::string put_request(const Server& server, const std::string& target, const std::string& body) {
    return "PUT " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + server.key() +
           "\r\nContent-Type: application/octet-stream\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

void await_upstream(const Front& front) {
    const InNetOf inside(front.net_of);
    Connection visitor(front.port);
    const std::string request = preview_request(front, "GET", "/");
    for (const auto began = Clock::now(); ms_since(began) < k_start_ms;) {
        if (visitor.exchange(request).status == 200)
            return;
    }
    throw std::runtime_error("the server inside the sandbox does not answer through its preview");
}

}  // namespace

std::string preview_request(const Front& front, std::string_view method, std::string_view target,
                            std::string_view more) {
    std::string text(method);
    text.append(" ").append(target).append(" HTTP/1.1\r\nHost: ").append(front.host).append("\r\n");
    text.append(
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, "
        "br\r\n");
    return text.append(more).append("\r\n");
}

PreviewLab::PreviewLab(std::size_t sandboxes)
    : server_({"--preview-domain", "localhost", "--max-sockets-per-sandbox", "16384", "--preview-connections",
               "4096"}) {
    for (std::size_t i = 0; i < sandboxes; ++i)
        add_sandbox();
    pin(server_.pid(), Cpu::first);
    confined_.emplace(Cpu::last);
}

void PreviewLab::add_sandbox() {
    Connection connection(server_.port());
    const Response made = connection.exchange(server_.request("POST", "/v1/sandboxes", k_sandbox));
    const std::string id = Server::created_id(made.status, made.body);
    const std::string sandbox = "/v1/sandboxes/" + id;
    const std::string program = file_text(bin_dir() / k_program);
    const std::string name(k_inner_name);
    const Response put =
        connection.exchange(put_request(server_, sandbox + "/files/" + name + "?mode=0755", program));
    if (put.status >= 300)
        throw std::runtime_error("the upstream's program was not taken: " + put.body);
    const std::set<pid_t> before = upstreams_of(server_);
    const nlohmann::json process{{"argv", {"/workspace/" + name}}};
    const Response started =
        connection.exchange(server_.request("POST", sandbox + "/processes", process.dump()));
    if (started.status != 201)
        throw std::runtime_error("the upstream did not start: " + started.body);
    hosts_.push_back("preview-" + id + ".localhost");
    await_upstream(product(hosts_.size() - 1));
    for (const pid_t pid : upstreams_of(server_)) {
        if (before.contains(pid))
            continue;
        pin(pid, Cpu::last);
        upstream_ = upstream_ == 0 ? pid : upstream_;
    }
    if (upstream_ == 0)
        throw std::runtime_error("there is no process of the upstream");
}

Front PreviewLab::nginx() {
    if (!nginx_) {
        const auto settings = [](const std::string&, const std::string& listen) {
            std::string text(k_proxy);
            return text.replace(text.find("LISTEN"), 6, listen);
        };
        nginx_.emplace(settings, upstream_);
        pin(nginx_->pid(), Cpu::first);
    }
    return {nginx_->port(), hosts_.front(), upstream_};
}

Front PreviewLab::upstream() const {
    return {k_inner_port, "localhost", upstream_};
}

void PreviewLab::use_one_cpu() {
    pin(server_.pid(), Cpu::last);
    if (nginx_)
        pin(nginx_->pid(), Cpu::last);
}

double run_wrk(const Front& front, std::size_t connections, std::size_t seconds) {
    const TempDir dir;
    const std::string told = dir.path() / "wrk";
    Child wrk([&] {
        const InNetOf inside(front.net_of);
        const int out = ::open(told.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        ::dup2(out, STDOUT_FILENO);
        const std::string url = "http://127.0.0.1:" + std::to_string(front.port) + "/";
        const std::string host = "Host: " + front.host;
        ::execlp("wrk", "wrk", "-t", "1", "-c", std::to_string(connections).c_str(), "-d",
                 std::to_string(seconds).c_str(), "-H", host.c_str(), url.c_str(), nullptr);
        throw std::system_error(errno, std::generic_category(), "wrk: scripts/setup --bench installs it");
    });
    wrk.wait();
    const std::string text = file_text(told);
    constexpr std::string_view k_rate = "Requests/sec:";
    const std::size_t rate = text.find(k_rate);
    if (rate == std::string::npos || text.find("Non-2xx") != std::string::npos ||
        text.find("Socket errors") != std::string::npos)
        throw std::runtime_error("requests of wrk failed:\n" + text);
    return std::stod(text.substr(rate + k_rate.size()));
}

}  // namespace atl::bench
