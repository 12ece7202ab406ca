// The stdout of agents that speak ACP or Claude's stream-json, between commands of the guest: whatever they
// say, each event is one that the host takes, a turn ends once at the most, a permission is taken back once,
// and what goes to the agent is JSON in lines.
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "bridge/adapters/acp.hpp"
#include "bridge/adapters/stream_json.hpp"
#include "bridge/agents/line_splitter.hpp"
#include "bridge/event_line.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

// Seeds reach a bound of so many bytes.
constexpr std::size_t k_short_line_bytes = 128;

class Run final : private guest::LineSplitter::Sink {
  public:
    explicit Run(std::uint8_t choice)
        : splitter_(*this, (choice & 8U) != 0 ? k_short_line_bytes : base::k_max_event_line_bytes) {
        const adapter::ProtocolSettings settings{(choice & 2U) != 0 ? "mode" : "",
                                                 (choice & 4U) != 0 ? "s1" : "", "/workspace"};
        if ((choice & 1U) != 0)
            protocol_ = std::make_unique<adapter::AcpProtocol>(settings, wishes_);
        else
            protocol_ = std::make_unique<adapter::StreamJsonProtocol>(settings, wishes_);
        protocol_->start();
    }

    /// A line that begins with `!` is of the guest, any other one of the agent. `seed`: how it is cut.
    void line(std::string_view text, std::uint8_t seed) {
        if (!text.starts_with('!')) {
            for (const auto piece : fuzz::cut(text, seed))
                splitter_.feed(piece);
            splitter_.feed("\n");
        } else if (const auto command = adapter::parse_host_command(text.substr(1))) {
            begun_ += command->kind == adapter::HostCommand::Kind::query ? 1 : 0;
            protocol_->command(*command);
        }
        check_events();
        check_answers();
    }

  private:
    void on_line(std::string_view text) override { protocol_->agent_line(text); }
    void on_long_line(std::string_view head) override { protocol_->agent_long_line(head); }
    void on_long_line_end(std::string_view outline) override {
        require(outline.size() <= guest::k_max_outline_bytes, "an outline is bounded");
        protocol_->agent_long_line_end(outline);
    }

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
            if (parsed && parsed->name == "permission_request")
                require(asked_.insert(id_of(parsed->data)).second, "a permission has an id of its own");
            if (parsed && parsed->name == "permission_cancel")
                require(asked_.erase(id_of(parsed->data)) == 1,
                        "a permission that was asked is taken back once");
            if (parsed && parsed->name == "done")
                asked_.clear();
        }
        require(lines.empty(), "events are complete lines");
        wishes_.to_host.clear();
    }
    static std::string id_of(std::string_view data) {
        return fuzz::read_document(data).value["id"].get<std::string>();
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
    std::set<std::string> asked_;  // permissions of the open turn
    guest::LineSplitter splitter_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    Run run(seed);
    std::string_view rest = input.rest();
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        run.line(rest.substr(0, end), static_cast<std::uint8_t>(seed >> 4U));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return 0;
}
