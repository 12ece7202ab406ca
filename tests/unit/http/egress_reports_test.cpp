// Reports of requests on the way out: how each ends, once, with its bytes; counters and lines of it.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/plain/egress_limits.hpp"
#include "http/egress/egress_recorder.hpp"
#include "http/egress/egress_report.hpp"
#include "tests/support/server_process.hpp"
#include "tests/unit/http/egress_lab.hpp"

namespace egress_reports_test {

using namespace atl;
using namespace atl::test;
using http::EgressEnd;
using http::EgressForm;
using http::EgressReason;
using http::EgressRequest;
using Lines = std::vector<std::string>;

namespace {

std::string tunnel_to(const std::string& target) {
    return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n";
}
std::string get(const std::string& host) {
    return "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
}

std::string text_of_file(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

struct RecorderDesk {
    FakeClock clock;
    FakeTimers timers{clock};
    std::vector<conversation::EgressNotice> notices;
    http::EgressRecorder::Ports ports{
        clock, timers,
        [this](const std::string&, const conversation::EgressNotice& notice) { notices.push_back(notice); },
        [](const std::string& sandbox) {
            http::EgressOwner owner;
            owner.conversation_id = "c-" + sandbox;
            owner.user_id = "alice";
            return owner;
        }};
};

EgressRequest request_to(const std::string& host) {
    EgressRequest request;
    request.sandbox_id = "box";
    request.host = host;
    request.port = 443;
    request.method = "CONNECT";
    return request;
}

}  // namespace

TEST_CASE("A request that is refused is reported with its reason") {
    const auto reports = std::make_shared<ReportedLines>();
    EgressLab lab({"a.example:443", "inner.example:80", "gone.example:80", "a.example:80"}, reports);
    const auto told = [&](const std::string& request) {
        lab.connect(request);
        return reports->take();
    };
    CHECK(told(tunnel_to("evil.example:443")) == Lines{"box CONNECT evil.example:443 not_listed"});
    CHECK(told(tunnel_to("a.example:22")) == Lines{"box CONNECT a.example:22 not_listed"});
    CHECK(told(get("127.0.0.1")) == Lines{"box GET 127.0.0.1:80 ip_literal"});
    CHECK(told(get("inner.example")) == Lines{"box GET inner.example:80 private_address"});
    CHECK(told(get("gone.example")) == Lines{"box GET gone.example:80 dns"});
    CHECK(reports->open == 0);
    // Control.
    const auto inside = lab.connect(get("a.example"));
    CHECK(reports->open == 1);
    CHECK(reports->take().empty());
    const std::size_t sent = lab.take(lab.upstream()).size();
    constexpr std::string_view k_reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    lab.send(lab.upstream(), k_reply);
    CHECK(lab.take(*inside).ends_with("\r\n\r\nhi"));
    CHECK(reports->take() == Lines{"box GET a.example:80 allowed " + std::to_string(sent) + ' ' +
                                   std::to_string(k_reply.size())});
    CHECK(reports->open == 0);
}

TEST_CASE("A tunnel is reported when it ends, with the bytes that passed") {
    const auto reports = std::make_shared<ReportedLines>();
    EgressLab lab({"a.example:443"}, reports);
    const auto inside = lab.connect(tunnel_to("a.example:443") + "TLS a.example;12345");
    lab.send(lab.upstream(), "back");
    CHECK(reports->take().empty());
    CHECK(reports->open == 1);
    inside->end_sending();
    lab.upstream().end_sending();
    lab.run();
    CHECK(reports->take() == Lines{"box CONNECT a.example:443 allowed 19 4"});
    CHECK(reports->open == 0);
}

TEST_CASE("A tunnel that is cut is reported with the reason, and one that its client leaves is not denied") {
    const auto reports = std::make_shared<ReportedLines>();
    EgressLab lab({"a.example:443"}, reports);
    const auto told = [&](const std::string& bytes) {
        lab.connect(tunnel_to("a.example:443") + bytes);
        return reports->take();
    };
    CHECK(told("TLS evil.example;") == Lines{"box CONNECT a.example:443 sni_mismatch 0 0"});
    CHECK(told("TLS ;") == Lines{"box CONNECT a.example:443 sni_mismatch 0 0"});
    CHECK(told("SSH-2.0-x\r\n") == Lines{"box CONNECT a.example:443 not_tls 0 0"});
    CHECK(told("GET / HTTP/1.1\r\n\r\n") == Lines{"box CONNECT a.example:443 not_tls 0 0"});
    const auto silent = lab.connect(tunnel_to("a.example:443"));
    lab.advance(base::k_egress_opening_time + base::Millis(1));
    CHECK(reports->take() == Lines{"box CONNECT a.example:443 not_tls 0 0"});
    const auto leaving = lab.connect(tunnel_to("a.example:443"));
    leaving->end_sending();
    lab.run();
    CHECK(reports->take() == Lines{"box CONNECT a.example:443 allowed 0 0"});
    CHECK(reports->open == 0);
}

TEST_CASE("An upstream that gives no answer is reported as a failure, not as a denial") {
    const auto reports = std::make_shared<ReportedLines>();
    EgressLab lab({"a.example:80"}, reports);
    const auto inside = lab.connect(get("a.example"));
    const std::size_t sent = lab.take(lab.upstream()).size();
    lab.upstream().end_sending();
    CHECK(lab.take(*inside).starts_with("HTTP/1.1 502 "));
    CHECK(reports->take() == Lines{"box GET a.example:80 upstream_failed " + std::to_string(sent) + " 0"});
}

TEST_CASE("Requests in a tunnel are reported one by one, and the tunnel with the bytes of all") {
    const auto reports = std::make_shared<ReportedLines>();
    EgressLab lab({"a.example:80"}, reports);
    const auto inside = lab.connect(tunnel_to("a.example:80"));
    constexpr std::string_view k_reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    std::size_t up = 0;
    for (const char* path : {"/1", "/second"}) {
        lab.send(*inside, "GET " + std::string(path) + " HTTP/1.1\r\nHost: a.example\r\n\r\n");
        const std::size_t sent = lab.take(lab.upstream()).size();
        CHECK(reports->take().empty());
        lab.send(lab.upstream(), k_reply);
        CHECK(reports->take() == Lines{"box GET a.example:80 allowed " + std::to_string(sent) + ' ' +
                                       std::to_string(k_reply.size())});
        up += sent;
    }
    CHECK(reports->open == 1);
    lab.send(*inside, "TRACE / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    CHECK(lab.take(*inside).ends_with("This proxy does not pass TRACE on.\n"));
    CHECK(reports->take() == Lines{"box TRACE a.example:80 method_not_allowed 0 0",
                                   "box CONNECT a.example:80 allowed " + std::to_string(up) + ' ' +
                                       std::to_string(2 * k_reply.size())});
    CHECK(reports->open == 0);
}

TEST_CASE("The bytes of a tunnel are counted once, and of its requests those have events that are refused") {
    RecorderDesk desk;
    http::EgressRecorder recorder(desk.ports, nullptr);
    auto inner = request_to("a.example");
    inner.form = EgressForm::tunneled;
    EgressEnd end;
    end.bytes_up = 7;
    end.bytes_down = 9;
    recorder.opened();
    recorder.ended(inner, end);
    CHECK(desk.notices.empty());
    EgressEnd refused;
    refused.denied = EgressReason::rule;
    recorder.ended(inner, refused);
    REQUIRE(desk.notices.size() == 1);
    CHECK(desk.notices[0].reason == "rule");
    CHECK(recorder.counters().open == 1);
    CHECK(recorder.counters().bytes_up == 0);
    end.was_open = true;
    recorder.ended(request_to("a.example"), end);
    REQUIRE(desk.notices.size() == 2);
    CHECK(desk.notices[1].bytes_down == 9);
    CHECK(recorder.counters().open == 0);
    CHECK(recorder.counters().bytes_up == 7);
    CHECK(recorder.counters().allowed == 2);
}

TEST_CASE("The first reason counts, and a bound is one") {
    const auto reports = std::make_shared<ReportedLines>();
    {
        http::EgressReport report(reports, request_to("a.example"));
        report.refuse(base::Error(base::Errc::user_share, "x"));
        report.deny(EgressReason::dns);
        report.refuse(base::Error(base::Errc::upstream_failed, "x"));
        CHECK(reports->lines.empty());
    }
    CHECK(reports->take() == Lines{"box CONNECT a.example:443 limit"});
    const auto look_up = http::told_look_up(
        [](const std::string&, const std::string& host,
           std::function<void(base::Result<http::EgressAddresses>)> done) {
            if (host == "a.example")
                done(http::EgressAddresses{*http::parse_address("192.0.2.1")});
            else
                done(base::Error(base::Errc::upstream_failed, "x"));
        },
        reports);
    std::size_t answers = 0;
    for (const char* host : {"a.example", "b.example"})
        look_up("box", host, [&](const base::Result<http::EgressAddresses>&) { ++answers; });
    CHECK(answers == 2);
    CHECK(reports->take() == Lines{"found", "not found"});
}

TEST_CASE("Requests are counted, told as events, and written as lines of a file that is opened again") {
    const TempDir dir;
    const auto file = dir.path() / "egress.log";
    RecorderDesk desk;
    http::EgressRecorder recorder(desk.ports, http::EgressLog::open(file).value());
    EgressEnd passed;
    passed.was_open = true;
    passed.bytes_up = 7;
    passed.bytes_down = 9;
    passed.lasted = base::Millis(4);
    recorder.opened();
    CHECK(recorder.counters().open == 1);
    recorder.ended(request_to("a.example"), passed);
    EgressEnd denied;
    denied.denied = EgressReason::sni_mismatch;
    recorder.ended(request_to("b.example"), denied);
    std::filesystem::rename(file, dir.path() / "former.log");
    REQUIRE(recorder.log()->reopen().has_value());
    EgressEnd failed;
    failed.failed = base::Errc::upstream_failed;
    auto route = request_to("c.example");
    route.form = EgressForm::route;
    route.method = "P\"OST\n";
    route.route = "model";
    recorder.ended(route, failed);

    const std::string former = text_of_file(dir.path() / "former.log");
    const auto first = former.find('\n');
    REQUIRE(first != std::string::npos);
    CHECK(
        former.substr(0, first) ==
        R"({"time":")" + base::rfc3339(desk.clock.wall_now()) +
            R"(","sandbox":"box","conversation":"c-box","user":"alice","host":"a.example","port":443,)"
            R"("form":"connect","method":"CONNECT","decision":"allowed","bytesUp":7,"bytesDown":9,"ms":4})");
    const auto second = nlohmann::json::parse(former.substr(first + 1));
    CHECK(second.at("decision") == "denied");
    CHECK(second.at("reason") == "sni_mismatch");
    const std::string now = text_of_file(file);
    CHECK(now.find('\n') == now.size() - 1);
    const auto third = nlohmann::json::parse(now);
    CHECK(third.at("decision") == "failed");
    CHECK(third.at("reason") == "upstream_failed");
    CHECK(third.at("route") == "model");
    CHECK(third.at("method") == "P\"OST\n");

