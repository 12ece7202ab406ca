// The messages of an ACP agent under test.
#pragma once

#include <string>
#include <utility>

#include "agent_protocol_lab.hpp"
#include "bridge/adapters/acp.hpp"

namespace atl::test::acp_lab {

using Json = nlohmann::json;
using Lab = ProtocolLab<adapter::AcpProtocol>;

inline const Json k_resumes = {{"sessionCapabilities", {{"resume", Json::object()}}}};

inline Json reply(int id, Json result) {
    return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

inline Json refusal(int id, int code, const std::string& message) {
    return {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}};
}

inline Json update(Json what) {
    return {{"jsonrpc", "2.0"},
            {"method", "session/update"},
            {"params", {{"sessionId", "s1"}, {"update", std::move(what)}}}};
}

inline Json chunk(const std::string& kind, const std::string& text) {
    return update({{"sessionUpdate", kind}, {"content", {{"type", "text"}, {"text", text}}}});
}

inline Json permission(const Json& id, Json tool) {
    return {{"jsonrpc", "2.0"},
            {"id", id},
            {"method", "session/request_permission"},
            {"params",
             {{"sessionId", "s1"},
              {"toolCall", std::move(tool)},
              {"options", Json::array({{{"optionId", "y"}, {"name", "Yes"}, {"kind", "allow_once"}},
                                       {{"optionId", "n"}, {"name", "No"}, {"kind", "reject_once"}}})}}}};
}

/// Lets the agent begin a session. The first prompt is request 3.
inline void begin(Lab& lab, const Json& capabilities = Json::object()) {
    lab.agent(reply(1, {{"protocolVersion", 1}, {"agentCapabilities", capabilities}}));
    lab.agent(reply(2, {{"sessionId", "s1"}}));
}

}  // namespace atl::test::acp_lab
