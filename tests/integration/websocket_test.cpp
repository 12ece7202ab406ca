// A conversation over its WebSocket, against the real server and the `shell` agent.
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <thread>

#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

namespace websocket_test {

using namespace atl::test;

namespace {

WebSocketClient open_socket(const ApiClient& api, const std::string& id, std::uint64_t after = 0) {
    return {api.connect(), "/v1/conversations/" + id + "/ws?after=" + std::to_string(after)};
}

std::string message(const std::string& content) {
    return Json{{"type", "message"}, {"content", content}}.dump();
}

/// The events of the socket up to the first of type `until`.
std::vector<Json> follow(WebSocketClient& socket, const std::string& until) {
    std::vector<Json> events;
    do
        events.push_back(Json::parse(socket.next_text()));
    while (events.back()["type"] != until);
    return events;
}

/// True if `events` are numbered from `first` on without a gap.
bool are_complete(const std::vector<Json>& events, std::uint64_t first) {
    for (const auto& event : events) {
        if (event["seq"] != first++)
            return false;
    }
    return true;
}

std::size_t resident_mb(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmRSS:"))
            return std::stoul(line.substr(6)) / 1024;
    }
    throw std::runtime_error("no VmRSS");
}

/// Bytes of `bytes` that the socket takes at once.
std::size_t send_what_fits(int fd, std::string_view bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
        const ssize_t count =
            ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count <= 0)
            break;
        sent += static_cast<std::size_t>(count);
    }
    return sent;
}

}  // namespace

TEST_CASE("A conversation over a WebSocket is what the log holds") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    auto socket = open_socket(api, id);
    auto watcher = open_socket(api, id);
    socket.send_text(message("for i in 1 2 3; do echo line $i; done; exit 3"));
    const auto events = follow(socket, "done");
    CHECK(are_complete(events, 1));
    const Turn turn = summarise(events);
    CHECK(turn.output == "line 1\nline 2\nline 3\n");
    CHECK(turn.exit_code.value_or(0) == 3);
    CHECK(follow(watcher, "done") == events);
    CHECK(api.events(id) == events);
    auto late = open_socket(api, id, 2);
    CHECK(are_complete(follow(late, "done"), 3));
}

TEST_CASE("A WebSocket that breaks in the middle of a turn goes on where it was") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    auto first = open_socket(api, id);
    first.send_text(message("mkfifo f; for i in $(seq 200); do echo line $i; done; read -r x < f; echo end"));
    std::vector<Json> events = follow(first, "text_delta");
    first.http().close();
    auto second = open_socket(api, id, events.back()["seq"]);
    // The turn went on without a client; now it may end.
    while (summarise(events).output.find("line 200\n") == std::string::npos)
        events.push_back(Json::parse(second.next_text()));
    second.send_text(R"({"type":"interrupt"})");
    for (auto& event : follow(second, "done"))
        events.push_back(std::move(event));
    CHECK(are_complete(events, 1));
    std::string expected;
    for (int i = 1; i <= 200; ++i)
        expected += "line " + std::to_string(i) + "\n";
    const Turn turn = summarise(events);
    CHECK(turn.output == expected);
    CHECK(turn.exit_code.value_or(0) == 130);
}

TEST_CASE("A WebSocket's refusals name their reason") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    auto socket = open_socket(api, id);
    const auto rejected = [&] {
        for (;;) {
            const Json frame = Json::parse(socket.next_text());
            if (frame["type"] == "rejected")
                return frame["code"].get<std::string>();
        }
    };
    socket.send_text(R"({"type":"interrupt"})");
    CHECK(rejected() == "no_turn");
    socket.send_text(message("read -r x < /dev/zero; sleep 1000"));
    socket.send_text(message("echo too early"));
    CHECK(rejected() == "turn_in_progress");
    socket.send_text(R"({"type":"interrupt"})");
    CHECK(summarise(follow(socket, "done")).exit_code.value_or(0) > 128);
    CHECK(api.message(id, "echo still here").output == "still here\n");
}

TEST_CASE("A message over a WebSocket resumes a paused conversation") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    api.message(id, "echo kept > file");
    api.call(200, "POST", "/v1/conversations/" + id + "/pause");
    auto socket = open_socket(api, id, api.get(id)["lastSeq"]);
    socket.send_text(message("cat file"));
    CHECK(summarise(follow(socket, "done")).output == "kept\n");
}

TEST_CASE("The end of a conversation and of the server end its WebSockets with what to do next") {
    ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    const std::string other = api.create()["id"];
    auto gone = open_socket(api, id);
    auto stopped = open_socket(api, other);
    api.remove(id);
    CHECK(gone.await_close().close_code() == 4404);
    CHECK(server.stop() == 0);
    const auto frame = stopped.await_close();
    CHECK(frame.close_code() == 1001);
    CHECK(Json::parse(frame.close_reason())["code"] == "shutting_down");
}

TEST_CASE("After kill -9 of the server a WebSocket client gets every event once") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path();
    std::vector<Json> events;
    std::string id;
    {
        ServerProcess server(options);
        ApiClient api(server);
        id = api.create()["id"];
        auto socket = open_socket(api, id);
        socket.send_text(message("while :; do echo more; done"));
        while (events.size() < 50)
            events.push_back(Json::parse(socket.next_text()));
        server.kill_hard();
        // Frames that were sent earlier are still in the socket.
        try {
            for (;;)
                events.push_back(Json::parse(socket.next_text()));
        } catch (const std::runtime_error&) {
        }
    }
    const ServerProcess server(options);
    const ApiClient api(server);
    auto socket = open_socket(api, id, events.back()["seq"]);
    for (auto& event : follow(socket, "done"))
        events.push_back(std::move(event));
    CHECK(are_complete(events, 1));
    CHECK(summarise(events).errors == std::vector<std::string>{"server_restart"});
}

