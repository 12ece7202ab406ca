// atoll-bench-agent, the agent of `stream_events_per_s`: a message is a decimal number, and its turn is so
// many events whose data is 256 bytes, written as fast as the pipe takes them. With the argument `acp` it is
// the agent of `agent_overhead_ms`: it speaks ACP (agentclientprotocol.com) and answers each prompt with one
// word. Static, so that it runs inside every sandbox. It trusts the server.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

constexpr std::size_t k_data_bytes = 256;
constexpr std::size_t k_lines_a_write = 200;
constexpr std::string_view k_data_head = R"({"delta":")";
constexpr std::string_view k_data_end = R"("})";

void write_all(std::string_view text) {
    while (!text.empty()) {
        const ssize_t size = ::write(STDOUT_FILENO, text.data(), text.size());
        if (size < 0)
            ::_exit(1);
        text.remove_prefix(static_cast<std::size_t>(size));
    }
}

std::string event_lines() {
    std::string line = R"({"ev":"text_delta","data":)";
    line += k_data_head;
    line.append(k_data_bytes - k_data_head.size() - k_data_end.size(), 'x');
    line.append(k_data_end).append("}\n");
    std::string lines;
    for (std::size_t i = 0; i < k_lines_a_write; ++i)
        lines += line;
    return lines;
}

void run_turn(std::size_t events) {
    static const std::string s_lines = event_lines();
    for (std::size_t left = events; left > 0;) {
        const std::size_t now = std::min(left, k_lines_a_write);
        write_all(std::string_view(s_lines).substr(0, s_lines.size() / k_lines_a_write * now));
        left -= now;
    }
    write_all("{\"ev\":\"done\",\"data\":{}}\n");
}

/// False: the agent is to end.
bool handle(const std::string& line) {
    constexpr std::string_view prompt = R"("prompt":")";
    if (const std::size_t at = line.find(prompt); at != std::string::npos)
        run_turn(std::strtoul(line.c_str() + at + prompt.size(), nullptr, 10));
    return line.find(R"("cmd":"shutdown")") == std::string::npos;
}

/// The text between `before` and the next of `ends`.
std::string_view between(std::string_view line, std::string_view before, std::string_view ends) {
    const std::size_t at = line.find(before);
    if (at == std::string_view::npos)
        return {};
    line.remove_prefix(at + before.size());
    return line.substr(0, line.find_first_of(ends));
}

bool handle_acp(const std::string& line) {
    const std::string_view method = between(line, R"("method":")", "\"");
    std::string_view result = R"({"protocolVersion":1,"agentCapabilities":{}})";
    if (method == "session/new")
        result = R"({"sessionId":"s"})";
    if (method == "session/prompt") {
        write_all(R"({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":)"
                  R"({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}})"
                  "\n");
        result = R"({"stopReason":"end_turn"})";
    }
    std::string answer = R"({"jsonrpc":"2.0","id":)";
    answer.append(between(line, R"("id":)", ",}")).append(R"(,"result":)").append(result).append("}\n");
    write_all(answer);
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const bool is_acp = argc > 1 && std::string_view(argv[1]) == "acp";
    if (!is_acp)
        write_all("{\"ev\":\"ready\",\"data\":{}}\n");
    std::string pending;
    char chunk[4096];
    for (ssize_t size = 0; (size = ::read(STDIN_FILENO, chunk, sizeof chunk)) > 0;) {
        pending.append(chunk, static_cast<std::size_t>(size));
        for (std::size_t end = 0; (end = pending.find('\n')) != std::string::npos;
             pending.erase(0, end + 1)) {
            const std::string line = pending.substr(0, end);
            if (!(is_acp ? handle_acp(line) : handle(line)))
                return 0;
        }
    }
    return 0;
}
