// HTTPS as an operator sets it up and clients meet it: flags, files, reload, streams.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <fstream>

#include "tests/support/api_client.hpp"
#include "tests/support/test_certificate.hpp"
#include "tests/support/websocket_client.hpp"

namespace tls_test {

using namespace atl::test;

namespace {

/// A folder with a certificate for a.example, and the server options that use it.
struct TlsFiles {
    TlsFiles() : paths(write_certificate(dir.path(), make_certificate("a.example"))) {
        options.arguments = {"--tls-cert", paths.certificate.string(), "--tls-key", paths.key.string()};
    }

    TempDir dir;
    CertificatePaths paths;
    ServerOptions options;
};

std::string name_shown_to(HttpClient& client) {
    client.connect();
    return client.tls()->server_name();
}

std::size_t count(const std::string& text, const std::string& word) {
    std::size_t found = 0;
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        ++found;
    return found;
}

/// Waits until the server has logged `word` so often.
bool logs(const ServerProcess& server, const std::string& word, std::size_t times) {
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    ApiClient api(server);
    while (count(server.log(), word) < times) {
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        api.http().request("GET", "/healthz");  // a turn of the server's loop
    }
    return true;
}

std::string message(const std::string& content) {
    return Json{{"type", "message"}, {"content", content}}.dump();
}

std::vector<Json> follow(WebSocketClient& socket, const std::string& until) {
    std::vector<Json> events;
    do
        events.push_back(Json::parse(socket.next_text()));
    while (events.back()["type"] != until);
    return events;
}

void check_refusal(const std::vector<std::string>& arguments, int status,
                   const std::vector<std::string>& words) {
    const TempDir dir;
    std::vector<std::string> all{"--data-dir", (dir.path() / "data").string(), "--listen", "127.0.0.1:0"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const RunResult result = run_server(all);
    INFO(result.output);
    CHECK(result.status == status);
    for (const auto& word : words)
        CHECK(result.output.find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("With a certificate the server is HTTPS: API, streams and the printed addresses") {
    const TlsFiles files;
    const ServerProcess server(files.options);
    const std::string url = "https://127.0.0.1:" + std::to_string(server.port());
    CHECK(server.address() == url);
    CHECK(server.printed().find("console         " + url + "/\n") != std::string::npos);
    CHECK(server.printed().find("http://") == std::string::npos);
    CHECK(server.log().find("evt=tls_loaded") != std::string::npos);
    ApiClient api(server);
    CHECK(name_shown_to(api.http()) == "a.example");
    const std::string id = api.create()["id"];
    CHECK(api.message(id, "seq 3").output == "1\n2\n3\n");
    HttpClient anyone(server.address());
    CHECK(anyone.request("GET", "/").header("content-type") == "text/html; charset=utf-8");
    HttpClient plain("127.0.0.1:" + std::to_string(server.port()));
    const auto refused = plain.request("GET", "/healthz");
    CHECK(refused.status == 400);
    CHECK(refused.body.find("https://") != std::string::npos);
}

TEST_CASE("A WebSocket over TLS carries a long turn to a slow reader, whole") {
    const TlsFiles files;
    const ServerProcess server(files.options);
    ApiClient api(server);
    const std::string id = api.create()["id"];
    const std::string target = "/v1/conversations/" + id + "/ws?after=0";
    WebSocketClient slow(api.connect(), target);
    WebSocketClient fast(api.connect(), target);
    // More than the buffers of a socket hold: until `slow` reads, the server has to wait for it.
    fast.send_text(message("seq 500000"));
    const auto events = follow(fast, "done");
    CHECK(summarise(events).output.ends_with("\n499999\n500000\n"));
    CHECK(follow(slow, "done") == events);
    slow.send_text(message("echo again"));
    CHECK(summarise(follow(slow, "done")).output == "again\n");
}

TEST_CASE("SIGHUP shows a new certificate to new connections, and a WebSocket stays open") {
    TlsFiles files;
    const ServerProcess server(files.options);
    ApiClient api(server);
    const std::string id = api.create()["id"];
    WebSocketClient socket(api.connect(), "/v1/conversations/" + id + "/ws?after=0");
    socket.send_text(message("echo before"));
    CHECK(summarise(follow(socket, "done")).output == "before\n");

    write_certificate(files.dir.path(), make_certificate("b.example"));
    server.signal(SIGHUP);
    REQUIRE(logs(server, "evt=tls_loaded", 2));
    HttpClient fresh(server.address());
    CHECK(name_shown_to(fresh) == "b.example");
    CHECK(socket.http().tls()->server_name() == "a.example");
    socket.send_text(message("echo after"));
    CHECK(summarise(follow(socket, "done")).output == "after\n");

    SECTION("a certificate that is no good changes nothing and is told, until a good one comes") {
        std::ofstream(files.paths.certificate) << "not a certificate";
        server.signal(SIGHUP);
        REQUIRE(logs(server, "evt=tls_refused", 1));
        CHECK(server.log().find("cert.pem") != std::string::npos);
        CHECK(name_shown_to(fresh) == "b.example");
        write_certificate(files.dir.path(), make_certificate("c.example"));
        server.signal(SIGHUP);
        REQUIRE(logs(server, "evt=tls_loaded", 3));
        CHECK(name_shown_to(fresh) == "c.example");
    }
}

TEST_CASE("A server with TLS ends gracefully, also while a handshake hangs") {
    const TlsFiles files;
    ServerProcess server(files.options);
    HttpClient hanging("127.0.0.1:" + std::to_string(server.port()));
    hanging.send_raw(std::string("\x16\x03\x01\x02\x00", 5));
    ApiClient api(server);
    WebSocketClient socket(api.connect(), "/v1/conversations/" + std::string(api.create()["id"]) + "/ws");
    CHECK(server.stop() == 0);
    CHECK(socket.await_close().close_code() == 1001);
}

TEST_CASE("Certificates that cannot be used keep the server from starting, and it says why") {
    const TlsFiles files;
    const std::string cert = files.paths.certificate.string();
    const std::string key = files.paths.key.string();
    const TempDir other;
    const auto stranger = write_certificate(other.path(), make_certificate("b.example"));
    check_refusal({"--tls-cert", cert}, 2, {"--tls-cert", "--tls-key"});
    check_refusal({"--tls-key", key}, 2, {"--tls-cert", "--tls-key"});
    check_refusal({"--tls-cert", "/no/such.pem", "--tls-key", key}, 1, {"/no/such.pem", "--tls-cert"});
    check_refusal({"--tls-cert", cert, "--tls-key", "/no/such.key"}, 1, {"/no/such.key", "--tls-key"});
    check_refusal({"--tls-cert", key, "--tls-key", key}, 1, {key, "no certificate"});
    check_refusal({"--tls-cert", cert, "--tls-key", cert}, 1, {cert, "no private key"});
    check_refusal({"--tls-cert", cert, "--tls-key", stranger.key.string()}, 1,
                  {stranger.key.string(), "is not the key"});
}

TEST_CASE("A key that every user can read is warned of, and the environment names the files too") {
    const TlsFiles files;
    ::chmod(files.paths.key.c_str(), 0644);
    ServerOptions options;
    options.environment = {{"ATOLL_TLS_CERT", files.paths.certificate.string()},
                           {"ATOLL_TLS_KEY", files.paths.key.string()}};
    const ServerProcess server(options);
    CHECK(server.address().starts_with("https://"));
    CHECK(server.log().find("evt=tls_warning") != std::string::npos);
    CHECK(server.log().find("0600") != std::string::npos);
}

}  // namespace tls_test
