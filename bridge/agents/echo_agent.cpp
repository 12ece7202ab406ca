#include "bridge/agents/echo_agent.hpp"

#include "bridge/protocol.hpp"

namespace atl::guest {

Begun EchoAgent::begin(const TurnRequest& request, TurnSink& sink) {
    std::string lines;
    lines.reserve(request.prompt.size() + request.prompt.size() / 8 + 128);
    bridge::append_text_deltas(lines, request.prompt);
    lines += bridge::k_done_line;
    sink.write(lines);
    sink.finish();
    return Begun::yes;
}

}  // namespace atl::guest
