// Who is let in to previews, and what is said to the others.
#include "http/proxy/preview_service.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/support/result_printer.hpp"
#include "tests/unit/http/preview_house.hpp"
#include "tests/unit/http/proxy_lab.hpp"

namespace preview_service_test {

using namespace atl;
using namespace atl::test;
using namespace std::chrono_literals;
using base::Errc;

TEST_CASE(
    "A listener of previews gives an address so many connections, a trusted proxy as many as it wants") {
    http::PreviewSettings settings;
    settings.names = http::PreviewNames::make("preview.example", "preview-{id}").value();
    settings.trusted_proxies.add("192.0.2.1");
    settings.limits.connections_per_address = 2;
    PreviewHouse lab(settings);
    const http::PeerAddress one = http::parse_address("203.0.113.9");
    const http::PeerAddress other = http::parse_address("203.0.113.10");
    const http::PeerAddress proxy = http::parse_address("192.0.2.1");
    const auto first = lab.service().connect(one);
    CHECK(first.has_value());
    {
        const auto second = lab.service().connect(one);
        CHECK(second.has_value());
        const auto third = lab.service().connect(one);
        REQUIRE(third.has_error());
        CHECK(third.error().code() == Errc::too_many_connections);
        CHECK(lab.service().connect(other).has_value());
    }
    CHECK(lab.service().connect(one).has_value());
    std::vector<http::CountLimiter::Lease> of_proxy;
    for (int i = 0; i < 3; ++i) {
        auto lease = lab.service().connect(proxy);
        REQUIRE(lease.has_value());
        of_proxy.push_back(std::move(*lease));
    }
}

TEST_CASE("A method that a preview does not take is refused with those that there are") {
    const auto [line, allow] = GENERATE(table<std::string, std::string>({
        {"TRACE /", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"},
        {"CONNECT /", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"},
        {"HEAD /.atoll/enter?token=x", "GET"},
        {"DELETE /.atoll/enter", "GET"},
    }));
    CAPTURE(line);
    PreviewHouse lab;
    const std::string number = lab.number(lab.make_sandbox());
    const std::string answer =
        lab.ask(*lab.connect(number), line + " HTTP/1.1\r\nHost: localhost:" + number + "\r\n\r\n");
    CHECK(answer.starts_with("HTTP/1.1 405 "));
    CHECK(has(answer, "\r\nAllow: " + allow + "\r\n"));
}

TEST_CASE("Where a preview cannot be shown a browser gets a page that says why, everything else a problem") {
    const bool is_page = GENERATE(true, false);
    CAPTURE(is_page);
    http::PreviewSettings settings;
    const auto get = [&](const std::string& host, const std::string& path = "/") {
        return "GET " + path + " HTTP/1.1\r\nHost: " + host +
               "\r\nAccept: " + (is_page ? "text/html,*/*" : "*/*") + "\r\n\r\n";
    };
    std::string answer;
    std::string code;
    std::string headline;
    bool may_pass = false;
    SECTION("of a dev server that breaks HTTP") {
        PreviewHouse lab;
        const std::string number = lab.number(lab.make_sandbox());
        answer = lab.ask(*lab.connect(number), get("localhost:" + number), "nothing\r\n\r\n");
        CHECK(answer.starts_with("HTTP/1.1 502 "));
        code = "upstream_failed";
        headline = "The server in the sandbox broke off its answer";
        may_pass = true;
    }
    SECTION("of one that does not answer") {
        PreviewHouse lab;
        const std::string number = lab.number(lab.make_sandbox());
        const auto client = lab.connect(number);
        CHECK(lab.ask(*client, get("localhost:" + number)).empty());
        lab.advance(base::k_relay_answer_time + 2s);
        answer = client->take();
        CHECK(answer.starts_with("HTTP/1.1 504 "));
        code = "deadline_exceeded";
        headline = "The server in the sandbox did not answer in time";
        may_pass = true;
    }
    SECTION("of a port that is not listed") {
        settings.names =
            http::PreviewNames::make("preview.example", "preview-{id},preview-{id}-{port}").value();
        PreviewHouse lab(settings);
        const std::string host = "preview-" + lab.make_sandbox() + "-9999.preview.example";
        answer = lab.ask(*lab.connect("80"), get(host));
        CHECK(answer.starts_with("HTTP/1.1 403 "));
        code = "port_not_public";
        headline = "This port is not shown";
    }
    SECTION("of a path that is the server's own") {
        PreviewHouse lab;
        const std::string number = lab.number(lab.make_sandbox());
        answer = lab.ask(*lab.connect(number), get("localhost:" + number, "/.atoll/none"));
        CHECK(answer.starts_with("HTTP/1.1 404 "));
        code = "not_found";
        headline = "There is no preview here";
    }
    SECTION("of a sandbox that has ended") {
        PreviewHouse lab;
        answer = lab.ask(*lab.connect("39999"), get("localhost:39999"));
        CHECK(answer.starts_with("HTTP/1.1 410 "));
        code = "preview_ended";
        headline = "This preview has ended";
    }
    CHECK(has(answer, is_page ? "text/html; charset=utf-8\r\n" : "application/problem+json"));
    CHECK(has(answer, "<h1>" + headline + "</h1>") == is_page);
    CHECK(has(answer, "\"code\":\"" + code + "\"") != is_page);
    CHECK(has(answer, R"({"type":"about:blank",)") != is_page);
    // Something has got the request: a page that waits is loaded again.
    CHECK_FALSE(has(answer, "X-Atoll-Preview: "));
    CHECK(has(answer, "<script>") == (is_page && may_pass));
}

TEST_CASE("A page that asks by HEAD is told to wait on only where no dev server has got the request") {
    PreviewHouse lab;
    const auto head = [](const std::string& number) {
        return "HEAD / HTTP/1.1\r\nHost: localhost:" + number + "\r\n\r\n";
    };
    std::string answer;
    bool waits = false;
    SECTION("of a conversation that is paused") {
        const std::string number = lab.number(lab.make_sleeper());
        answer = lab.ask(*lab.connect(number), head(number));
        CHECK(answer.starts_with("HTTP/1.1 503 "));
        waits = true;
    }
    SECTION("of one that breaks HTTP where it is asked by HEAD") {
        const std::string number = lab.number(lab.make_sandbox());
        answer = lab.ask(*lab.connect(number), head(number), "nothing\r\n\r\n");
        CHECK(answer.starts_with("HTTP/1.1 502 "));
    }
    SECTION("of one that does not answer HEAD") {
        const std::string number = lab.number(lab.make_sandbox());
        const auto client = lab.connect(number);
        CHECK(lab.ask(*client, head(number)).empty());
        lab.advance(base::k_relay_answer_time + 2s);
        answer = client->take();
        CHECK(answer.starts_with("HTTP/1.1 504 "));
    }
    CHECK(has(answer, "X-Atoll-Preview: paused\r\n") == waits);
}

TEST_CASE(
    "While a wake does not end a browser gets the page after 0.7 s, everything else is told after 10 s") {
    const auto [accept, wait, text] = GENERATE(table<std::string, base::Millis, std::string>({
        {"text/html,*/*", 700ms, "<h1>This conversation is paused</h1>"},
        {"*/*", 10s, "\"code\":\"paused\""},
    }));
    CAPTURE(accept);
    PreviewHouse lab;
    const std::string number = lab.number(lab.make_sleeper());
    lab.hold_starts();
    const auto client = lab.connect(number);
    const std::string request =
        "GET / HTTP/1.1\r\nHost: localhost:" + number + "\r\nAccept: " + accept + "\r\n\r\n";
    CHECK(lab.ask(*client, request).empty());
    lab.advance(wait - 1ms);
    CHECK(client->take().empty());
    lab.advance(1ms);
    const std::string answer = client->take();
    CHECK(answer.starts_with("HTTP/1.1 503 "));
    CHECK(has(answer, text));
    CHECK(has(answer, "X-Atoll-Preview: paused\r\n"));
    CHECK(lab.requests() == 0);
}

TEST_CASE("A request at the port of a paused conversation wakes it, and goes to the dev server then") {
    PreviewHouse lab;
    const std::string number = lab.number(lab.make_sleeper());
    const std::string answer =
        lab.ask(*lab.connect(number), navigation(number), "HTTP/1.1 204 No Content\r\n\r\n");
    CHECK(answer.starts_with("HTTP/1.1 204 "));
}

TEST_CASE("Who goes on sending what no preview takes is told so often and not more, a trusted proxy always") {
    const auto [status, bad] = GENERATE(table<std::string, std::string>({
        {"405", "TRACE / HTTP/1.1\r\nHost: localhost:HERE\r\n\r\n"},
        {"405", "PUT /.atoll/enter HTTP/1.1\r\nHost: localhost:HERE\r\nContent-Length: 0\r\n\r\n"},
        {"400", "no request\r\n\r\n"},
        {"414", "GET /" + std::string(20'000, 'a')},
        {"431", "GET / HTTP/1.1\r\nX-A: " + std::string(20'000, 'a')},
        {"408", "GET / HTTP/1.1\r\nX-A: "},
    }));
    const bool is_trusted = GENERATE(false, true);
    CAPTURE(bad.substr(0, 40), is_trusted);
    http::PreviewSettings settings;
    settings.limits.requests_per_second_per_address = 1;
    settings.limits.loopback = http::LoopbackLimits::as_others;
    if (is_trusted)
        settings.trusted_proxies.add("127.0.0.1");
    PreviewHouse lab(settings);
    const std::string number = lab.number(lab.make_sandbox());
    std::string request = bad;
    if (const auto at = request.find("HERE"); at != std::string::npos)
        request.replace(at, 4, number);
    std::vector<std::shared_ptr<FakePeer>> clients;
    for (int i = 0; i < 5; ++i) {
        clients.push_back(lab.connect(number));
        clients.back()->send(request);
        lab.run();
    }
    if (status == "408")
        lab.advance(http::WireSettings{}.header_deadline);
    std::vector<std::string> statuses;
    for (const auto& client : clients)
        statuses.push_back(client->take().substr(9, 3));
    const std::string last = is_trusted ? status : "429";
    CHECK(statuses == std::vector<std::string>{status, status, last, last, last});
}

TEST_CASE(
    "A port that no request listed is shown at its name of this machine, where the server has such names") {
    const bool has_names = GENERATE(true, false);
    CAPTURE(has_names);
    http::PreviewSettings settings;
    if (has_names)
        settings.port_names = http::PreviewNames::make("localhost", "{id}-{port}").value();
    PreviewHouse lab(settings);
    sandbox::PreviewSettings preview;
    preview.any_port = true;
    const auto ask_host = [&lab](const std::string& host, std::string_view then = "") {
        return lab.ask(*lab.connect("4100"), "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", then);
    };
    const auto ask = [&](const std::string& sandbox, int port, std::string_view then = "") {
        return ask_host(sandbox + "-" + std::to_string(port) + ".localhost:4100", then);
    };
    const std::string open = lab.make_sandbox(preview);
    if (!has_names) {
        CHECK(ask(open, 8000).starts_with("HTTP/1.1 421 "));
        return;
    }
    CHECK(ask(open, 8000, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").ends_with("hi"));
    CHECK(ask(open, base::k_reserved_ports.front()).starts_with("HTTP/1.1 403 "));
    // A page of another name cannot make that name mean this port, and no field of a proxy counts.
    for (const std::string& host :
         {open + "-8000.evil.example:4100", open + "-8000.localhost.evil.example:4100",
          "x." + open + "-8000.localhost:4100", open + "-8000.preview.localhost:4100",
          "evil.example:4100\r\nX-Forwarded-Host: " + open + "-8000.localhost:4100",
          "evil.example:4100\r\nForwarded: host=" + open + "-8000.localhost:4100"}) {
        CAPTURE(host);
        CHECK(ask_host(host).starts_with("HTTP/1.1 421 "));
    }
    sandbox::PreviewSettings hidden = preview;
    hidden.access = sandbox::PreviewAccess::token_bearers;
    CHECK_FALSE(ask(lab.make_sandbox(hidden), 8000).starts_with("HTTP/1.1 200 "));
    CHECK(lab.requests() == 1);
    // A request that names ports means them alone.
    CHECK(ask(lab.make_sandbox(), 8000).starts_with("HTTP/1.1 403 "));
    sandbox::PreviewChanges changes;
    changes.wake = false;
    CHECK(changes.applied_to(preview).any_port);
    changes.ports = {5173};
    CHECK_FALSE(changes.applied_to(preview).any_port);
}

TEST_CASE("An address takes no more of a preview's connections than it leaves to others") {
    http::PreviewSettings settings;
    settings.limits.loopback = http::LoopbackLimits::as_others;
    settings.limits.connections_per_address = 0;
    settings.trusted_proxies.add("127.0.0.1");
    PreviewHouse lab(settings);
    const std::string number = lab.number(lab.make_sandbox());
    std::vector<std::shared_ptr<FakePeer>> clients;
    const auto ask = [&](const std::string& address) {
        clients.push_back(lab.connect(number));
        return lab.ask(*clients.back(), navigation(number, "X-Forwarded-For: " + address + "\r\n"));
    };
    constexpr std::size_t k_half = base::k_max_guest_dials / 2;
    for (std::size_t i = 0; i < k_half; ++i)
        CHECK(ask("192.0.2.1").empty());
    const std::string refused = ask("192.0.2.1");
    CHECK(refused.starts_with("HTTP/1.1 429 "));
    CHECK(refused.find("Retry-After: 1\r\n") != std::string::npos);
    CHECK(ask("192.0.2.2").empty());
    CHECK(lab.requests() == k_half + 1);
}

TEST_CASE("A token of this server goes into no sandbox, and another one of the same name does") {
    PreviewHouse lab;
    const std::string sandbox = lab.make_sandbox();
    const std::string number = lab.number(sandbox);
    const std::string host = " HTTP/1.1\r\nHost: localhost:" + number + "\r\n";
    const std::string token = lab.token(sandbox, http::Scope::files);
    const auto client = lab.connect(number);
    CHECK(lab.ask(*client, "GET /?token=" + token + host + "\r\n").starts_with("HTTP/1.1 400 "));
    CHECK(lab.requests() == 0);
    lab.ask(*client,
            "GET /?token=of-the-dev-server" + host + "Referer: http://app.example/?t=" + token + "\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n");
    CHECK(has(lab.seen(), "GET /?token=of-the-dev-server HTTP/1.1\r\n"));
    CHECK_FALSE(has(lab.seen(), "Referer"));
}

TEST_CASE("A private preview with its pass answers pages of its own and of allowed origins alone") {
    http::PreviewSettings settings;
    settings.allowed_origins = {"https://app.example"};
    PreviewHouse lab(settings);
    const std::string sandbox = lab.make_private_sandbox();
    const std::string number = lab.number(sandbox);
    const std::string other = lab.number(lab.make_sandbox());
    const std::string host = " HTTP/1.1\r\nHost: localhost:" + number + "\r\n";
    const auto client = lab.connect(number);
    const std::string entered = lab.ask(
        *client, "GET /.atoll/enter?token=" + lab.token(sandbox, http::Scope::preview) + host + "\r\n");
    REQUIRE(entered.starts_with("HTTP/1.1 303 "));
    const auto begin = entered.find("Set-Cookie: ") + 12;
    const std::string cookie = "Cookie: " + entered.substr(begin, entered.find(';', begin) - begin) + "\r\n";
    const std::string upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    const auto status = [&](const std::string& fields) {
        const auto visitor = lab.connect(number);
        const std::size_t before = lab.requests();
        const std::string answer = lab.ask(*visitor, "GET /" + host + cookie + fields + "\r\n");
        CHECK((lab.requests() == before) == answer.starts_with("HTTP/1.1 403 "));
        return lab.requests() > before;
    };
    for (const std::string& more : {std::string(), upgrade}) {
        CHECK(status(more));
        CHECK(status(more + "Origin: http://localhost:" + number + "\r\n"));
        CHECK(status(more + "Origin: http://127.0.0.1:" + number + "\r\n"));
        CHECK(status(more + "Origin: https://app.example\r\n"));
        CHECK(status(more + "Origin: null\r\nSec-Fetch-Site: same-origin\r\n"));
        CHECK_FALSE(status(more + "Origin: http://localhost:" + other + "\r\n"));
        CHECK_FALSE(status(more + "Origin: http://localhost\r\n"));
        CHECK_FALSE(status(more + "Origin: https://evil.example\r\n"));
        CHECK_FALSE(status(more + "Origin: null\r\nSec-Fetch-Site: cross-site\r\n"));
        CHECK_FALSE(status(more + "Origin: \r\n"));
    }
}

TEST_CASE("Pages of a sandbox's other previews may ask, at the port that the names have") {
    http::PreviewSettings settings;
    settings.names = http::PreviewNames::make("preview.example", "{id},{id}-{port}").value();
    PreviewHouse lab(settings);
    const std::string sandbox = lab.make_private_sandbox();
    const std::string name = sandbox + ".preview.example:8443";
    const auto client = lab.connect("8443");
    const std::string entered =
        lab.ask(*client, "GET /.atoll/enter?token=" + lab.token(sandbox, http::Scope::preview) +
                             " HTTP/1.1\r\nHost: " + name + "\r\n\r\n");
    REQUIRE(entered.starts_with("HTTP/1.1 303 "));
    const auto begin = entered.find("Set-Cookie: ") + 12;
    const std::string cookie = "Cookie: " + entered.substr(begin, entered.find(';', begin) - begin) + "\r\n";
    const auto passes = [&](const std::string& origin) {
        const std::size_t before = lab.requests();
        lab.ask(*lab.connect("8443"),
                "GET / HTTP/1.1\r\nHost: " + name + "\r\n" + cookie + "Origin: " + origin + "\r\n\r\n");
        return lab.requests() > before;
    };
    CHECK(passes("http://" + name));
    CHECK(passes("https://" + name));
    CHECK(passes("http://" + sandbox + "-5173.preview.example:8443"));
    CHECK_FALSE(passes("http://" + sandbox + ".preview.example"));
    CHECK_FALSE(passes("ftp://" + name));
    CHECK_FALSE(passes("http://" + lab.make_sandbox() + ".preview.example:8443"));
}

TEST_CASE("A key of the API goes into no sandbox, also where an address or a field percent-encodes it") {
    PreviewHouse lab;
    const std::string number = lab.number(lab.make_sandbox());
    const std::string host = " HTTP/1.1\r\nHost: localhost:" + number + "\r\n";
    const std::string ok = "HTTP/1.1 204 No Content\r\n\r\n";
    const auto client = lab.connect(number);
    for (const char* target : {"/?key=the.api/key+", "/?key=the.api%2Fkey%2B", "/a/the%2eapi%2fkey+/b",
                               "/?a=%&b=%74he.api/key%2b"}) {
        CAPTURE(target);
        CHECK(lab.ask(*client, "GET " + std::string(target) + host + "\r\n").starts_with("HTTP/1.1 400 "));
    }
    CHECK(lab.requests() == 0);
    lab.ask(*client,
            "GET /?key=another%2B" + host +
                "Referer: http://localhost/?k=the.api%2Fkey%2B\r\nX-Token: the.api%2fkey%2b\r\n"
                "Cookie: a=%2F; k=the.api%2Fkey%2B; b=2\r\nX-Other: the.api%2F\r\n\r\n",
            ok);
    CHECK(has(lab.seen(), "GET /?key=another%2B HTTP/1.1\r\n"));
    CHECK(has(lab.seen(), "\r\nCookie: a=%2F; b=2\r\nX-Other: the.api%2F\r\nX-Forwarded-For: "));
}

}  // namespace preview_service_test
