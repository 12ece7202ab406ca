// The way out of a sandbox: its own proxy reaches what its list names, and there is no other way.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/isolation/lab.hpp"

namespace isolation_egress_test {

using namespace atl::test;

namespace {

// The status and the body, through the proxy of the sandbox.
std::string through_proxy(Sandbox& sandbox, const std::string& address) {
    return sandbox
        .run(
            "curl --silent --max-time 60 --noproxy '' --proxy http://127.0.0.1:3128 --write-out ' "
            "%{http_code}' " +
            address)
        .output;
}

/// The lines of a file of --egress-log.
std::vector<Json> records_of(const std::string& file) {
    std::istringstream text(read_host_file(file));
    std::vector<Json> records;
    for (std::string line; std::getline(text, line);)
        records.push_back(Json::parse(line));
    return records;
}

Json reaching(const Json& allow) {
    return {{"network", {{"mode", "egress"}, {"allow", allow}}}};
}

}  // namespace

TEST_CASE(
    "A sandbox with a way out reaches what it lists, through its proxy alone, and another one does not") {
    for (const Privilege privilege : privileges()) {
        const HostServices services;
        Lab lab(privilege, {"--egress-private", "127.0.0.1/32:" + services.port()});
        INFO(lab.name);
        const std::string address = "http://127.0.0.1:" + services.port() + "/";
        Sandbox with(lab, reaching({"127.0.0.1:" + services.port()}));
        CHECK(with.conversation()["enforcement"]["network"] == "egress");
        CHECK(with.conversation()["enforcement"]["sockets"] == "count");
        CHECK(through_proxy(with, address) == "answer 200");
        // Other ports of the host are as far as before, the server's own among them.
        const std::string refused = through_proxy(with, lab.server.address());
        CHECK(refused.ends_with(" 403"));
        // Beside the proxy there is nothing.
        CHECK(with.run("curl --silent --max-time 60 --noproxy '*' " + address).output.empty());
        CHECK(with.run("getent hosts example.com").exit_code == 2);
        CHECK(lines_of(with.output("cat /proc/net/route")).size() == 1);  // the heading

        Sandbox other(lab, reaching(Json::array()));
        CHECK(through_proxy(other, address).ends_with(" 403"));
        Sandbox without(lab);
        CHECK(without.conversation()["enforcement"]["network"] == "netns");
        CHECK(through_proxy(without, address) == " 000");
        CHECK(through_proxy(with, address) == "answer 200");
    }
}

TEST_CASE(
    "What a sandbox reaches and what it is refused is told in its log, counted, and written to a file") {
    for (const Privilege privilege : privileges()) {
        const HostServices services;
        const TempDir folder;
        std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
        const std::string file = folder.path() / "egress.log";
        Lab lab(privilege, {"--egress-private", "127.0.0.1/32:" + services.port(), "--egress-log", file});
        INFO(lab.name);
        const std::string address = "http://127.0.0.1:" + services.port() + "/";
        Sandbox sandbox(lab, reaching({"127.0.0.1:" + services.port()}));
        CHECK(through_proxy(sandbox, address) == "answer 200");
        CHECK(through_proxy(sandbox, "http://refused.example/").ends_with(" 403"));
        Json closed;
        Json denied;
        for (const Json& event : lab.api.events(sandbox.id())) {
            if (event["type"] == "egress_closed")
                closed = event;
            else if (event["type"] == "egress_denied")
                denied = event;
        }
        REQUIRE(closed.is_object());
        CHECK(closed["turn"].is_null());
        CHECK(closed["data"]["host"] == "127.0.0.1");
        CHECK(std::to_string(closed["data"]["port"].get<int>()) == services.port());
        CHECK(closed["data"]["bytesDown"].get<int>() > 6);
        REQUIRE(denied.is_object());
        CHECK(denied["data"] == Json{{"host", "refused.example"}, {"port", 80}, {"reason", "not_listed"}});
        const std::string metrics = lab.api.http().request("GET", "/metrics").body;
        CHECK(metrics.find("\natoll_egress_denied_total{reason=\"not_listed\"} 1\n") != std::string::npos);
        CHECK(metrics.find("\natoll_egress_requests_total{decision=\"allowed\"} 1\n") != std::string::npos);
        CHECK(metrics.find("\natoll_egress_open 0\n") != std::string::npos);
        const auto lines = records_of(file);
        REQUIRE(lines.size() == 2);
        CHECK(lines[0]["decision"] == "allowed");
        CHECK(lines[1]["reason"] == "not_listed");
        CHECK(lines[1]["conversation"] == sandbox.id());

        // A sandbox without a conversation has its own log.
        const Json box = lab.api.call(201, "POST", "/v1/sandboxes", reaching(Json::array()).dump());
        const std::string route = "/v1/sandboxes/" + box["id"].get<std::string>();
        lab.api.call(
            200, "POST", route + "/exec",
            Json{{"command", "curl --silent --noproxy '' --proxy http://127.0.0.1:3128 " + address}}.dump());
        CHECK(lab.api.call(200, "GET", route + "/logs").dump().find("egress_denied") != std::string::npos);

        // A log rotation.
        std::filesystem::rename(file, file + ".1");
        lab.server.signal(SIGHUP);
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        while (lab.server.log().find("evt=egress_log_reopened") == std::string::npos &&
               std::chrono::steady_clock::now() < until)
            lab.api.http().request("GET", "/healthz");
        CHECK(through_proxy(sandbox, "http://refused.example/").ends_with(" 403"));
        CHECK(records_of(file).size() == 1);
        CHECK(records_of(file + ".1").size() == 3);
    }
}

TEST_CASE("No program inside can take the place of the proxy, and a list is changed while it runs") {
    for (const Privilege privilege : privileges()) {
        const HostServices services;
        Lab lab(privilege, {"--egress-private", "127.0.0.1/32:" + services.port()});
        INFO(lab.name);
        const std::string address = "http://127.0.0.1:" + services.port() + "/";
        Sandbox sandbox(lab, reaching(Json::array()));
        const std::string bind =
            "python3 -c 'import socket; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, "
            "socket.SO_REUSEPORT, 1); "
            "s.bind((\"127.0.0.1\", PORT)); s.listen()'";
        const auto binds = [&](const std::string& port) {
            return sandbox.run(std::string(bind).replace(bind.find("PORT"), 4, port)).exit_code == 0;
        };
        CHECK(binds("3130"));
        CHECK_FALSE(binds("3128"));
        CHECK(through_proxy(sandbox, address).ends_with(" 403"));
        const std::string route = "/v1/conversations/" + sandbox.id();
        lab.api.call(200, "PATCH", route, reaching({"127.0.0.1:" + services.port()}).dump());
        CHECK(through_proxy(sandbox, address) == "answer 200");
        lab.api.call(200, "PATCH", route, reaching(Json::array()).dump());
        CHECK(through_proxy(sandbox, address).ends_with(" 403"));
        // What is open to the proxy, and what waits in its backlog, is not the sandbox's.
        const Json metrics = lab.api.call(200, "GET", "/v1/sandboxes/" + sandbox.sandbox_id() + "/metrics");
        CHECK(metrics["sockets"].get<int>() < 16);
        CHECK(sandbox.is_well());
    }
}

}  // namespace isolation_egress_test
