#include "tests/support/api_client.hpp"

#include <cstdint>
#include <stdexcept>

namespace atl::test {
namespace {

HeaderList auth(const std::string& key) {
    return {{"Authorization", "Bearer " + key}};
}

std::runtime_error refused(const HttpResponse& response) {
    return std::runtime_error("the server answered " + std::to_string(response.status) + ": " +
                              response.body);
}

}  // namespace

ApiClient::ApiClient(const ServerProcess& server)
    : address_(server.address()), key_(server.key()), http_(address_, auth(key_)) {}

HttpClient ApiClient::connect() const {
    return HttpClient(address_, auth(key_));
}

Json ApiClient::call(int status, const std::string& method, const std::string& target,
                     const std::string& body, const HeaderList& headers) {
    const auto response = http_.request(method, target, body, headers);
    if (response.status != status)
        throw refused(response);
    return response.body.empty() ? Json() : Json::parse(response.body);
}

Json ApiClient::create(const Json& request) {
    return call(201, "POST", "/v1/conversations", request.dump());
}
Json ApiClient::get(const std::string& id) {
    return call(200, "GET", "/v1/conversations/" + id);
}
void ApiClient::remove(const std::string& id) {
    call(204, "DELETE", "/v1/conversations/" + id);
}

Turn ApiClient::message(const std::string& id, const std::string& content,
                        std::chrono::milliseconds deadline) {
    HttpClient client = connect();
    const auto head =
        client.open_stream("POST", "/v1/conversations/" + id + "/messages", Json{{"content", content}}.dump(),
                           {{"Accept", "text/event-stream"}});
    if (head.status != 200)
        throw refused(head);
    return summarise(read_until(client, "done", deadline));
}

std::vector<Json> ApiClient::events(const std::string& id, std::uint64_t after) {
    std::vector<Json> all;
    while (true) {
        const Json page =
            call(200, "GET", "/v1/conversations/" + id + "/events?after=" + std::to_string(after));
        if (page["events"].empty())
            return all;
        all.insert(all.end(), page["events"].begin(), page["events"].end());
        after = all.back()["seq"].get<std::uint64_t>();
    }
}

Json ApiClient::await_status(const std::string& id, const std::string& status) {
    // Every change of status has an event, so waiting means following the log.
    HttpClient client = connect();
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    client.open_stream("GET", "/v1/conversations/" + id + "/events", "", {{"Accept", "text/event-stream"}});
    while (true) {
        Json now = get(id);
        if (now["status"] == status)
            return now;
        const auto left = deadline - std::chrono::steady_clock::now();
        if (left.count() <= 0 ||
            !client.next_event(std::chrono::duration_cast<std::chrono::milliseconds>(left)))
            throw std::runtime_error("the conversation did not become " + status + ": " + now.dump());
    }
}

std::vector<Json> read_until(HttpClient& client, const std::string& until,
                             std::chrono::milliseconds deadline) {
    std::vector<Json> events;
    const auto ends = std::chrono::steady_clock::now() + deadline;
    while (true) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(ends - std::chrono::steady_clock::now());
        const auto event = client.next_event(std::max(left, std::chrono::milliseconds(1)));
        if (!event)
            throw std::runtime_error("the stream ended before " + until + " after: " + types(events));
        events.push_back(Json::parse(event->data));
        if (event->event == until)
            return events;
    }
}

std::string code_of(const HttpResponse& response) {
    return Json::parse(response.body).value("code", "");
}

Turn summarise(std::vector<Json> events) {
    Turn turn;
    for (const auto& event : events) {
        const auto& data = event["data"];
        if (event["type"] == "text_delta")
            turn.output += data["delta"].get<std::string>();
        else if (event["type"] == "turn_complete" && data.contains("exitCode"))
            turn.exit_code = data["exitCode"].get<int>();
        else if (event["type"] == "error")
            turn.errors.push_back(data["code"].get<std::string>());
    }
    turn.events = std::move(events);
    return turn;
}

std::string types(const std::vector<Json>& events) {
    std::string joined;
    for (const auto& event : events)
        joined += (joined.empty() ? "" : " ") + event["type"].get<std::string>();
    return joined;
}

}  // namespace atl::test
