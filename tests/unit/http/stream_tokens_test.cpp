#include "http/access/stream_tokens.hpp"

#include <catch2/catch_test_macros.hpp>
#include <vector>

namespace stream_tokens_test {

using namespace atl::http;
using namespace std::chrono_literals;
using atl::base::Errc;

namespace {

struct HeldClock final : atl::base::Clock {
    atl::base::SteadyTime steady_now() const override { return {}; }
    atl::base::WallTime wall_now() const override { return now; }
    atl::base::WallTime now{1'800'000'000'900ms};
};

const std::string k_signing_key(60, 'k');
const std::string k_a(20, 'a');
const std::string k_b(20, 'b');

}  // namespace

TEST_CASE("a token opens its own conversation with its own scope until it expires") {
    HeldClock clock;
    const StreamTokens tokens(k_signing_key, clock);
    const auto issued = tokens.issue(k_a, Scope::read, 300s);
    CHECK(atl::base::rfc3339(issued.expires_at) == "2027-01-15T08:05:00.000Z");
    const auto principal = tokens.verify(issued.token, k_a);
    REQUIRE(principal.has_value());
    CHECK(principal->conversation_id == k_a);
    CHECK(principal->scope == Scope::read);
    CHECK(principal->expires_at - clock.steady_now() == issued.expires_at - clock.wall_now());
    CHECK_FALSE(principal->user_id);
    CHECK_FALSE(principal->unrestricted());
    CHECK(tokens.verify(tokens.issue(k_a, Scope::chat, 300s).token, k_a)->scope == Scope::chat);

    CHECK(tokens.verify(issued.token, k_b).error().code() == Errc::token_mismatch);
    clock.now = issued.expires_at - 1ms;
    CHECK(tokens.verify(issued.token, k_a).has_value());
    clock.now = issued.expires_at;
    CHECK(tokens.verify(issued.token, k_a).error().code() == Errc::token_expired);
    CHECK(tokens.verify(issued.token, k_b).error().code() == Errc::token_mismatch);
    CHECK(tokens.verify(issued.token, "").error().code() == Errc::token_mismatch);
}

TEST_CASE("a token for files, a terminal or a preview is one of a sandbox, and of no conversation") {
    HeldClock clock;
    const StreamTokens tokens(k_signing_key, clock);
    for (const Scope scope : {Scope::files, Scope::terminal, Scope::preview}) {
        const std::string token = tokens.issue(k_a, scope, 300s).token;
        const auto principal = tokens.verify(token, k_a);
        REQUIRE(principal.has_value());
        CHECK(principal->scope == scope);
        CHECK(principal->sandbox_id == k_a);
        CHECK_FALSE(principal->conversation_id);
        CHECK(principal->is_token());
        CHECK_FALSE(principal->unrestricted());
        CHECK(tokens.verify(token, k_b).error().code() == Errc::token_mismatch);
        std::string other(token);
        other.replace(other.find(scope_name(scope)), scope_name(scope).size(), "chat");
        CHECK(tokens.verify(other, k_a).error().code() == Errc::invalid_token);
    }
}

TEST_CASE("a scope opens itself, chat opens what read does, and a key opens everything") {
    const std::vector all{Scope::chat, Scope::read, Scope::files, Scope::terminal, Scope::preview};
    for (const Scope has : all)
        for (const Scope needed : all)
            CHECK(includes(has, needed) == (has == needed || (has == Scope::chat && needed == Scope::read)));
    for (const Scope needed : all)
        CHECK(includes(Scope::full, needed));
}

TEST_CASE("a token names its scope") {
    HeldClock clock;
    const StreamTokens tokens(k_signing_key, clock);
    for (const Scope scope : {Scope::read, Scope::chat, Scope::files, Scope::terminal, Scope::preview})
        CHECK(scope_in(tokens.issue(k_a, scope, 9s).token) == scope);
    for (const char* text : {"", ".", "..", "v1", "v1.c1", "v1.c1.", "v1.c1.full.1.x", "v1.c1.reader.1.x"})
        CHECK_FALSE(scope_in(text));
}

TEST_CASE("a token that was not signed here opens nothing, whatever was changed in it") {
    HeldClock clock;
    const StreamTokens tokens(k_signing_key, clock);
    const std::string token = tokens.issue(k_a, Scope::read, 300s).token;
    REQUIRE(tokens.verify(token, k_a).has_value());
    for (std::size_t at = 0; at < token.size(); ++at) {
        std::string forged = token;
        forged[at] = forged[at] == '1' ? '2' : '1';
        INFO(forged);
        CHECK(tokens.verify(forged, k_a).error().code() == Errc::invalid_token);
    }
    const std::string signature = token.substr(token.rfind('.'));
    for (const std::string& forged :
         {std::string(), std::string("."), std::string(65, '.'), token + "0",
          token.substr(0, token.size() - 1), ' ' + token, token + '\n', signature,
          "v1." + k_a + ".chat.1800000300" + signature, "v1." + k_a + ".read.9999999999" + signature,
          "v1." + k_b + ".read.1800000300" + signature, "v1." + k_a + ".full.1800000300" + signature,
          std::string(100'000, 'x') + signature})
        CHECK(tokens.verify(forged, k_a).error().code() == Errc::invalid_token);
    const StreamTokens other(std::string(60, 'o'), clock);
    CHECK(other.verify(token, k_a).error().code() == Errc::invalid_token);
    CHECK(StreamTokens(k_signing_key, clock).verify(token, k_a).has_value());
    CHECK_THROWS(StreamTokens("short", clock));
}

}  // namespace stream_tokens_test
