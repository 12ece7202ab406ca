// The API as a test uses it: create conversations, run commands through the `shell` agent, follow events.
// Every call throws std::runtime_error with the response if the server refuses a request that should work.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/http_client.hpp"
#include "tests/support/server_process.hpp"

namespace atl::test {

using Json = nlohmann::json;

/// The result of one message.
struct Turn {
    std::string output;               // all text deltas
    std::optional<int> exit_code;     // of turn_complete
    std::vector<Json> events;         // all events; the last is `done`
    std::vector<std::string> errors;  // codes of `error` events
};

class ApiClient {
  public:
    explicit ApiClient(const ServerProcess& server);

    HttpClient& http() noexcept { return http_; }
    /// A kept-alive connection of its own with the key.
    HttpClient connect() const;

    /// POST /v1/conversations; the conversation.
    Json create(const Json& request = Json::object());
    Json get(const std::string& id);
    void remove(const std::string& id);
    /// Sends `content` and follows the turn to its `done`.
    Turn message(const std::string& id, const std::string& content,
                 std::chrono::milliseconds deadline = k_client_deadline);
    /// All events after `after` as the server pages them.
    std::vector<Json> events(const std::string& id, std::uint64_t after = 0);
    /// Waits until the conversation has this status; throws after k_client_deadline, with the present status.
    Json await_status(const std::string& id, const std::string& status);
    /// A response that must have `status`; its body as JSON (null if empty).
    Json call(int status, const std::string& method, const std::string& target, const std::string& body = "",
              const HeaderList& headers = {});

  private:
    std::string address_;
    std::string key_;
    HttpClient http_;
};

/// The events of a stream that is open on `client`, up to and including the first of type `until`.
std::vector<Json> read_until(HttpClient& client, const std::string& until,
                             std::chrono::milliseconds deadline = k_client_deadline);

/// The `code` of a problem; empty if the body has none. Throws if the body is no JSON.
std::string code_of(const HttpResponse& response);

/// The turn that `events` describe.
Turn summarise(std::vector<Json> events);

/// Types of `events`, joined with spaces.
std::string types(const std::vector<Json>& events);

}  // namespace atl::test
