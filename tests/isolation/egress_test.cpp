// The way out of a sandbox: its own proxy reaches what its list names, and there is no other way.
#include <catch2/catch_test_macros.hpp>

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
