// The first thing that a user waits for: a conversation is made, a program in its sandbox begins to serve,
// and the page is there. Floor: the same program, started by this one without a sandbox, until the same page.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/bench/bodies.hpp"
#include "tests/bench/child.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/preview_lab.hpp"
#include "tests/bench/sockets.hpp"

namespace atl::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_rounds = 40;
constexpr double k_budget_ms = 25'000;
constexpr double k_page_within_ms = 20'000;
constexpr int k_ask_every_ms = 1;
constexpr int k_wait_seconds = 20;
constexpr std::size_t k_pool = 2;
constexpr std::uint16_t k_inner_port = 5173;

// A whole page for each connection, at the port that is its argument. Only modules of perl-base.
constexpr const char* k_perl = R"(use Socket;
socket(my $all, PF_INET, SOCK_STREAM, 0) or die;
setsockopt($all, SOL_SOCKET, SO_REUSEADDR, 1);
bind($all, sockaddr_in($ARGV[0], INADDR_LOOPBACK)) && listen($all, 64) or die;
while (accept(my $one, $all)) {
    while (<$one>) { last if /^\r?$/ }
    my $page = '<!DOCTYPE html><html><title>here</title><h1>here</h1></html>';
    print $one "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ", length $page,
        "\r\nConnection: close\r\n\r\n", $page;
})";

/// The program that serves, at `port` of the loopback.
using Program = std::vector<std::string> (*)(std::uint16_t port);

std::vector<std::string> perl(std::uint16_t port) {
    return {"/usr/bin/perl", "-e", k_perl, std::to_string(port)};
}

std::vector<std::string> python(std::uint16_t port) {
    return {"/usr/bin/python3", "-m", "http.server", std::to_string(port), "--bind", "127.0.0.1"};
}

/// All of an answer, or nothing where nobody listens or it is no page.
std::string page_at(const Front& front) {
    std::string answer;
    try {
        const base::UniqueFd fd = connect_to(front.port, k_wait_seconds);
        const std::string request = preview_request(front, "GET", "/", "Connection: close\r\n");
        send_all(fd.get(), request.data(), request.size());
        char piece[4096];
        for (ssize_t got = 0; (got = ::recv(fd.get(), piece, sizeof piece, 0)) > 0;)
            answer.append(piece, static_cast<std::size_t>(got));
    } catch (const std::exception&) {
        return {};
    }
    const bool whole = answer.starts_with("HTTP/1.") && answer.find(" 200 ") < answer.find('\r') &&
                       answer.find("</html>") != std::string::npos;
    return whole ? answer : std::string();
}

void await_page(const Front& front) {
    for (const auto began = Clock::now(); page_at(front).empty(); ::poll(nullptr, 0, k_ask_every_ms)) {
        if (ms_since(began) > k_page_within_ms)
            throw std::runtime_error("no page");
    }
}

/// A server that shows pages of new conversations.
class Product {
  public:
    Product()
        : server_({"--preview-domain", "localhost", "--pool", "shell=" + std::to_string(k_pool)}),
          connection_(server_.port()) {}

    /// From the request for a conversation, whose sandbox comes from the pool, or for a sandbox, which does
    /// not.
    double page_ms(Program program, const std::string& kind) {
        server_.await_pool(connection_, k_pool);
        const bool pooled = kind == "conversations";
        const std::string create =
            server_.request("POST", "/v1/" + kind, pooled ? R"({"agent":"shell"})" : "{}");
        const auto began = Clock::now();
        const Response made = connection_.exchange(create);
        const std::string id = Server::created_id(made.status, made.body);
        const std::string sandbox =
            nlohmann::json::parse(made.body).at(pooled ? "sandboxId" : "id").get<std::string>();
        const nlohmann::json process{{"argv", program(k_inner_port)}};
        const Response started = connection_.exchange(
            server_.request("POST", "/v1/sandboxes/" + sandbox + "/processes", process.dump()));
        if (started.status != 201)
            throw std::runtime_error("the program did not start: " + started.body);
        await_page({server_.port(), "preview-" + sandbox + ".localhost", {}});
        const double ms = ms_since(began);
        if (connection_.exchange(server_.request("DELETE", "/v1/" + kind + "/" + id)).status != 204)
            throw std::runtime_error("the sandbox was not removed");
        return ms;
    }

  private:
    Server server_;
    Connection connection_;
};

double bare_page_ms(Program program) {
    const TempDir folder;
    const std::uint16_t port = LoopbackListener().port;  // free a moment ago
    const auto began = Clock::now();
    const Child child([&] {
        std::vector<std::string> words = program(port);
        std::vector<char*> argv;
        for (std::string& word : words)
            argv.push_back(word.data());
        argv.push_back(nullptr);
        // It tells each request there.
        ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
        fs::current_path(folder.path());
        ::execv(argv.front(), argv.data());
        throw std::system_error(errno, std::generic_category(), words.front());
    });
    await_page({port, "localhost", {}});
    return ms_since(began);
}

Result measure_page_of(std::string key, Program program, Scope scope) {
    Result result{.key = std::move(key), .unit = "ms"};
    Product product;
    Compared compared;
    Samples cold;
    const auto began = Clock::now();
    for (std::size_t round = 0; round < sized(k_rounds) && ms_since(began) < k_budget_ms; ++round) {
        compared.product.add(product.page_ms(program, "conversations"));
        if (!has_floor(scope))
            continue;
        compared.floor.add(bare_page_ms(program));
        cold.add(product.page_ms(program, "sandboxes"));
    }
    compare(result, compared);
    if (!cold.empty())
        result.more["cold_p50"] = cold.p50();
    result.more["iterations"] = static_cast<double>(compared.product.size());
    return result;
}

}  // namespace

std::vector<Result> measure_page(Scope scope) {
    return {measure_page_of("page_ms", perl, scope), measure_page_of("page_python_ms", python, scope)};
}

}  // namespace atl::bench
