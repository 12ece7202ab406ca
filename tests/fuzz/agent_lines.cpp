// Lines of agents that speak ACP or Claude's stream-json, between commands of the guest: whatever they say,
// each event is one that the host takes, a turn ends once at the most, and what goes to the agent is JSON in
// lines.
#include <memory>
#include <string>

#include "bridge/adapters/acp.hpp"
#include "bridge/adapters/stream_json.hpp"
#include "bridge/event_line.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

class Run {
  public:
    explicit Run(std::uint8_t choice) {
        const adapter::ProtocolSettings settings{(choice & 2U) != 0 ? "mode" : "",
                                                 (choice & 4U) != 0 ? "s1" : "", "/workspace"};
        if ((choice & 1U) != 0)
            protocol_ = std::make_unique<adapter::AcpProtocol>(settings, wishes_);
        else
            protocol_ = std::make_unique<adapter::StreamJsonProtocol>(settings, wishes_);
        protocol_->start();
    }

    /// A line that begins with `!` is of the guest; one with `<` is the beginning of a line that is too long.
    void line(std::string_view text) {
        if (text.starts_with('<')) {
            protocol_->agent_long_line(text.substr(1));
        } else if (!text.starts_with('!')) {
            protocol_->agent_line(text);
        } else if (const auto command = adapter::parse_host_command(text.substr(1))) {
            begun_ += command->kind == adapter::HostCommand::Kind::query ? 1 : 0;
            protocol_->command(*command);
        }
        check_events();
        check_answers();
    }

  private:
    void check_events() {
        std::string_view lines = wishes_.to_host;
        for (std::size_t end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n')) {
            const std::string_view event = lines.substr(0, end);
            lines.remove_prefix(end + 1);
            if (event == R"({"ev":"ready","data":{}})") {
                require(!std::exchange(was_ready_, true), "an agent is ready once");
                continue;
            }
            const auto parsed = bridge::parse_event_line(event);
            require(parsed.has_value() || event.size() > base::k_max_event_line_bytes, "the host takes it");
            ended_ += parsed && parsed->name == "done" ? 1 : 0;
            require(ended_ <= begun_, "a turn ends once");
        }
        require(lines.empty(), "events are complete lines");
        wishes_.to_host.clear();
    }
    void check_answers() {
        std::string_view lines = wishes_.to_agent;
        for (std::size_t end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n')) {
            require(fuzz::read_document(lines.substr(0, end)).accepted, "the agent gets JSON");
            lines.remove_prefix(end + 1);
        }
        require(lines.empty(), "the agent gets complete lines");
        wishes_.to_agent.clear();
    }

    adapter::Wishes wishes_;
    std::unique_ptr<adapter::AgentProtocol> protocol_;
    std::size_t begun_ = 0;
    std::size_t ended_ = 0;
    bool was_ready_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    Run run(input.byte());
    std::string_view rest = input.rest();
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        run.line(rest.substr(0, end));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return 0;
}
