// The way out of a sandbox: its own proxy reaches what its list names, and there is no other way.
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/isolation/lab.hpp"
#include "tests/support/deadline.hpp"

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

// Opens a tunnel and sends what is no TLS: the status of CONNECT, and what became of the tunnel.
constexpr const char* k_tunnel = R"(
import socket, sys
proxy = socket.create_connection(("127.0.0.1", 3128), 60)
def read_to(end):
    got = b""
    while end not in got:
        piece = proxy.recv(4096)
        if not piece:
            break
        got += piece
    return got
proxy.sendall(("CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n" % sys.argv[1]).encode())
print(read_to(b"\r\n\r\n").split()[1].decode())
try:
    proxy.sendall(b"GET / HTTP/1.0\r\n\r\n")
    print("answer" if read_to(b"answer") else "end")
except ConnectionError:
    print("cut")
)";

// Takes each port that it can get, as soon as it runs.
constexpr const char* k_squatter = R"(
import socket, time
kept = []
for port in (3128, 3130):
    squatter = socket.socket()
    squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        kept.append(squatter)
        open("/workspace/taken-%d" % port, "w").close()
    except OSError:
        pass
open("/workspace/tried", "w").close()
while True:
    time.sleep(60)
)";

// Connections to the proxy that say next to nothing and are not waited for, a hundred at a time.
constexpr const char* k_flood = R"(
import collections, socket, sys
kept = collections.deque()
for i in range(int(sys.argv[1])):
    kept.append(socket.socket())
    kept[-1].setblocking(False)
    kept[-1].connect_ex(("127.0.0.1", 3128))
    try:
        kept[-1].send(b"CONNECT ")
    except OSError:
        pass
    if len(kept) > 100:
        kept.popleft().close()
open("/workspace/flooded", "w").close()
)";

// Has a key in memory.
constexpr const char* k_key_holder = R"(
import time
held = open("/workspace/control.der", "rb").read()
open("/workspace/held", "w").close()
while True:
    time.sleep(60)
)";

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

// A private key of P-256 in DER (RFC 5915 section 3): version 1 and the 32 bytes of the key come first, the
// public key last, also within PKCS #8.
constexpr std::string_view k_key_begin = "\x30\x77\x02\x01\x01\x04\x20";

std::string encoded(EVP_PKEY* key, int (*encode)(const EVP_PKEY*, unsigned char**)) {
    unsigned char* bytes = nullptr;
    const int size = encode(key, &bytes);
    REQUIRE(size > 0);
    const std::string text(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    OPENSSL_free(bytes);
    return text;
}

/// The end of `key` in DER: [1], a BIT STRING without unused bits, the point.
std::string key_end(EVP_PKEY* key) {
    return std::string("\xa1\x44\x03\x42\x00", 5) + encoded(key, &i2d_PublicKey);
}

/// PKCS #8.
std::string pem_of_key(EVP_PKEY* key) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), &BIO_free);
    REQUIRE(PEM_write_bio_PrivateKey(memory.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
    char* text = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &text);
    return {text, static_cast<std::size_t>(size)};
}

/// The public key.
KeyPtr key_of_certificate(const std::string& pem) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> text(
        BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr), &X509_free);
    REQUIRE(certificate != nullptr);
    return {X509_get_pubkey(certificate.get()), &EVP_PKEY_free};
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
            return sandbox.run(std::string(bind).replace(bind.rfind("PORT"), 4, port)).exit_code == 0;
        };
        CHECK(binds("3130"));
        CHECK_FALSE(binds("3128"));
        CHECK(through_proxy(sandbox, address).ends_with(" 403"));
        const std::string route = "/v1/conversations/" + sandbox.id();
        lab.api.call(200, "PATCH", route, reaching({"127.0.0.1:" + services.port()}).dump());
        CHECK(through_proxy(sandbox, address) == "answer 200");
        lab.api.call(200, "PATCH", route, reaching(Json::array()).dump());
        CHECK(through_proxy(sandbox, address).ends_with(" 403"));
        // Connections to the proxy, also those in its backlog, are not counted as the sandbox's.
        const Json metrics = lab.api.call(200, "GET", "/v1/sandboxes/" + sandbox.sandbox_id() + "/metrics");
        CHECK(metrics["sockets"].get<int>() < 16);
        CHECK(sandbox.is_well());
        // Nor before the proxy is there: a process that each generation of the sandbox begins with.
        lab.api.call(201, "POST", "/v1/sandboxes/" + sandbox.sandbox_id() + "/processes",
                     Json{{"argv", {"python3", "-c", k_squatter}}, {"restart", "generation"}}.dump());
        const auto squats_in_vain = [&] {
            CHECK(eventually([&] { return sandbox.run("ls /workspace/tried").exit_code == 0; }));
            CHECK(sandbox.output("cd /workspace && ls taken-*") == "taken-3130");
            CHECK(through_proxy(sandbox, address).ends_with(" 403"));
        };
        squats_in_vain();
        sandbox.output("rm /workspace/taken-* /workspace/tried");
        lab.api.call(200, "POST", route + "/pause", R"({"mode":"cold"})");
        squats_in_vain();
    }
}

