// The line protocol of the program `claude` (`--input-format stream-json --output-format stream-json`), as
// its SDK speaks it: one process for all turns of a conversation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bridge/adapters/agent_protocol.hpp"

namespace atl::adapter {

class StreamJsonProtocol final : public AgentProtocol {
  public:
    using AgentProtocol::AgentProtocol;

    /// The end of its command line.
    static std::vector<std::string> flags(const ProtocolSettings& settings);

    void start() override;

  private:
    void on_object(const Json& object, std::string_view line) override;
    void on_outline(Json outline, const std::string& why) override;
    void prompt(const std::string& text) override;
    void interrupt() override;
    void answer(const Json& request, const std::string* option_id) override;

    std::string control(const char* subtype);
    void on_control_request(const Json& object);
    void on_control_response(const Json& object);
    void on_system(const Json& object);
    void on_stream_event(const Json& object);
    void on_assistant(const Json& object);
    bool is_told(const Json& message);
    void tell_text(std::string_view text);
    void begin_ready();
    void on_user(const Json& object);
    void on_result(const Json& object);
    void tell_object(const Json& object, std::string_view line);

    std::uint64_t asked_ = 0;     // control requests
    std::string initialize_;      // the id of the first one
    std::string session_;         // as last told
    std::string streamed_;        // the message whose text came in pieces; empty: its id was not told yet
    bool is_streamed_ = false;    // pieces of the message `streamed_` came
    bool is_named_late_ = false;  // `streamed_` is the id of the whole message, not of its pieces
    bool has_text_ = false;       // the turn has
};

}  // namespace atl::adapter
