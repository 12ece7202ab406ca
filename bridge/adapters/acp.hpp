// The Agent Client Protocol, version 1: JSON-RPC 2.0 in lines (https://agentclientprotocol.com). The adapter
// is its client, without files and terminals of its own: the agent is inside the sandbox already.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "bridge/adapters/agent_protocol.hpp"

namespace atl::adapter {

class AcpProtocol final : public AgentProtocol {
  public:
    using AgentProtocol::AgentProtocol;

    void start() override;
    void settled() override;

  private:
    enum class Step : std::uint8_t { initialize, resume, load, settle, create, set_mode, prompt, none };

    /// A tool of the open turn that has not ended, as far as it is known.
    struct Tool {
        std::string title;
        std::string kind;
        Json input;            // until it is told
        std::string contents;  // as JSON, as are the next two: what updates told last
        std::string output;
        std::string details;  // the contents that were told with its tool_use
    };

    void on_object(const Json& object, std::string_view line) override;
    void on_outline(Json outline, const std::string& why) override;
    void prompt(const std::string& text) override;
    void interrupt() override;
    void answer(const Json& request, const std::string* option_id) override;

    void request(Step step, const char* method, Json params);
    void on_reply(const Json& object);
    void on_failed_step(Step step, const Json& error);
    void on_result(Step step, const Json& result);
    void on_initialized(const Json& result);
    void take_up(Step step);
    void create_session();
    void choose_mode();
    void end_turn();

    void on_request(const Json& object, std::string_view method);
    void refuse(const Json& request, int code, const char* why);
    void on_permission(const Json& object);
    void on_update(const Json& update, std::string_view session);
    void on_chunk(const Json& update, std::string_view kind);
    void on_tool(const Json& update);
    void keep(std::string& kept, const Json* told);
    void tell_tool(const std::string& id, Tool& tool, std::string_view status);
    void tell_result(const std::string& id, const Tool& tool, const Json& update, std::string_view status);

    Step step_ = Step::none;  // asked and not answered
    std::uint64_t step_id_ = 0;
    std::string session_;
    bool can_load_ = false;
    Memory memory_of_session_ = Memory::none;
    std::map<std::string, Tool> tools_;
    std::size_t kept_bytes_ = 0;  // of all tools
};

}  // namespace atl::adapter
