// Passes of private previews: a token of scope `preview` becomes a cookie, and what such a cookie opens.
#include "http/proxy/preview_passes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace preview_passes_test {

using namespace atl;
using namespace atl::http;
using namespace std::chrono_literals;
using base::Errc;

namespace {

struct HeldClock final : base::Clock {
    base::SteadyTime steady_now() const override { return base::SteadyTime{} + passed; }
    base::WallTime wall_now() const override { return base::WallTime{1'800'000'000'900ms} + passed; }
    base::Millis passed{};
};

const std::string k_a(20, 'a');
const std::string k_b(20, 'b');
constexpr const char* k_host = "preview-a.example:8443";

struct Bench {
    Request request(const std::string& cookie, const std::string& host = k_host) {
        fields = {cookie, host};
        Request made;
        made.method = Method::get;
        made.authority = fields.second;
        made.path = "/";
        made.fields = {{"Cookie", fields.first}};
        return made;
    }
    bool opens(const std::string& cookie, const std::string& sandbox = k_a,
               const std::string& host = k_host) {
        return passes.find(request(cookie, host), sandbox).has_value();
    }
    base::Result<Response> enter(const std::string& asked, const std::string& sandbox = k_a,
                                 Method method = Method::get) {
        query = asked;
        Request made = request("");
        made.method = method;
        made.path = k_enter_path;
        made.query = query;
        return passes.enter(made, sandbox);
    }
    std::string token(Scope scope = Scope::preview, const std::string& id = k_a) {
        return "token=" + tokens.issue(id, scope, 300s).token;
    }
    static std::string header(const Response& response, std::string_view name) {
        for (const auto& [each, value] : response.headers) {
            if (each == name)
                return value;
        }
        return "";
    }
    /// NAME=VALUE of the pass.
    std::string pass() {
        const std::string cookie = header(enter(token()).value(), "Set-Cookie");
        return cookie.substr(0, cookie.find(';'));
    }

    HeldClock clock;
    StreamTokens tokens{std::string(60, 'k'), clock};
    PreviewPasses passes{tokens, clock};
    std::pair<std::string, std::string> fields;  // what the request's views point at
    std::string query;
};

}  // namespace

