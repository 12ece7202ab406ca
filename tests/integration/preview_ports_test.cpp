// Servers inside sandboxes, reached at ports of this machine: previews without a domain.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <SQLiteCpp/Database.h>
#include <sys/socket.h>
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "core/plain/preview_limits.hpp"
#include "tests/support/api_client.hpp"

namespace integration_preview_ports_test {

using namespace atl;
using namespace atl::test;

namespace {

using std::chrono::steady_clock;

constexpr const char* k_before = "http://localhost:";
constexpr const char* k_forget = "\"cache\", \"storage\"";
const HeaderList k_worker_update{{"Accept", "*/*"}, {"Service-Worker", "script"}};
const HeaderList k_navigation{{"Accept", "text/html,*/*"}, {"Sec-Fetch-Mode", "navigate"}};

unsigned short port_of(const Json& url) {
    const std::string text = url;
    REQUIRE(text.starts_with(k_before));
    REQUIRE(text.ends_with('/'));
    return static_cast<unsigned short>(std::stoi(text.substr(std::string(k_before).size())));
}

HttpResponse ask_door(unsigned short port, const HeaderList& headers = {},
                      const std::string& at = "127.0.0.1") {
    HttpClient visitor(at + ":" + std::to_string(port));
    HeaderList all = headers;
    const auto is_host = [](const auto& field) { return field.first == "Host"; };
    if (std::none_of(all.begin(), all.end(), is_host))
        all.emplace_back("Host", "localhost:" + std::to_string(port));
    return visitor.request("GET", "/", "", all);
}

bool connects(unsigned short port, const std::string& at = "127.0.0.1") {
    HttpClient visitor(at + ":" + std::to_string(port));
    try {
        visitor.connect();
        return true;
    } catch (const std::runtime_error&) {
        return false;
    }
}

bool await_refused(unsigned short port) {
    const auto until = steady_clock::now() + k_client_deadline;
    while (connects(port)) {
        if (steady_clock::now() > until)
            return false;
    }
    return true;
}

HttpResponse await_page(unsigned short port, const HeaderList& headers = {}) {
    const auto until = steady_clock::now() + k_client_deadline;
    for (;;) {
        HttpResponse answer = ask_door(port, headers);
        if (answer.status != 503 || steady_clock::now() > until)
            return answer;
    }
}

struct Lab {
    explicit Lab(std::vector<std::string> arguments = {}, std::filesystem::path data_dir = {})
        : server({.arguments = std::move(arguments), .data_dir = std::move(data_dir)}) {}

    void serve(const Json& conversation) {
        const Json wanted{{"command", "echo page of $0 > index.html; exec python3 -m http.server 5173"}};
        api.call(201, "POST", "/v1/sandboxes/" + conversation["sandboxId"].get<std::string>() + "/processes",
                 wanted.dump());
    }
    void pause(const Json& conversation) { act(conversation, "pause", R"({"mode":"cold"})"); }
    void resume(const Json& conversation) { act(conversation, "resume", ""); }
    Json now(const Json& conversation) { return api.get(conversation["id"]); }
    unsigned short port(const Json& conversation) { return port_of(now(conversation)["sandboxPublicUrl"]); }

    ServerProcess server;
    ApiClient api{server};

  private:
    void act(const Json& conversation, const std::string& what, const std::string& body) {
        api.call(200, "POST", "/v1/conversations/" + conversation["id"].get<std::string>() + "/" + what,
                 body);
    }
};

/// A program of another one on this machine. Port 0: one that is free.
base::UniqueFd listen_on(unsigned short port) {
    base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(fd.get(), 1) == 0);
    return fd;
}

}  // namespace

// [serial]: another server could take the port that was given up.
TEST_CASE("Without a domain a preview is a port of this machine's loopback, for its own names alone",
          "[serial]") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    const Json one = lab.api.create();
    const unsigned short port = port_of(one["sandboxPublicUrl"]);
    const std::string number = std::to_string(port);
    CHECK(port >= base::k_first_preview_number);
    CHECK(port < base::k_first_preview_number + base::k_preview_numbers);
    CHECK(code_of(ask_door(port)) == "no_listener");
    lab.serve(one);
    CHECK(await_page(port).status == 200);
    for (const std::string host : {"localhost:", "LOCALHOST:", "127.0.0.1:", "[::1]:"}) {
        INFO(host);
        CHECK(ask_door(port, {{"Host", host + number}}).status == 200);
    }
    const std::vector<std::string> others{
        "attacker.example:" + number,
        "attacker.example",
        "127.0.0.2:" + number,
        "localhost",
        "localhost:1",
        "localhost.:" + number,
        "preview-" + one["sandboxId"].get<std::string>() + ".localhost:" + number};
    for (const std::string& host : others) {
        INFO(host);
        CHECK(ask_door(port, {{"Host", host}}).status == 421);
    }
    if (connects(port, "[::1]"))
        CHECK(ask_door(port, {{"Host", "[::1]:" + number}}, "[::1]").status == 200);
    // All of 127.0.0.0/8 leads here, but not to a listener on 127.0.0.1 alone.
    CHECK_FALSE(connects(port, "127.0.0.2"));
    CHECK(ask_door(port, k_navigation).header("clear-site-data").empty());

    const Json two = lab.api.create();
    const unsigned short other = port_of(two["sandboxPublicUrl"]);
    CHECK(other != port);
    CHECK(code_of(ask_door(other)) == "no_listener");
    lab.api.remove(one["id"]);
    CHECK(await_refused(port));
    CHECK(connects(other));
    CHECK(lab.api.create({{"title", "next"}})["sandboxPublicUrl"] != one["sandboxPublicUrl"]);

    const Json alone = lab.api.call(201, "POST", "/v1/sandboxes", "{}");
    CHECK(code_of(ask_door(port_of(alone["sandboxPublicUrl"]))) == "no_listener");
}

