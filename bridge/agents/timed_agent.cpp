#include "bridge/agents/timed_agent.hpp"

#include <utility>

#include "bridge/guest/command.hpp"
#include "bridge/json_scan.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/inner_paths.hpp"

namespace atl::guest {
namespace {

/// The adapter of a recipe (adapters/recipe.hpp).
struct AdapterVisitor : bridge::ObjectVisitor {
    bool on_string(const std::string& key, const std::string& value) {
        if (key == "adapter")
            is_lines = value == "lines";
        return true;
    }
    bool is_lines = true;
};

}  // namespace

bool lacks_times(const AgentChoice& choice) {
    if (choice.kind != bridge::agent_kind::command || choice.argv.size() != 2 ||
        choice.argv[0] != base::k_inner_agent)
        return true;
    AdapterVisitor visitor;
    static_cast<void>(bridge::scan_object(choice.argv[1], base::k_max_event_depth, visitor));
    // An adapter `lines` becomes the agent.
    return visitor.is_lines;
}

TimedAgent::TimedAgent(std::unique_ptr<AgentRuntime> agent, std::string name,
                       std::function<void(std::string_view)> log)
    : timing_(std::move(name), true), log_(std::move(log)), agent_(std::move(agent)) {}

void TimedAgent::start(OnReady on_ready, OnExit on_exit) {
    timing_.tell(lines_, "started");
    agent_->start(
        [this, on_ready = std::move(on_ready)](const std::string& error) {
            if (error.empty()) {
                // A program says so in its first line.
                timing_.agent_line(lines_);
                timing_.tell(lines_, "ready");
            }
            tell();
            on_ready(error);
        },
        std::move(on_exit));
}

Begun TimedAgent::begin(const TurnRequest& request, TurnSink& sink) {
    timing_.begin(request.turn);
    Sink& own = sinks_.emplace_back(*this, sink);
    const Begun begun = agent_->begin(request, own);
    if (begun == Begun::no_room)
        release(own);
    return begun;
}

void TimedAgent::resume(TurnSink& sink) {
    if (Sink* const own = sink_of(sink))
        agent_->resume(*own);
}

void TimedAgent::abandon(TurnSink& sink) {
    Sink* const own = sink_of(sink);
    if (own == nullptr)
        return;
    agent_->abandon(*own);
    release(*own);
}

void TimedAgent::Sink::write(std::string_view lines) {
    agent_.timing_.look_at(agent_.lines_, lines);
    agent_.tell();
    host_.write(lines);
}

TimedAgent::Sink* TimedAgent::sink_of(const TurnSink& host) {
    for (Sink& sink : sinks_)
        if (&sink.host() == &host)
            return &sink;
    return nullptr;
}

/// The turn is over: returns the host's sink, and `sink` is gone.
TurnSink& TimedAgent::release(const Sink& sink) {
    TurnSink& host = sink.host();
    sinks_.remove_if([&sink](const Sink& other) { return &other == &sink; });
    return host;
}

void TimedAgent::tell() {
    const std::string lines = std::exchange(lines_, {});
    std::string_view rest = lines;
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
        log_(rest.substr(0, end));
        rest.remove_prefix(end + 1);
    }
}

}  // namespace atl::guest
