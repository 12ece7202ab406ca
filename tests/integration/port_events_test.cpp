// Ports that are found: what the log of a conversation tells of the servers in its sandbox.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "core/plain/preview_limits.hpp"
#include "tests/support/api_client.hpp"

namespace port_events_test {

using namespace atl;
using namespace atl::test;

namespace {

using std::chrono::seconds;

// Listens on all the ports that it is given.
constexpr const char* k_listen = R"(
import signal, socket, sys
held = []
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
for port in sys.argv[2:]:
    held.append(socket.create_server((sys.argv[1], int(port)), family=family))
signal.pause()
)";

// Opens and closes ports as fast as it can.
constexpr const char* k_churn = R"(
import socket
while True:
    for port in range(2000, 4000):
        socket.create_server(("127.0.0.1", port)).close()
)";

struct Lab {
    explicit Lab(std::vector<std::string> arguments = {}) : server{{.arguments = std::move(arguments)}} {
        made = api.create();
        id = made["id"];
        sandbox = made["sandboxId"];
    }
    std::string start(const std::vector<std::string>& argv) {
        const Json wanted{{"argv", argv}};
        return api.call(201, "POST", "/v1/sandboxes/" + sandbox + "/processes", wanted.dump())["processId"];
    }
    std::string listen(const std::string& address, const std::string& ports) {
        std::vector<std::string> argv{"python3", "-c", k_listen, address};
        for (std::size_t at = 0; at < ports.size();) {
            const std::size_t end = std::min(ports.find(' ', at), ports.size());
            argv.push_back(ports.substr(at, end - at));
            at = end + 1;
        }
        return start(argv);
    }
    void kill(const std::string& process) {
        const std::string target = "/v1/sandboxes/" + sandbox + "/processes/" + process + "/signal";
        api.call(204, "POST", target, R"({"signal":"SIGKILL"})");
    }
    /// All events of the log that tell of ports.
    std::vector<Json> told() {
        std::vector<Json> events = api.events(id);
        std::erase_if(
            events, [](const Json& event) { return !event["type"].get<std::string>().starts_with("port_"); });
        return events;
    }
    /// The event once it is there, the last one of its kind.
    Json await(const std::string& type, int port) {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        do {
            const std::vector<Json> events = told();
            const auto last = std::find_if(events.rbegin(), events.rend(),
                                           [&](const Json& event) { return event["data"]["port"] == port; });
            if (last != events.rend() && (*last)["type"] == type)
                return *last;
        } while (std::chrono::steady_clock::now() < until);
        FAIL("no " << type << " of " << port);
        return {};
    }

    ServerProcess server;
    ApiClient api{server};
    Json made;
    std::string id;
    std::string sandbox;
};

}  // namespace

TEST_CASE(
    "A server that begins to listen in a sandbox is told with the address of its preview, and its end, too") {
    if (!is_root())
        SKIP("needs root");
    Lab lab({"--preview-domain", "preview.localhost"});
    const std::string process = lab.listen("127.0.0.1", "5173 8080");
    const Json opened = lab.await("port_opened", 5173);
    CHECK(opened["data"]["url"] == lab.made["sandboxPublicUrl"]);
    CHECK(opened["turn"].is_null());
    CHECK(lab.await("port_opened", 8080)["data"] == Json{{"port", 8080}, {"url", nullptr}});
    const auto open_ports = [&](const std::string& path) {
        return lab.api.call(200, "GET", path)["openPorts"];
    };
    // Who comes late reads no log.
    const Json both{{{"port", 5173}, {"url", lab.made["sandboxPublicUrl"]}},
                    {{"port", 8080}, {"url", nullptr}}};
    CHECK(lab.made["openPorts"] == Json::array());
    CHECK(open_ports("/v1/conversations/" + lab.id) == both);
    CHECK(open_ports("/v1/sandboxes/" + lab.sandbox) == both);
    CHECK(lab.api.call(200, "GET", "/v1/conversations")["conversations"][0]["openPorts"] == both);
    // Listed later: told once more, with an address that answers.
    const std::string wanted = R"({"preview":{"ports":[5173,8080]}})";
    lab.api.call(200, "PATCH", "/v1/conversations/" + lab.id, wanted);
    const Json again = lab.await("port_opened", 8080);
    REQUIRE(again["data"]["url"].is_string());
    CHECK(open_ports("/v1/conversations/" + lab.id)[1] == again["data"]);
    CHECK(again["data"]["url"].get<std::string>().find("preview-" + lab.sandbox +
                                                       "-8080.preview.localhost") != std::string::npos);
    lab.kill(process);
    lab.await("port_closed", 5173);
    lab.await("port_closed", 8080);
    CHECK(open_ports("/v1/conversations/" + lab.id) == Json::array());
}