TEST_CASE(
    "Beside its proxy, a sandbox with a way out reaches what any other one does, and nobody its proxy") {
    for (const Privilege privilege : privileges()) {
        const HostServices services;
        Lab lab(privilege, {"--egress-private", "127.0.0.1/32:" + services.port(), "--preview-domain",
                            "preview.localhost"});
        INFO(lab.name);
        const std::string listed = "127.0.0.1:" + services.port();
        Json request = reaching({listed});
        request["preview"] = {{"ports", {5174}}};
        Sandbox with(lab, request);
        Sandbox without(lab);
        CHECK(through_proxy(with, "http://" + listed + "/") == "answer 200");
        Words hosts{"connect"};
        hosts.insert(hosts.end(), services.endpoints().begin(), services.endpoints().end());
        CHECK(outside(hosts, ordinary_uid()).others_than({"OK"}) == "");
        CHECK(with.probe(hosts).others_than({"ECONNREFUSED", "ENETUNREACH", "ENOENT"}) == "");
        // By datagrams, as QUIC and DNS go, and IPv6 no more than by IPv4.
        const Results routes = with.probe({"routes", "192.0.2.1", "8.8.8.8", "169.254.169.254", "10.0.0.1",
                                           "2001:db8::1", "fe80::1", "127.0.0.1"});
        CHECK(routes.with("OK") == std::set<std::string>{"127.0.0.1"});
        CHECK(with.probe({"interfaces"}).names() == std::set<std::string>{"lo"});
        for (const char* const attempt : {"families", "raw-internet"})
            CHECK(with.probe({attempt}).all() == without.probe({attempt}).all());
        // The server listens inside at ports of its own alone.
        const std::string listening = "cat /proc/net/tcp* | awk '$4 == \"0A\" {print $2}'";
        std::set<std::string> listeners = lines_of(with.output(listening));
        CHECK(listeners.erase("0100007F:0C38") == 1);  // 127.0.0.1:3128
        listeners.erase("0100007F:0C39");              // 3129, where it has routes
        CHECK(listeners.empty());
        CHECK(lines_of(without.output(listening)).empty());
        HttpClient visitor(lab.server.address());
        const auto status_of_preview = [&](const std::string& port) {
            const std::string host = "preview-" + with.sandbox_id() + '-' + port + ".preview.localhost";
            return visitor.request("GET", "/", "", {{"Host", host}}).status;
        };
        // The control: a port of the list, where nobody listens.
        CHECK(status_of_preview("5174") != 403);
        for (const char* const port : {"3128", "3129"}) {
            CHECK(status_of_preview(port) == 403);
            const std::string wanted = R"({"preview":{"ports":[)" + std::string(port) + "]}}";
            lab.api.call(422, "PATCH", "/v1/conversations/" + with.id(), wanted);
        }
    }
}