TEST_CASE("a token of scope preview is exchanged for a cookie of this host alone, and left behind") {
    Bench bench;
    const Response entered = bench.enter(bench.token()).value();
    CHECK(entered.status == 303);
    CHECK(Bench::header(entered, "Location") == "/");
    const std::string cookie = Bench::header(entered, "Set-Cookie");
    CHECK(cookie.starts_with("__Host-atoll-preview-" + k_a + "=1800000300."));
    CHECK(cookie.ends_with("; Path=/; Max-Age=300; HttpOnly; Secure; SameSite=None; Partitioned"));
    CHECK(cookie.find("Domain") == std::string::npos);
    const std::string pass = cookie.substr(0, cookie.find(';'));
    CHECK(bench.passes.find(bench.request("a=b; " + pass + ";c"), k_a) ==
          bench.clock.steady_now() + 299'100ms);
    CHECK(bench.opens(pass, k_a, "PREVIEW-a.Example:8443"));
}

TEST_CASE(
    "a pass opens nothing of another sandbox, at another name, by another name, or once its time is over") {
    Bench bench;
    const std::string pass = bench.pass();
    REQUIRE(bench.opens(pass));
    CHECK_FALSE(bench.opens(pass, k_b));
    std::string of_other(pass);
    CHECK_FALSE(bench.opens(of_other.replace(of_other.find(k_a), k_a.size(), k_b), k_b));
    CHECK_FALSE(bench.opens(pass, k_a, "preview-a-3000.example:8443"));
    CHECK_FALSE(bench.opens(pass, k_a, "preview-a.example"));
    CHECK_FALSE(bench.opens("x" + pass));
    CHECK_FALSE(bench.opens(pass.substr(7)));
    CHECK_FALSE(bench.opens(""));
    bench.clock.passed = 299'099ms;
    CHECK(bench.opens(pass));
    bench.clock.passed = 299'100ms;
    CHECK_FALSE(bench.opens(pass));
}

TEST_CASE("a pass with any byte changed, cut off or put in is none") {
    Bench bench;
    const std::string pass = bench.pass();
    const std::size_t value = pass.find('=') + 1;
    for (std::size_t at = value; at < pass.size(); ++at) {
        std::string wrong(pass);
        wrong[at] = wrong[at] == '0' ? '1' : '0';
        CHECK_FALSE(bench.opens(wrong));
        CHECK_FALSE(bench.opens(pass.substr(0, at)));
        CHECK_FALSE(bench.opens(pass.substr(0, at) + '9' + pass.substr(at)));
    }
    for (const char* wrong : {"", ".", "9999999999", "99999999999999999999.a", "-1.a", "."})
        CHECK_FALSE(bench.opens(pass.substr(0, value) + wrong));
    const StreamTokens others(std::string(60, 'x'), bench.clock);
    const PreviewPasses elsewhere(others, bench.clock);
    CHECK_FALSE(elsewhere.find(bench.request(pass), k_a).has_value());
    // A token is no pass.
    CHECK_FALSE(bench.opens(pass.substr(0, value) + bench.tokens.issue(k_a, Scope::preview, 300s).token));
}

TEST_CASE("a good pass counts behind bad ones of its name, but not behind any number of them") {
    Bench bench;
    const std::string pass = bench.pass();
    const std::string bad = pass.substr(0, pass.find('=')) + "=1.x; ";
    std::string some;
    for (int i = 0; i < 7; ++i)
        some += bad;
    CHECK(bench.opens(some + pass));
    CHECK_FALSE(bench.opens(some + bad + pass));
}

TEST_CASE("only a token of this sandbox for previews is exchanged, while it is good") {
    Bench bench;
    const auto refusal = [&](const std::string& query) { return bench.enter(query).error().code(); };
    const std::string good = bench.token();
    for (const Scope scope : {Scope::read, Scope::chat, Scope::files, Scope::terminal})
        CHECK(refusal(bench.token(scope)) == Errc::preview_private);
    CHECK(refusal(bench.token(Scope::preview, k_b)) == Errc::preview_private);
    CHECK(refusal("token=") == Errc::preview_private);
    CHECK(refusal(good.substr(0, good.size() - 1)) == Errc::preview_private);
    CHECK(refusal("") == Errc::invalid_request);
    CHECK(refusal("token=%zz") == Errc::invalid_request);
    CHECK(bench.enter(good, k_a, Method::post).error().code() == Errc::method_not_allowed);
    bench.clock.passed = 300s;
    CHECK(refusal(good) == Errc::preview_private);
}

TEST_CASE("an upgrade is never answered by a redirect, whatever its token") {
    Bench bench;
    bench.query = bench.token();
    Request made = bench.request("");
    made.path = k_enter_path;
    made.query = bench.query;
    made.version = 11;
    const auto answer = [&](std::vector<HeaderField> fields) {
        made.fields = std::move(fields);
        return bench.passes.enter(made, k_a);
    };
    const auto refused = answer({{"Connection", "keep-alive, Upgrade"}, {"Upgrade", "websocket"}});
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == Errc::invalid_request);
    // These ask for no other protocol that a preview speaks.
    CHECK(answer({{"Upgrade", "websocket"}}).has_value());
    CHECK(answer({{"Connection", "Upgrade, HTTP2-Settings"}, {"Upgrade", "h2c"}}).has_value());
}

TEST_CASE("a visitor is sent to a path of the preview, and nowhere else") {
    Bench bench;
    const auto sent = [&](const std::string& to) { return bench.enter(bench.token() + "&to=" + to); };
    CHECK(Bench::header(sent("/a/b?c=%2520d").value(), "Location") == "/a/b?c=%20d");
    for (const char* wrong : {"", "a", "//evil.example", "/%5Cevil.example", "/%09/evil",
                              "https://evil.example", "/%0d%0aX:1", "/%C3%A9", "/.atoll/enter?token=x"}) {
        INFO(wrong);
        const auto refused = sent(wrong);
        REQUIRE(refused.has_error());
        CHECK(refused.error().code() == Errc::invalid_request);
    }
    CHECK(sent("/" + std::string(3000, 'a')).has_error());
}

}  // namespace preview_passes_test