TEST_CASE("A sandbox without a conversation tells its open ports, and none that another one has") {
    if (!is_root())
        SKIP("needs root");
    Lab lab({"--preview-domain", "preview.localhost"});
    lab.listen("127.0.0.1", "5173");
    lab.await("port_opened", 5173);
    const Json alone = lab.api.call(201, "POST", "/v1/sandboxes", "{}");
    const std::string path = "/v1/sandboxes/" + alone["id"].get<std::string>();
    CHECK(alone["openPorts"] == Json::array());
    const Json wanted{{"argv", {"python3", "-m", "http.server", "5173", "--bind", "127.0.0.1"}}};
    lab.api.call(201, "POST", path + "/processes", wanted.dump());
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    Json ports = Json::array();
    while (ports.empty() && std::chrono::steady_clock::now() < until)
        ports = lab.api.call(200, "GET", path)["openPorts"];
    CHECK(ports == Json::array({{{"port", 5173}, {"url", alone["sandboxPublicUrl"]}}}));
}

TEST_CASE(
    "Of what listens in a sandbox that is told which its loopback reaches, never the server's own ports") {
    Lab lab;
    lab.listen("127.0.0.1", "3128 3129 9100");
    lab.listen("127.0.0.2", "9200");
    lab.listen("::1", "9300");
    lab.listen("0.0.0.0", "9400");
    for (const int port : {9100, 9300, 9400})
        lab.await("port_opened", port);
    for (const Json& event : lab.told()) {
        const int port = event["data"]["port"];
        CHECK((port == 9100 || port == 9300 || port == 9400));
        // Such a port of a server of this machine has a name, not a port of its own.
        CHECK(event["data"]["url"] == "http://" + lab.sandbox + "-" + std::to_string(port) +
                                          ".localhost:" + std::to_string(lab.server.port()) + "/");
    }
}

TEST_CASE("The ports of a conversation are closed by a pause, and told anew in the next generation") {
    Lab lab;
    lab.listen("127.0.0.1", "5173");
    lab.await("port_opened", 5173);
    lab.api.call(200, "POST", "/v1/conversations/" + lab.id + "/pause", R"({"mode":"cold"})");
    lab.await("port_closed", 5173);
    lab.api.call(200, "POST", "/v1/conversations/" + lab.id + "/resume");
    CHECK(lab.told().size() == 2);
    lab.listen("127.0.0.1", "5173");
    lab.await("port_opened", 5173);
}

// Over 5 s: a flood needs some time to be one.
TEST_CASE("A sandbox that opens and closes thousands of ports does not flood the log, and harms nobody") {
    Lab lab;
    lab.start({"python3", "-c", k_churn});
    const auto began = std::chrono::steady_clock::now();
    std::vector<Json> told;
    // Until it has told something, and some time more.
    while (told.empty() || std::chrono::steady_clock::now() - began < seconds(4)) {
        REQUIRE(std::chrono::steady_clock::now() - began < k_client_deadline);
        told = lab.told();
        CHECK(lab.api.message(lab.id, "echo well").output == "well\n");
    }
    const std::size_t count = lab.told().size();
    const auto passed = std::chrono::steady_clock::now() - began;
    CHECK(count <=
          base::k_port_event_burst + static_cast<std::size_t>(passed / base::k_port_event_interval) + 2);
    CHECK(lab.api.get(lab.id)["status"] == "active");
}

}  // namespace port_events_test