TEST_CASE(
    "A sandbox with a way out trusts an issuer of its own, and sees no more of it than the certificate") {
    for (const Privilege privilege : privileges()) {
        const HostServices services;
        Lab lab(privilege, {"--egress-private", "127.0.0.1/32:" + services.port()});
        INFO(lab.name);
        Sandbox other(lab, reaching(Json::array()));
        Sandbox without(lab);
        // The last one: its processes are those that the others do not have.
        Sandbox with(lab, reaching(Json::array()));
        const std::string bundle = "/atoll/certificates.crt";
        CHECK(with.output("printenv SSL_CERT_FILE NODE_EXTRA_CA_CERTS") == bundle + '\n' + bundle);
        const std::string last = "tac " + bundle + " | sed '/BEGIN CERTIFICATE/q' | tac";
        const std::string issuer = with.output(last);
        CHECK(issuer.starts_with("-----BEGIN CERTIFICATE-----\n"));
        CHECK(other.output(last) != issuer);
        // It stands behind the issuers of the host, also where programs look without a variable.
        const std::string usual = "/etc/ssl/certs/ca-certificates.crt";
        if (const std::string hosts = read_host_file(usual); !hosts.empty()) {
            CHECK(with.output("cat " + usual) == with.output("cat " + bundle));
            CHECK(with.output("head -c " + std::to_string(hosts.size()) + ' ' + usual + " | md5sum") ==
                  without.output("md5sum < " + usual));
        }
        CHECK(with.run("echo x >> " + bundle + " || echo x >> " + usual + " || rm " + bundle).exit_code != 0);
        CHECK(without.run("test -e " + bundle).exit_code == 1);
        CHECK(without.run("printenv SSL_CERT_FILE").exit_code == 1);
        // No file and no memory inside has its key, by its encoded end or by any encoded beginning; the
        // search finds another key of the same kind.
        const KeyPtr control(EVP_EC_gen("P-256"), &EVP_PKEY_free);
        const std::string der = encoded(control.get(), &i2d_PrivateKey);
        REQUIRE(der.starts_with(k_key_begin));
        with.put("control.der", der);
        with.put("control.pem", pem_of_key(control.get()));
        lab.api.call(201, "POST", "/v1/sandboxes/" + with.sandbox_id() + "/processes",
                     Json{{"argv", {"python3", "-c", k_key_holder}}}.dump());
        REQUIRE(eventually([&] { return with.run("ls /workspace/held").exit_code == 0; }));
        const Findings found = with.find({{"own", key_end(key_of_certificate(issuer).get())},
                                          {"control", key_end(control.get())},
                                          {"begin", std::string(k_key_begin)},
                                          {"pem", "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEH"}});
        CHECK(found.at("own").empty());
        CHECK(found.at("control").contains("/workspace/control.der"));
        CHECK(found.at("begin") == found.at("control"));
        CHECK(found.at("pem") == std::set<std::string>{"/workspace/control.pem"});
        if (is_root())
            CHECK(has_place(found.at("control"), "/mem"));
    }
}

TEST_CASE("A tunnel is for TLS, a name for public addresses, and no variable of a request widens either") {
    const HostServices services;
    Lab lab(Privilege::as_started, {"--egress-private", "127.0.0.1/32:" + services.port()});
    const std::string listed = "127.0.0.1:" + services.port();
    const std::string own = lab.server.address().substr(lab.server.address().rfind('/') + 1);
    const std::string own_port = own.substr(own.rfind(':'));
    Json request = reaching({listed});
    request["env"] = {{"HTTP_PROXY", "http://127.0.0.1:9"},
                      {"NO_PROXY", "*"},
                      {"ATOLL_EGRESS_ALLOW", "*"},
                      {"RES_OPTIONS", "debug"}};
    Sandbox sandbox(lab, request);
    sandbox.put("tunnel.py", k_tunnel);
    const auto tunnel = [&](const std::string& target) {
        return sandbox.output("python3 /workspace/tunnel.py " + target);
    };
    CHECK(sandbox.output("printenv HTTP_PROXY NO_PROXY") == "http://127.0.0.1:9\n*");
    CHECK(tunnel(listed) == "200\ncut");
    CHECK(tunnel(own).starts_with("403\n"));
    const std::string route = "/v1/conversations/" + sandbox.id();
    // The server's own listener cannot be listed, also not by a name that leads to it.
    lab.api.call(403, "PATCH", route, reaching({own}).dump());
    const Json names = reaching({listed + "/tcp", "localhost:" + services.port(), "localhost" + own_port});
    lab.api.call(200, "PATCH", route, names.dump());
    CHECK(tunnel(listed) == "200\nanswer");
    CHECK(through_proxy(sandbox, "http://localhost:" + services.port() + "/") == "answer 200");
    CHECK(through_proxy(sandbox, "http://localhost" + own_port + "/v1/system").ends_with(" 403"));
    CHECK(sandbox.is_well());
}

TEST_CASE("Connections without number to a proxy take nothing from another sandbox's, nor from the API") {
    const HostServices services;
    Lab lab(Privilege::as_started, {"--egress-private", "127.0.0.1/32:" + services.port()});
    const std::string address = "http://127.0.0.1:" + services.port() + "/";
    Sandbox attacker(lab, reaching({"127.0.0.1:" + services.port()}));
    Sandbox neighbour(lab, reaching({"127.0.0.1:" + services.port()}));
    const std::string count = checks_bounds() ? "10000" : "2000";
    lab.api.call(201, "POST", "/v1/sandboxes/" + attacker.sandbox_id() + "/processes",
                 Json{{"argv", {"python3", "-c", k_flood, count}}}.dump());
    CHECK(eventually([&] {
        CHECK(through_proxy(neighbour, address) == "answer 200");
        return attacker.run("ls /workspace/flooded").exit_code == 0;
    }));
    CHECK(attacker.is_well());
    CHECK(eventually([&] { return through_proxy(attacker, address) == "answer 200"; }));
}

}  // namespace isolation_egress_test
