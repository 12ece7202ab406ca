// The time that a conversation adds to a coding agent: from the prompt to the first piece of text, with an
// agent that runs already. Floor: the same agent in bwrap, spoken to over its pipes by this program.
#include <poll.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "tests/bench/bodies.hpp"
#include "tests/bench/child.hpp"
#include "tests/bench/event_server.hpp"
#include "tests/bench/measures.hpp"
#include "tests/bench/sockets.hpp"

namespace atl::bench {
namespace {

constexpr std::size_t k_warm_up = 50;
constexpr std::size_t k_rounds = 1'000;
constexpr double k_budget_ms = 25'000;
constexpr double k_max_overhead_ms = 20;
constexpr int k_line_within_ms = 20'000;

/// The agent by hand: bwrap with the host's files, ACP over a socket that is its input and its output.
class AgentByHand {
  public:
    AgentByHand()
        : child_([&] {
              ::dup2(pair_.theirs.get(), STDIN_FILENO);
              ::dup2(pair_.theirs.get(), STDOUT_FILENO);
              const std::string program = bin_dir() / "atoll-bench-agent";
              ::execlp("bwrap", "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev",
                       "/dev", "--die-with-parent", program.c_str(), "acp", nullptr);
              throw std::runtime_error("bwrap does not start");
          }) {
        pair_.theirs.reset();
        ask("initialize", {{"protocolVersion", 1}});
        await("\"protocolVersion\"");
        ask("session/new", {{"cwd", "/"}, {"mcpServers", nlohmann::json::array()}});
        await("\"sessionId\"");
    }

    /// Milliseconds to the first text; back after the turn.
    double prompt_ms() {
        const auto began = Clock::now();
        ask("session/prompt", {{"sessionId", "s"}, {"prompt", {{{"type", "text"}, {"text", "hello"}}}}});
        await("agent_message_chunk");
        const double ms = ms_since(began);
        await("stopReason");
        return ms;
    }

  private:
    void ask(const char* method, nlohmann::json params) {
        const std::string line =
            nlohmann::json{
                {"jsonrpc", "2.0"}, {"id", ++id_}, {"method", method}, {"params", std::move(params)}}
                .dump() +
            "\n";
        send_all(pair_.ours.get(), line.data(), line.size());
    }

    /// Takes whole lines, up to the first one with `what`.
    void await(std::string_view what) {
        for (;;) {
            for (std::size_t end = 0; (end = pending_.find('\n')) != std::string::npos;) {
                const std::string line = pending_.substr(0, end);
                pending_.erase(0, end + 1);
                if (line.find(what) != std::string::npos)
                    return;
            }
            pollfd ready{pair_.ours.get(), POLLIN, 0};
            char piece[4096];
            const ssize_t got =
                ::poll(&ready, 1, k_line_within_ms) == 1 ? ::read(pair_.ours.get(), piece, sizeof piece) : 0;
            if (got <= 0)
                throw std::runtime_error("the agent by hand says nothing");
            pending_.append(piece, static_cast<std::size_t>(got));
        }
    }

    SocketPair pair_;
    Child child_;
    std::string pending_;
    int id_ = 0;
};

/// The agent in a conversation, asked over a WebSocket.
class AgentInside {
  public:
    AgentInside() : socket_(server_.open_socket(server_.create_conversation("acp"))) {
        socket_.await([](std::string_view payload) { return is_of_type(payload, "sandbox_ready"); });
    }

    double prompt_ms() {
        double ms = 0;
        const auto began = Clock::now();
        socket_.send_text(R"({"type":"message","content":"hello"})");
        socket_.await([&](std::string_view payload) {
            if (is_of_type(payload, "text_delta"))
                ms = ms_since(began);
            return is_of_type(payload, "done");
        });
        if (ms == 0)
            throw std::runtime_error("the turn of the agent has no text");
        return ms;
    }

  private:
    static bool is_of_type(std::string_view payload, std::string_view type) {
        return payload.find("\"type\":\"" + std::string(type) + '"') != std::string_view::npos;
    }

    EventServer server_;
    WebSocket socket_;
};

}  // namespace

Result measure_agent_overhead(Scope scope) {
    Result result{.key = "agent_overhead_ms", .unit = "ms", .target = "<= 20 ms more than by hand"};
    AgentInside inside;
    std::optional<AgentByHand> by_hand;
    if (has_floor(scope))
        by_hand.emplace();
    Compared compared;
    const auto began = Clock::now();
    for (std::size_t round = 0; round < k_warm_up + sized(k_rounds) && ms_since(began) < k_budget_ms;
         ++round) {
        const double ms = inside.prompt_ms();
        const double floor_ms = by_hand ? by_hand->prompt_ms() : 0;
        if (round < k_warm_up)
            continue;
        compared.product.add(ms);
        if (by_hand)
            compared.floor.add(floor_ms);
    }
    compare(result, compared);
    if (by_hand) {
        result.more["more_ms"] = compared.product.p50() - compared.floor.p50();
        result.more["more_p95_ms"] = compared.product.p95() - compared.floor.p95();
        result.reached = result.more["more_p95_ms"] <= k_max_overhead_ms;
    }
    return result;
}

}  // namespace atl::bench