// [serial]: another server could take the port that was given up.
TEST_CASE("A preview's port says that the conversation is paused, for a while, and comes back with it",
          "[serial]") {
    if (!is_root())
        SKIP("needs root");
    {
        Lab lab;
        const Json one = lab.api.create();
        lab.pause(one);
        CHECK(code_of(ask_door(lab.port(one))) == "paused");
        CHECK(ask_door(lab.port(one), k_navigation).header("content-type").starts_with("text/html"));
    }
    Lab lab({"--preview-linger", "1"});
    const Json one = lab.api.create();
    const unsigned short port = lab.port(one);
    lab.pause(one);
    CHECK(await_refused(port));
    CHECK(lab.port(one) == port);
    lab.resume(one);
    CHECK(lab.port(one) == port);
    lab.serve(one);
    CHECK(await_page(port).status == 200);
}

// [serial]: another server could take the port first.
TEST_CASE("A preview's port that another program took is replaced, and the conversation is told",
          "[serial]") {
    if (!is_root())
        SKIP("needs root");
    Lab lab({"--preview-linger", "0"});
    const Json one = lab.api.create();
    const unsigned short port = lab.port(one);
    lab.pause(one);
    REQUIRE(await_refused(port));
    const auto other_program = listen_on(port);
    lab.resume(one);
    const auto until = std::chrono::steady_clock::now() + k_client_deadline;
    unsigned short next = lab.port(one);
    while (next == port && std::chrono::steady_clock::now() < until)
        next = lab.port(one);
    REQUIRE(next != port);
    lab.serve(one);
    CHECK(await_page(next).status == 200);
    Json told;
    for (const Json& event : lab.api.events(one["id"])) {
        if (event["type"] == "preview_changed")
            told.push_back(event["data"]["url"]);
    }
    CHECK(told == Json::array({k_before + std::to_string(next) + "/"}));
    CHECK(lab.server.log().find("Z error evt=") == std::string::npos);
}

// [serial]: another server could take the port meanwhile.
TEST_CASE("A preview keeps its port over a restart, and one that was used before has browsers forget it once",
          "[serial]") {
    if (!is_root())
        SKIP("needs root");
    const TempDir dir;
    Json one;
    unsigned short port = 0;
    {
        Lab lab({}, dir.path());
        one = lab.api.create();
        port = lab.port(one);
        REQUIRE(lab.server.stop() == 0);
    }
    CHECK_FALSE(connects(port));
    {
        SQLite::Database database((dir.path() / "atoll.db").string(), SQLite::OPEN_READWRITE);
        // All other numbers have been used.
        database.exec(
            "WITH RECURSIVE n (number) AS (SELECT 30000 UNION ALL SELECT number + 1 FROM n WHERE number < "
            "39999) INSERT INTO preview_numbers SELECT number, '', number, 0 FROM n WHERE number <> " +
            std::to_string(port));
    }
    Lab lab({}, dir.path());
    CHECK(lab.port(one) == port);
    CHECK(code_of(ask_door(port)) == "paused");
    lab.resume(one);
    CHECK(lab.port(one) == port);
    CHECK(ask_door(port, k_navigation).header("clear-site-data").empty());

    const Json two = lab.api.create();
    const unsigned short again = lab.port(two);
    lab.serve(two);
    // Its files may be parts of a page that the other sandbox left in the cache.
    const HttpResponse script = await_page(again, {{"Accept", "*/*"}});
    CHECK(script.status == 200);
    CHECK(script.header("clear-site-data") == k_forget);
    CHECK(ask_door(again, {{"Accept", "*/*"}}).header("clear-site-data") == k_forget);
    // A request that came to the wrong port does not use the header up.
    HeaderList astray = k_navigation;
    astray.emplace_back("Host", "localhost:" + std::to_string(again));
    const HttpResponse misdirected = ask_door(port, astray);
    CHECK(misdirected.status == 421);
    CHECK(misdirected.header("clear-site-data").empty());
    // A worker that looks for its new script is the first to hear of it where it answers navigations itself.
    CHECK(ask_door(again, k_worker_update).header("clear-site-data") == k_forget);
    CHECK(ask_door(again, k_worker_update).header("clear-site-data").empty());
    CHECK(ask_door(again, k_navigation).header("clear-site-data").empty());
    const Json three = lab.api.create();
    const HttpResponse waiting = ask_door(lab.port(three), k_navigation);
    CHECK(waiting.status == 503);
    CHECK(waiting.header("clear-site-data") == k_forget);
    CHECK(ask_door(lab.port(three), k_navigation).header("clear-site-data").empty());
}

