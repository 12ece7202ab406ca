// How fast the server answers a neighbour of work that one user sends it: health and a message, beside the
// attack and beside work of the same size that costs the loop little. All of it measures time, so all is
// [full].
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>

#include "tests/isolation/redteam/duel.hpp"
#include "tests/support/deadline.hpp"

namespace pace_test {

using namespace atl::test;

namespace {

constexpr std::size_t k_body_bytes = 1000UL * 1000;

/// Bodies of POST /v1/conversations, one after another over one connection.
Service beside_bodies(Lab& lab, const std::string& value) {
    const std::string body = "{\"surprise\":" + value + "}";
    HttpClient greedy = lab.api.connect();
    const std::string request =
        "POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + lab.server.key() +
        "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
        body;
    bool is_first = true;
    return ask_beside(lab, [&] {
        if (!std::exchange(is_first, false))
            CHECK(greedy.read_response().status >= 400);
        if (!greedy.connected())
            greedy.connect();
        greedy.send_raw(request);
    });
}

/// A program in Python that runs from its first line of output until it is cancelled.
Service beside_program(Lab& lab, const std::string& code, const Json& tools = Json::array()) {
    const Json body{{"language", "python"},
                    {"code", code},
                    {"tools", tools},
                    {"maxCalls", 10'000},
                    {"maxOutputBytes", 4UL * 1024 * 1024},
                    {"timeoutMs", 60'000},
                    {"detached", true}};
    const Json begun = lab.api.call(202, "POST", "/v1/execute", body.dump());
    const std::string path = "/v1/executions/" + begun["executionId"].get<std::string>();
    CHECK(eventually([&] { return !lab.api.call(200, "GET", path + "/events?after=1")["events"].empty(); }));
    const Service service = ask_beside(lab, [] {});
    (void)lab.api.http().request("DELETE", path);
    return service;
}

}  // namespace

TEST_CASE("JSON of many small values delays a neighbour no more than one long text", "[redteam][full]") {
    Lab lab(Privilege::as_started);
    std::string small = "[{}";
    while (small.size() < k_body_bytes)
        small += ",{}";
    const std::string text = '"' + std::string(k_body_bytes, 'x') + '"';
    compare_neighbours([&] { return beside_bodies(lab, text); },
                       [&] { return beside_bodies(lab, small + "]"); });
}

TEST_CASE("Small frames of a runner delay a neighbour no more than a program that computes",
          "[redteam][full]") {
    Lab lab(Privilege::as_started);
    compare_neighbours([&] { return beside_program(lab, "print('begun')\nwhile True: pass"); },
                       [&] { return beside_program(lab, "while True: print('')"); });
}

TEST_CASE("Comparisons of long arguments delay a neighbour no more than a program that computes",
          "[redteam][full]") {
    Lab lab(Privilege::as_started);
    Json all = Json::array();
    for (int i = 0; i < 60; ++i)
        all.push_back({{"uniqueItems", true}});
    Json tools = Json::array();
    const Json schema{{"properties", {{"a", {{"allOf", all}}}}}};
    tools.push_back({{"name", "pick"}, {"inputSchema", schema}});
    const std::string calls =
        "print('begun')\nitems = {'a': list(range(3000))}\nfor _ in range(9000):\n    try:\n"
        "        await codemode.pick(items)\n    except Exception: pass";
    compare_neighbours([&] { return beside_program(lab, "print('begun')\nwhile True: pass", tools); },
                       [&] { return beside_program(lab, calls, tools); });
}

}  // namespace pace_test