TEST_CASE("A WebSocket needs a key, an existing conversation and a sound cursor") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    const std::string path = "/v1/conversations/" + id + "/ws";
    const std::string address = "127.0.0.1:" + std::to_string(server.port());
    HttpClient stranger(address);
    CHECK(stranger.request("GET", path, "", k_websocket_headers).status == 401);
    HttpClient client = api.connect();
    CHECK(client.request("GET", path).status == 426);
    CHECK(client.request("GET", path + "?after=x", "", k_websocket_headers).status == 422);
    CHECK(client.request("GET", path + "?more=1", "", k_websocket_headers).status == 422);
    CHECK(client.request("GET", "/v1/conversations/nobody/ws", "", k_websocket_headers).status == 404);
    const auto token = [&](const char* scope) {
        const Json made =
            api.call(201, "POST", "/v1/conversations/" + id + "/tokens", Json{{"scope", scope}}.dump());
        return made["token"].get<std::string>();
    };
    WebSocketClient chat(HttpClient(address), path + "?token=" + token("chat"));
    WebSocketClient reader(HttpClient(address), path + "?token=" + token("read"));
    for (const char* frame : {R"({"type":"message","content":"echo no"})", R"({"type":"interrupt"})"}) {
        reader.send_text(frame);
        Json answer;
        do
            answer = Json::parse(reader.next_text());
        while (answer["type"] != "rejected");
        CHECK(answer["code"] == "read_only_token");
    }
    chat.send_text(message("echo yes"));
    CHECK(summarise(follow(chat, "done")).output == "yes\n");
    follow(reader, "done");
    // A page reads a close code, and no status of a refused handshake.
    CHECK(WebSocketClient(HttpClient(address), path + "?token=x").await_close().close_code() == 4401);
    HttpClient foreign(address, {{"Origin", "https://evil.example"}});
    CHECK(WebSocketClient(std::move(foreign), path).await_close().close_code() == 4403);
    CHECK(client.request("GET", path, "", k_websocket_headers).status == 101);
}

TEST_CASE("A reader's frame is held to a reader's bound") {
    const ServerProcess server;
    ApiClient api(server);
    const std::string id = api.create()["id"];
    const Json made = api.call(201, "POST", "/v1/conversations/" + id + "/tokens", R"({"scope":"read"})");
    const std::string target = "/v1/conversations/" + id + "/ws?token=" + made["token"].get<std::string>();
    WebSocketClient reader(HttpClient("127.0.0.1:" + std::to_string(server.port())), target);
    reader.send_text(std::string(100'000, ' '));
    CHECK(reader.await_close().close_code() == 1009);
    // The positive control: a client that may send has room for messages.
    auto writer = open_socket(api, id);
    writer.send_text(R"({"type":"interrupt"})" + std::string(100'000, ' '));
    CHECK(follow(writer, "rejected").back()["code"] == "no_turn");
}

// [serial]: the server's memory.
TEST_CASE("Messages that are not complete take no more memory than there is for them all", "[serial]") {
    constexpr std::size_t k_sockets = 1024;
    constexpr std::size_t k_budget_mb = 32;
    constexpr std::size_t k_message_bytes = 1024UL * 1024;
    ServerOptions options;
    // All of them are one user's.
    options.arguments = {"--body-memory-mb",
                         std::to_string(k_budget_mb),
                         "--user-share",
                         "100",
                         "--max-streams-per-key",
                         "0",
                         "--max-streams-per-conversation",
                         "0"};
    const ServerProcess server(options);
    ApiClient api(server);
    const std::string id = api.create()["id"];
    [[maybe_unused]] const std::size_t fresh_mb = resident_mb(server.pid());
    std::vector<WebSocketClient> sockets;
    while (sockets.size() < k_sockets)
        sockets.push_back(open_socket(api, id));
    const std::size_t idle_mb = resident_mb(server.pid());

    // Each sends a part of it, as far as it is taken.
    const std::string bytes = frame_bytes({.payload = std::string(k_message_bytes - 100, 'a')});
    const std::string_view partial = std::string_view(bytes).substr(0, bytes.size() / 4);
    std::size_t taken = 0;
    for (auto& socket : sockets)
        taken += send_what_fits(socket.http().fd(), partial);
    // The control: the clients did send, and the kernel took far more bytes than the budget.
    CHECK(taken > 2 * k_budget_mb * 1024 * 1024);
    auto small = open_socket(api, id);
    small.send_text(message("echo $((6 * 7))"));
    CHECK(summarise(follow(small, "done")).output == "42\n");
    CHECK(api.get(id)["status"] == "active");
    // How much memory that takes is a matter for --full.
    if (!checks_bounds())
        return;
        // Beside the budget each connection has its free bytes and its buffer. Without a budget these clients
        // took 1,000 MB.
#if defined(__SANITIZE_ADDRESS__)  // ASan keeps freed blocks and adds redzones
    constexpr std::size_t k_own_mb = 400;
#else
    constexpr std::size_t k_own_mb = 80;
#endif
    CHECK(resident_mb(server.pid()) <= idle_mb + k_budget_mb + k_own_mb);

#if !defined(__SANITIZE_ADDRESS__)  // ASan keeps freed blocks
    // Once they are gone and the server is idle, it returns the memory of the burst.
    constexpr std::size_t k_kept_mb = 16;
    REQUIRE(resident_mb(server.pid()) > fresh_mb + 2 * k_kept_mb);
    sockets.clear();
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (resident_mb(server.pid()) > fresh_mb + k_kept_mb && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    CHECK(resident_mb(server.pid()) <= fresh_mb + k_kept_mb);
#endif
}

}  // namespace websocket_test
