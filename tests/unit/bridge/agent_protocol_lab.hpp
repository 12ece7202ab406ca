// An adapter's protocol with a transcript for an agent: lines in, what it wants out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bridge/adapters/agent_protocol.hpp"
#include "bridge/agents/json_outline.hpp"
#include "bridge/event_line.hpp"

namespace atl::test {

template <class Protocol>
class ProtocolLab {
  public:
    using Json = nlohmann::json;

    explicit ProtocolLab(adapter::ProtocolSettings settings) : protocol_(std::move(settings), wishes_) {
        protocol_.start();
    }

    void agent(const Json& object) { protocol_.agent_line(object.dump()); }
    void agent_text(std::string_view line) { protocol_.agent_line(line); }
    /// A line, as if it were longer than the bound.
    void agent_long(std::string_view line) {
        guest::JsonOutline outline;
        outline.feed(line);
        protocol_.agent_long_line(line);
        protocol_.agent_long_line_end(outline.text());
    }
    /// Such a line that begins so, and is cut within a long text.
    void agent_head(std::string_view head) { agent_long(std::string(head) + std::string(4096, 'x')); }
    void host(const Json& command) { protocol_.command(adapter::parse_host_command(command.dump()).value()); }
    void query(const std::string& turn, const std::string& prompt) {
        host({{"cmd", "query"}, {"turn", turn}, {"prompt", prompt}, {"options", Json::object()}});
    }

    /// Since the last call.
    std::vector<Json> to_agent() { return objects(std::exchange(wishes_.to_agent, {})); }
    /// Since the last call.
    std::vector<Json> events() { return objects(std::exchange(wishes_.to_host, {})); }
    /// Their names, joined.
    std::string event_names() {
        std::string names;
        for (const Json& event : events())
            names.append(names.empty() ? "" : " ").append(event["ev"].template get<std::string>());
        return names;
    }
    /// True if the host would take each event that is waiting.
    bool are_taken() const {
        for (const std::string& line : lines_of(wishes_.to_host))
            if (line.find("\"ready\"") == std::string::npos && !bridge::parse_event_line(line))
                return false;
        return true;
    }
    adapter::Wishes& wishes() { return wishes_; }
    Protocol& protocol() { return protocol_; }

  private:
    static std::vector<std::string> lines_of(std::string_view text) {
        std::vector<std::string> lines;
        for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
            lines.emplace_back(text.substr(0, end));
            text.remove_prefix(end + 1);
        }
        return lines;
    }
    static std::vector<Json> objects(std::string_view text) {
        std::vector<Json> out;
        for (const std::string& line : lines_of(text))
            out.push_back(Json::parse(line));
        return out;
    }

    adapter::Wishes wishes_;
    Protocol protocol_;
};

}  // namespace atl::test
