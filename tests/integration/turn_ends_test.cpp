// The processes that a turn started end with it, when it is interrupted and when it takes too long.
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "hidden_children.hpp"
#include "tests/support/api_client.hpp"

namespace turn_ends_test {

using namespace atl::test;

namespace {

struct Lab {
    explicit Lab(const ServerOptions& options = {}) : server(options) {}

    bool becomes_true(const char* command) {
        const auto until = std::chrono::steady_clock::now() + k_client_deadline;
        while (std::chrono::steady_clock::now() < until)
            if (api.call(200, "POST", exec, Json{{"command", command}}.dump())["exitCode"] == 0)
                return true;
        return false;
    }

    ServerProcess server;
    ApiClient api{server};
    Json made = api.create({{"agent", "shell"}});
    std::string id = made["id"];
    std::string exec = "/v1/sandboxes/" + made["sandboxId"].get<std::string>() + "/exec";
};

}  // namespace

TEST_CASE("A message that is interrupted ends with all that it started, whatever its group or session") {
    Lab lab;
    // A process that an earlier message left is no part of it.
    lab.api.message(lab.id, "sleep 2002 & exit 0");
    for (const char* hidden : hidden_children::k_all) {
        INFO(hidden);
        const std::string path = "/v1/conversations/" + lab.id;
        lab.api.call(202, "POST", path + "/messages", Json{{"content", hidden}}.dump());
        CHECK(lab.becomes_true("pgrep -f '200[1]'"));
        lab.api.call(200, "POST", path + "/interrupt");
        CHECK(lab.becomes_true("! pgrep -f '200[1]'"));
        CHECK(lab.becomes_true("pgrep -f '200[2]'"));
    }
}

TEST_CASE("A turn that takes too long ends with all that it started, whatever its group or session") {
    std::string all;
    for (const char* hidden : hidden_children::k_all)
        all += "(" + std::string(hidden) + ") & ";
    bool was_set = false;
    // A limit that ended the turn before it was prepared is followed by a longer one.
    for (int limit_seconds = 4; !was_set && limit_seconds < 100; limit_seconds *= 3) {
        ServerOptions options;
        options.arguments = {"--turn-limit", std::to_string(limit_seconds)};
        Lab lab(options);
        lab.api.message(lab.id, "sleep 2002 & exit 0");
        // The control: they are there when it says so.
        const Turn turn = lab.api.message(
            lab.id, all + "until [ $(pgrep -cf '200[1]') -ge 8 ]; do :; done; echo set; wait");
        // A shell without a terminal complains of job control.
        was_set = turn.output.find("set\n") != std::string::npos;
        CHECK(turn.errors == std::vector<std::string>{"turn_timeout"});
        CHECK(lab.becomes_true("! pgrep -f '200[1]'"));
        CHECK(lab.becomes_true("pgrep -f '200[2]'"));
    }
    CHECK(was_set);
}

}  // namespace turn_ends_test
