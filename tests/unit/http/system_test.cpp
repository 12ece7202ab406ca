// The answer of /v1/system.
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

}  // namespace system_test