// [serial]: another server could take the port meanwhile.
TEST_CASE(
    "A server with resting previews says why it cannot listen, and listens where one of them had its port",
    "[serial]") {
    const TempDir dir;
    Json one;
    unsigned short port = 0;
    {
        Lab lab({}, dir.path());
        one = lab.api.create();
        port = lab.port(one);
        REQUIRE(lab.server.stop() == 0);
    }
    {
        const base::UniqueFd busy = listen_on(0);
        sockaddr_in bound{};
        socklen_t length = sizeof bound;
        REQUIRE(::getsockname(busy.get(), reinterpret_cast<sockaddr*>(&bound), &length) == 0);
        const std::string taken = "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
        const RunResult refused = run_server({"--data-dir", dir.path().string(), "--listen", taken});
        INFO(refused.output);
        CHECK(refused.status == 1);
        CHECK(refused.output.find("atolld cannot start: Cannot listen on " + taken) != std::string::npos);
    }
    const std::string address = "127.0.0.1:" + std::to_string(port);
    {
        Lab lab({"--listen", address}, dir.path());
        HttpClient server(address);
        CHECK(server.request("GET", "/healthz").status == 200);
        REQUIRE(lab.server.stop() == 0);
    }
    Lab lab({}, dir.path());
    CHECK(lab.port(one) == port);
    CHECK(code_of(ask_door(port)) == "paused");
}

// [serial]: another server could take the port meanwhile.
TEST_CASE("A request to a preview's port wakes a conversation that says so, also after a restart",
          "[serial]") {
    if (!is_root())
        SKIP("needs root");
    const TempDir dir;
    Json willing;
    Json unwilling;
    const auto wakes = [&](Lab& lab) {
        CHECK(lab.now(willing)["status"] == "paused");
        CHECK(code_of(ask_door(lab.port(unwilling))) == "paused");
        CHECK(code_of(ask_door(lab.port(willing))) == "no_listener");
        CHECK(lab.now(willing)["status"] == "active");
        CHECK(lab.now(unwilling)["status"] == "paused");
    };
    {
        Lab lab({}, dir.path());
        willing = lab.api.create({{"preview", {{"wake", true}}}});
        unwilling = lab.api.create();
        lab.pause(willing);
        lab.pause(unwilling);
        wakes(lab);
        REQUIRE(lab.server.stop() == 0);
    }
    Lab lab({}, dir.path());
    wakes(lab);
}

TEST_CASE("A preview's port shows none of the ports that the server holds itself, also to a token") {
    if (!is_root())
        SKIP("needs root");
    Lab lab;
    for (const int port : base::k_reserved_ports) {
        CAPTURE(port);
        const Json wanted{{"agent", "shell"}, {"preview", {{"ports", {port}}}}};
        lab.api.call(422, "POST", "/v1/conversations", wanted.dump());
    }
    const Json one = lab.api.create();
    const unsigned short number = lab.port(one);
    lab.serve(one);
    REQUIRE(await_page(number).status == 200);
    const std::string path = "/v1/conversations/" + one["id"].get<std::string>();
    const Json token = lab.api.call(201, "POST", path + "/tokens", R"({"scope":"preview"})");
    const std::string own = "localhost:" + std::to_string(number);
    HttpClient visitor("127.0.0.1:" + std::to_string(number));
    const HttpResponse entered = visitor.request(
        "GET", "/.atoll/enter?token=" + token["token"].get<std::string>(), "", {{"Host", own}});
    REQUIRE(entered.status == 303);
    const std::string cookie = entered.header("set-cookie");
    const HeaderList pass{{"Cookie", cookie.substr(0, cookie.find(';'))}};
    CHECK(ask_door(number, pass).status == 200);
    for (const int port : base::k_reserved_ports) {
        CAPTURE(port);
        HeaderList astray = pass;
        astray.emplace_back("Host", "localhost:" + std::to_string(port));
        CHECK(ask_door(number, astray).status == 421);
        lab.api.call(422, "PATCH", path, Json{{"preview", {{"ports", {5173, port}}}}}.dump());
    }
}

}  // namespace integration_preview_ports_test
