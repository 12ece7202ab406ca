// The network of the host: only where the operator allows it and the request asks for it.
#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace host_network_test {

using namespace atl::test;

namespace {

Words connect_to(const Words& services) {
    Words words{"connect"};
    for (const auto& service : services) {
        if (!service.starts_with("unix:"))
            words.push_back(service);
    }
    return words;
}

}  // namespace

TEST_CASE("The host's network is refused by a server that was not told to allow it") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Json request = {{"network", "host"}};
    for (const char* route : {"/v1/conversations", "/v1/sandboxes"}) {
        const auto response = lab.api.http().request("POST", route, request.dump());
        CHECK(response.status == 403);
        CHECK(Json::parse(response.body)["code"] == "network_not_allowed");
    }
    Sandbox sandbox(lab);
    CHECK(sandbox.conversation()["network"] == "none");
    CHECK(sandbox.conversation()["enforcement"]["network"] == "netns");
}

TEST_CASE("The host's network is had by those who ask for it where it is allowed, and by nobody else") {
    for (const Privilege privilege : privileges()) {
        Lab lab(privilege, {"--allow-host-network"});
        INFO(lab.name);
        const Words words = connect_to(lab.services.endpoints());
        REQUIRE(words.size() >= 3);

        Sandbox with(lab, {{"network", "host"}});
        CHECK(with.conversation()["network"] == "host");
        CHECK(with.conversation()["enforcement"]["network"] == "host");
        CHECK(with.probe(words).others_than({"OK"}) == "");
        const std::string path = "unix:" + lab.services.socket_path().string();
        CHECK(with.probe({"connect", path})[path] == "ENOENT");

        Sandbox without(lab);
        CHECK(without.conversation()["enforcement"]["network"] == "netns");
        CHECK(without.probe(words).with("OK").empty());
    }
}

TEST_CASE("A sandbox with the host's network is confined in everything else") {
    for (const Privilege privilege : privileges()) {
        Lab lab(privilege, {"--allow-host-network"});
        INFO(lab.name);
        Sandbox sandbox(lab, {{"network", "host"}});
        CHECK(sandbox.probe({"raw-internet"}).others_than({"EPERM"}) == "");
        CHECK(sandbox.probe({"netlink"}).with("OK").size() == 1);
        CHECK(sandbox.probe({"families"}).with("OK").size() <= 9);
        CHECK(sandbox.probe({"namespaces"}).with("OK").empty());
        CHECK(sandbox.probe({"status"})["CapBnd"] == std::string(16, '0'));
        const std::string data = lab.server.data_dir();
        CHECK(sandbox.probe({"read", data})[data] == "ENOENT");
        CHECK(sandbox.probe({"put", "1", "/proc/sys/net/ipv4/ip_forward"}).with("OK").empty());
        CHECK(sandbox.output("id -u") == "1000");
        // The API is there now, but the key is not.
        const std::string api = "http://127.0.0.1:" + std::to_string(lab.server.port());
        CHECK(sandbox.output("curl --silent --max-time 60 -o /dev/null -w '%{http_code}' " + api +
                             "/healthz") == "200");
        CHECK(sandbox.output("curl --silent --max-time 60 -o /dev/null -w '%{http_code}' " + api +
                             "/v1/conversations") == "401");
    }
}

}  // namespace host_network_test
