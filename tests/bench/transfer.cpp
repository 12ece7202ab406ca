// Files in and out of a sandbox, beside nginx (WebDAV PUT; GET with sendfile off) and beside a plain relay:
// one process that copies bytes from TCP to a Unix socket, another that has the file.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "tests/bench/bodies.hpp"
#include "tests/bench/child.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/nginx.hpp"
#include "tests/bench/server.hpp"
#include "tests/bench/sockets.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_rounds = 3;
constexpr double k_bytes_a_mb = 1e6;
constexpr int k_wait_seconds = 60;
constexpr double k_least_of_nginx = 0.5;
constexpr double k_least_of_relay = 0.8;

std::size_t file_bytes() {
    return sized(1024UL * 1024 * 1024);
}

/// A server that takes and gives the file at `target` over HTTP.
struct Peer {
    std::uint16_t port;
    std::string target;
    std::string key;

    std::string head(std::string_view method, std::string_view more = "") const {
        return std::string(method) + ' ' + target + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
               "\r\nX-API-Key: " + key + "\r\nConnection: close\r\n" + std::string(more) + "\r\n";
    }
    void upload() const {
        const base::UniqueFd fd = connect_to(port, k_wait_seconds);
        const std::string text = head("PUT", "Content-Length: " + std::to_string(file_bytes()) + "\r\n");
        send_all(fd.get(), text.data(), text.size());
        send_bytes(fd.get(), file_bytes());
        receive_head(fd.get(), "20");
    }
    void download() const {
        const base::UniqueFd fd = connect_to(port, k_wait_seconds);
        const std::string text = head("GET");
        send_all(fd.get(), text.data(), text.size());
        receive_head(fd.get(), "20");
        receive_bytes(fd.get(), file_bytes());
    }
};

std::string file_server(const std::string& folder, const std::string& listen) {
    std::filesystem::create_directories(folder + "/files");
    return "client_max_body_size 0; sendfile off; server { listen " + listen + "; root " + folder +
           "/files; dav_methods PUT; }";
}

enum class Way { up, down };

void copy_all(int from, int to) {
    std::vector<char> piece(k_body_piece_bytes);
    for (ssize_t got = 0; (got = ::read(from, piece.data(), piece.size())) > 0;)
        for (ssize_t done = 0; done < got;)
            done +=
                std::max<ssize_t>(0, ::write(to, piece.data() + done, static_cast<std::size_t>(got - done)));
}

/// Sends the file once through the relay.
void run_relay(Way way, const std::filesystem::path& file) {
    LoopbackListener listener;
    SocketPair pair;
    Child store([&] {
        const int flags = way == Way::up ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;
        const base::UniqueFd fd(::open(file.c_str(), flags | O_CLOEXEC, 0600));
        pair.ours.reset();
        way == Way::up ? copy_all(pair.theirs.get(), fd.get()) : copy_all(fd.get(), pair.theirs.get());
    });
    Child relay([&] {
        const base::UniqueFd client(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
        pair.theirs.reset();
        way == Way::up ? copy_all(client.get(), pair.ours.get()) : copy_all(pair.ours.get(), client.get());
    });
    pair.ours.reset();
    pair.theirs.reset();
    const base::UniqueFd fd = connect_to(listener.port, k_wait_seconds);
    if (way == Way::down)
        receive_bytes(fd.get(), file_bytes());
    else
        send_bytes(fd.get(), file_bytes());
    ::shutdown(fd.get(), SHUT_WR);
    relay.wait();
    store.wait();
}

double mb_s(const std::function<void()>& transfer) {
    const auto began = Clock::now();
    transfer();
    return static_cast<double>(file_bytes()) / k_bytes_a_mb / ms_since(began) * 1000;
}

/// A sandbox with room for the file.
std::string make_sandbox(const Server& server) {
    Connection connection(server.port());
    const auto made = connection.exchange(
        server.request("POST", "/v1/sandboxes", R"({"limits":{"diskMb":4096,"memoryMb":2048}})"));
    return Server::created_id(made.status, made.body);
}

struct Sampled {
    Samples product;
    Samples nginx;
    Samples relay;
};

Result result_of(const char* key, const Sampled& sampled) {
    Result result{.key = key, .unit = "MB/s", .better = Better::higher};
    result.target = ">= 0.5 x nginx, >= 0.8 x relay";
    result.value = sampled.product.p50();
    result.floor = sampled.nginx.p50();
    result.ratio = *result.value / *result.floor;
    result.more["relay_mb_s"] = sampled.relay.p50();
    result.more["ratio_to_relay"] = *result.value / sampled.relay.p50();
    result.reached = *result.ratio >= k_least_of_nginx && result.more["ratio_to_relay"] >= k_least_of_relay;
    return result;
}

}  // namespace

std::vector<Result> measure_transfer() {
    const Server server;
    const Peer product{server.port(), "/v1/sandboxes/" + make_sandbox(server) + "/files/big", server.key()};
    const Nginx server_of_files(file_server);
    const Peer nginx{server_of_files.port(), "/big", ""};
    const TempDir relay_dir;
    const auto file = relay_dir.path() / "big";
    Sampled up;
    Sampled down;
    for (std::size_t round = 0; round < sized(k_rounds); ++round) {
        up.product.add(mb_s([&] { product.upload(); }));
        up.nginx.add(mb_s([&] { nginx.upload(); }));
        up.relay.add(mb_s([&] { run_relay(Way::up, file); }));
        down.product.add(mb_s([&] { product.download(); }));
        down.nginx.add(mb_s([&] { nginx.download(); }));
        down.relay.add(mb_s([&] { run_relay(Way::down, file); }));
    }
    return {result_of("upload_mb_s", up), result_of("download_mb_s", down)};
}

}  // namespace atl::bench
