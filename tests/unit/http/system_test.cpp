// The answer of /v1/system, and who is charged for a request.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "http/api/ownership.hpp"
#include "tests/unit/http/api_server.hpp"

namespace system_test {

using namespace atl;
using namespace atl::test;

TEST_CASE("the system names the networks that a key may ask for, and the groups of hosts") {
    ApiServer server;
    CHECK(server.call_json("GET", "/v1/system")["egress"]["groups"] == json::array());
    server.on_loop([&] {
        server.api().system.networks = {"none", "host", "egress"};
        server.api().system.egress_groups = {"npm", "pip"};
    });
    const auto system = server.call_json("GET", "/v1/system");
    CHECK(system["networks"] == json({"none", "host", "egress"}));
    CHECK(system["egress"]["groups"] == json({"npm", "pip"}));
    const HeaderList alice{{"X-API-Key", "key of alice"}};
    const auto of_user = json::parse(server.call_as(alice, "GET", "/v1/system").body);
    CHECK(of_user["networks"] == json({"none", "egress"}));
    CHECK(of_user["egress"]["groups"] == system["egress"]["groups"]);
}

TEST_CASE("what comes with a token is charged to the owner of what it is for") {
    ApiServer server;
    const std::string owned = server.create(R"({"userId":"alice"})");
    const std::string free = server.create();
    const auto sandbox =
        server.call_json("GET", "/v1/conversations/" + owned)["sandboxId"].get<std::string>();
    server.on_loop([&] {
        const auto holder = [&](const char* pattern, const http::Principal& principal,
                                const std::string& id) {
            http::Route route;
            route.pattern = pattern;
            http::guard_route(server.api(), route);
            http::Request request;
            const bool aborted = false;
            http::RequestContext context(request, nullptr, aborted);
            context.principal = principal;
            context.params.emplace_back("id", id);
            std::optional<base::Result<void>> answer;
            boost::asio::io_context loop;
            // Both are loaded, so it waits for nothing.
            boost::asio::co_spawn(loop.get_executor(), route.guard(context),
                                  [&](std::exception_ptr, base::Result<void> told) { answer = told; });
            loop.run();
            REQUIRE(answer);
            CHECK(answer->has_value());
            CHECK_FALSE(context.principal.user_id);
            return http::holder_of(context.principal).name();
        };
        http::Principal bearer;
        bearer.label = "stream-token";
        bearer.scope = http::Scope::chat;
        bearer.conversation_id = owned;
        CHECK(holder("/v1/conversations/{id}/messages", bearer, owned) ==
              base::ShareHolder::user("alice").name());
        bearer.conversation_id = free;
        CHECK(holder("/v1/conversations/{id}/messages", bearer, free) ==
              base::ShareHolder::thing(free).name());
        bearer.conversation_id.reset();
        bearer.scope = http::Scope::files;
        bearer.sandbox_id = sandbox;
        CHECK(holder("/v1/sandboxes/{id}/archive", bearer, sandbox) ==
              base::ShareHolder::user("alice").name());
    });
}

}  // namespace system_test