    // A path that cannot be opened leaves the file that is open.
    std::filesystem::rename(file, dir.path() / "last.log");
    std::filesystem::create_directory(file);
    CHECK(recorder.log()->reopen().error().detail().find("--egress-log") == 0);
    recorder.ended(request_to("d.example"), denied);
    CHECK(text_of_file(dir.path() / "last.log").find("d.example") != std::string::npos);
    CHECK(recorder.log()->dropped_lines() == 0);

    const http::EgressCounters& counted = recorder.counters();
    CHECK(counted.allowed == 1);
    CHECK(counted.failed == 1);
    CHECK(counted.denied[static_cast<std::size_t>(EgressReason::sni_mismatch)] == 2);
    CHECK(counted.bytes_up == 7);
    CHECK(counted.bytes_down == 9);
    CHECK(counted.open == 0);
    // A request that failed before it was connected has no event: the program inside has its answer.
    REQUIRE(desk.notices.size() == 3);
    CHECK(desk.notices[0].reason.empty());
    CHECK(desk.notices[0].bytes_down == 9);
    CHECK(desk.notices[1].host == "b.example");
    CHECK(desk.notices[1].reason == "sni_mismatch");
    CHECK(desk.notices[2].host == "d.example");
}

TEST_CASE("A file of requests that cannot be opened is an error that names the flag") {
    const TempDir dir;
    const auto opened = http::EgressLog::open(dir.path() / "none" / "egress.log");
    REQUIRE(opened.has_error());
    CHECK(opened.error().detail().starts_with("--egress-log: open "));
}

TEST_CASE("Each reason has a word of its own") {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < http::k_egress_reasons; ++i)
        words.emplace_back(to_string(static_cast<EgressReason>(i)));
    CHECK(words == Lines{"not_listed", "ip_literal", "private_address", "dns", "sni_mismatch", "not_tls",
                         "limit", "rule"});
}

}  // namespace egress_reports_test
