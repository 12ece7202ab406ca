// The answer of /v1/system.
#include "tests/unit/http/api_server.hpp"

namespace system_test {

using namespace atl;
using namespace atl::test;
using http::Json;

TEST_CASE("the system names the networks that a key may ask for, and the groups of hosts") {
    ApiServer server;
    CHECK(server.call_json("GET", "/v1/system")["egress"]["groups"] == Json::array());
    server.on_loop([&] {
        server.api().system.networks = {"none", "host", "egress"};
        server.api().system.egress_groups = {"npm", "pip"};
    });
    const auto system = server.call_json("GET", "/v1/system");
    CHECK(system["networks"] == Json({"none", "host", "egress"}));
    CHECK(system["egress"]["groups"] == Json({"npm", "pip"}));
    const HeaderList alice{{"X-API-Key", "key of alice"}};
    const auto of_user = Json::parse(server.call_as(alice, "GET", "/v1/system").body);
    CHECK(of_user["networks"] == Json({"none", "egress"}));
    CHECK(of_user["egress"]["groups"] == system["egress"]["groups"]);
}

}  // namespace system_test
