// Whom a sandbox without a network reaches, and which sockets it can make.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace network_test {

using namespace atl::test;

namespace {

Words join(Words first, const Words& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

/// A missing program must not look like a failed program.
void require_program(Sandbox& sandbox, const std::string& name) {
    INFO("the host has no " << name << " in /usr");
    REQUIRE(sandbox.run("command -v " + name).exit_code == 0);
}

}  // namespace

TEST_CASE("Services of the host are out of reach: TCP, abstract and path Unix sockets") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Words& services = lab.services.endpoints();
    REQUIRE(services.size() >= 3);
    CHECK(outside(join({"connect"}, services), ordinary_uid()).others_than({"OK"}) == "");

    Sandbox sandbox(lab);
    const Results inside = sandbox.probe(join({"connect"}, services));
    CHECK(inside.names() == std::set<std::string>(services.begin(), services.end()));
    CHECK(inside.others_than({"ECONNREFUSED", "ENETUNREACH", "ENOENT"}) == "");
}

TEST_CASE("There is no outbound HTTP and no ping") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const std::string address = "http://127.0.0.1:" + lab.services.port() + "/";
    const Words curl = {"curl", "--silent", "--max-time", "60", address};
    const Words ping = {"ping", "-c", "1", "-W", "2", "127.0.0.1"};
    CHECK(run_outside(curl, ordinary_uid()).output == "answer");
    // Which user may ping depends on the host (icmp(7), ping_group_range; capabilities of the program): root
    // may.
    CHECK(run_outside(ping, ::geteuid()).status == 0);
    require_program(sandbox, "curl");
    require_program(sandbox, "ping");

    const Turn fetched = sandbox.run("curl --silent --max-time 60 " + address);
    CHECK(fetched.exit_code.value_or(0) != 0);
    CHECK(fetched.output.empty());
    const Turn pinged = sandbox.run("ping -c 1 -W 2 127.0.0.1");
    CHECK(pinged.exit_code.value_or(0) != 0);
    CHECK(pinged.output.find("1 received") == std::string::npos);
}

TEST_CASE("There is no route to anywhere but the sandbox's own loopback, and no resolver") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    // TEST-NET-1, a name server on the Internet, a cloud's metadata service, a private network.
    const Results routes = sandbox.probe({"routes", "192.0.2.1", "8.8.8.8", "169.254.169.254", "10.0.0.1",
                                          "2001:db8::1", "fe80::1", "127.0.0.1"});
    CHECK(routes["127.0.0.1"] == "OK");
    CHECK(routes.with("OK").size() == 1);
    CHECK(lines_of(sandbox.output("cat /proc/net/route")).size() == 1);  // the heading
    CHECK(sandbox.output("getent hosts localhost") != "");
    CHECK(sandbox.run("getent hosts example.com").exit_code == 2);
}

TEST_CASE("Loopback inside works, between messages too") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const std::string told = sandbox.probe_in_background(
        {"serve", "tcp:5173:127.0.0.1", "tcp:5173:::1", "abstract:own", "unix:/tmp/own.sock"}, "serving");
    const auto serving = Results(told).with("OK");
    CHECK(serving.contains("tcp:5173:127.0.0.1"));
    CHECK(serving.size() >= 3);
    CHECK(sandbox.probe(join({"connect"}, Words(serving.begin(), serving.end()))).others_than({"OK"}) == "");
}

TEST_CASE("The loopback is the only network interface") {
    Lab& lab = each_lab();
    INFO(lab.name);
    REQUIRE(outside({"interfaces"}).names().contains("lo"));
    Sandbox sandbox(lab);
    CHECK(sandbox.probe({"interfaces"}).names() == std::set<std::string>{"lo"});
}

TEST_CASE("node's os.networkInterfaces() works inside and tells of the loopback only") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    if (sandbox.run("command -v node").exit_code != 0)
        SKIP("node is not installed below /usr on this host");
    const std::string told = sandbox.output("node -p 'JSON.stringify(os.networkInterfaces())'");
    const Json interfaces = Json::parse(told);
    REQUIRE(interfaces.size() == 1);
    CHECK(interfaces.contains("lo"));
}

TEST_CASE("Only Unix, Internet and routing sockets can be made") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const Results host = outside({"in-userns", "families"});
    const auto packet = std::to_string(AF_PACKET);
    REQUIRE(host[packet + "/raw"] == "OK");
    REQUIRE(host[packet + "/dgram"] == "OK");

    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"families"});
    CHECK(inside.all().size() == host.all().size());
    std::set<std::string> allowed;
    for (const char* type : {"/stream", "/dgram", "/seqpacket"})
        allowed.insert(std::to_string(AF_UNIX) + type);
    for (const int family : {AF_INET, AF_INET6}) {
        for (const char* type : {"/stream", "/dgram"})
            allowed.insert(std::to_string(family) + type);
    }
    for (const char* type : {"/raw", "/dgram"})
        allowed.insert(std::to_string(AF_NETLINK) + type);
    for (const auto& [name, result] : inside.all()) {
        INFO(name << " " << result);
        // Without IPv6 in the kernel there is nothing to allow.
        CHECK((allowed.contains(name) ? result == host[name] : result != "OK"));
        if (name.starts_with(packet + "/") || name.starts_with(std::to_string(AF_VSOCK) + "/"))
            CHECK(result == "EPERM");
    }
}

TEST_CASE("Sockets to the hypervisor are refused") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const std::string name = std::to_string(AF_VSOCK) + "/stream";
    CHECK(sandbox.probe({"families"})[name] == "EPERM");
    if (outside({"families"})[name] != "OK")
        SKIP("no control: this host's kernel has no vsock");
}

TEST_CASE("Raw sockets are refused, in every disguise") {
    Lab& lab = each_lab();
    INFO(lab.name);
    CHECK(outside({"in-userns", "raw-internet"}).others_than({"OK"}) == "");
    CHECK(outside({"in-userns", "disguises"}).others_than({"OK"}) == "");
    Sandbox sandbox(lab);
    CHECK(sandbox.probe({"raw-internet"}).others_than({"EPERM"}) == "");
    CHECK(sandbox.probe({"disguises"}).others_than({"EPERM"}) == "");
}

TEST_CASE("Of netlink only routing is allowed") {
    Lab& lab = each_lab();
    INFO(lab.name);
    const std::string route = "0";  // NETLINK_ROUTE
    const Results host = outside({"netlink"}, ordinary_uid());
    REQUIRE(host.with("OK").contains(route));
    REQUIRE(host.with("OK").size() >= 3);
    Sandbox sandbox(lab);
    const Results inside = sandbox.probe({"netlink"});
    CHECK(inside.with("OK") == std::set<std::string>{route});
    CHECK(inside.with("EPERM").size() == inside.all().size() - 1);
}

}  // namespace network_test
