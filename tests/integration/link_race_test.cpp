// A directory and a link to outside that change places all the time, while every route of files and every
// tool works there: what is outside is never read and never changed. Inside a running sandbox a program swaps
// them; in a paused one, where no program runs, other requests do.
#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

#include "tests/support/api_client.hpp"

namespace link_race_test {

using namespace atl::test;

namespace {

using Clock = std::chrono::steady_clock;

// The content of the files outside, and the name of a file there.
constexpr const char* k_canary = "CANARY";

// rename(2) with RENAME_EXCHANGE, without a pause. A shell has no word for it.
constexpr const char* k_swapper = R"(exec perl -e '
    my $call = `uname -m` =~ /x86_64/ ? 316 : 276;
    my ($one, $other, $swaps) = ("/workspace/place", "/workspace/bad", 0);
    $SIG{TERM} = sub { open(F, ">", "/tmp/swaps"); print F $swaps; close F; exit 0; };
    while (1) { $swaps += syscall($call, -100, $one, -100, $other, 2) == 0; }')";

// Follows the link as any program does: how often it sees which file.
constexpr const char* k_follower = R"(perl -e '
    my %seen; my $end = time + 120;
    until (($seen{good} && $seen{CANARY}) || time > $end) {
        open(F, "<", "/workspace/place/file") or next; $seen{<F> // ""}++; close F; }
    print(($seen{good} ? "good" : "") . ($seen{CANARY} ? " CANARY" : ""));')";

constexpr const char* k_look_outside =
    "cd /tmp/outside && find . -exec stat -c '%n %i %s %a %Y %Z' {} + | sort && cat file";

std::chrono::seconds race_time() {
    const char* full = std::getenv("ATOLL_TEST_FULL");
    return std::chrono::seconds(full != nullptr && std::string(full) == "1" ? 30 : 2);
}

struct Outcomes {
    int inside = 0;
    int refused = 0;  // it led outside
    int other = 0;
};

class Race {
  public:
    using Call = std::function<HttpResponse()>;

    Race() {
        const Json made = api_.create({{"limits", {{"cpuPercent", 200}}}});
        id_ = made["id"];
        sandbox_ = made["sandboxId"];
        exec(
            "mkdir -p place stage/place && printf good > place/file && printf tar > stage/place/t && "
            "ln -s /tmp/outside bad");
        tar_ = http_.request("GET", path("archive?path=stage")).body;
    }

    void pause() { api_.call(200, "POST", "/v1/conversations/" + id_ + "/pause", "{}"); }
    Json conversation() { return api_.get(id_); }
    ApiClient& api() { return api_; }
    std::string path(const std::string& rest) const { return "/v1/sandboxes/" + sandbox_ + "/" + rest; }
    std::string exec(const std::string& command) {
        const Json answer = api_.call(200, "POST", path("exec"), Json{{"command", command}}.dump());
        INFO(answer.dump());
        REQUIRE(answer["exitCode"] == 0);
        return answer["stdout"];
    }
    /// Makes what must not be reached; as it is now.
    std::string make_outside() {
        exec(
            "mkdir /tmp/outside && printf CANARY > /tmp/outside/file && printf CANARY > /tmp/outside/CANARY");
        return exec(k_look_outside);
    }
    void copy(const std::string& from, const std::string& to, HttpClient& client) const {
        const auto answer = client.request("POST", path("files/" + from),
                                           Json{{"op", "copy"}, {"to", to}, {"overwrite", true}}.dump());
        if (answer.status != 201)
            throw std::runtime_error("a copy failed: " + answer.body);
    }
    /// Until all has been seen, for race_time() at least.
    void run() {
        const auto begun = Clock::now();
        const std::vector<std::pair<std::string, Call>> calls = every_call();
        const auto is_enough = [&] {
            const auto time = Clock::now() - begun;
            const bool saw_all = std::ranges::all_of(
                outcomes, [](const auto& each) { return each.second.inside > 0 && each.second.refused > 0; });
            return time > std::chrono::seconds(200) || (!outcomes.empty() && saw_all && time > race_time());
        };
        while (!is_enough()) {
            for (const auto& [name, call] : calls)
                note(name, call());
            // These resolve nothing that is swapped, but walk over it.
            for (const std::string whole : {"archive", "files/?list=1&depth=9"})
                leaked = leaked || shows_canary(http_.request("GET", path(whole)));
            ++round_;
        }
    }

    std::map<std::string, Outcomes> outcomes;
    bool leaked = false;
    std::string failure;

  private:
    static bool shows_canary(const HttpResponse& answer) {
        return answer.body.find(k_canary) != std::string::npos;
    }
    void note(const std::string& name, const HttpResponse& answer) {
        leaked = leaked || shows_canary(answer);
        const bool is_refused = answer.body.find("\"outside_workspace\"") != std::string::npos ||
                                answer.body.find("\"OUTSIDE_WORKSPACE\"") != std::string::npos;
        const bool is_failure = answer.body.starts_with("{\"success\":false");
        Outcomes& seen = outcomes[name];
        if (is_refused)
            ++seen.refused;
        else if (answer.status < 300 && !is_failure)
            ++seen.inside;
        else
            ++seen.other;
        if (answer.status >= 500)
            failure = name + ": " + answer.body;
    }
    Call file(const std::string& method, const std::string& rest, const std::string& body = "") {
        return [=, this] {
            const HeaderList type = {{"Content-Type", "application/octet-stream"}};
            return http_.request(method, path(rest), body, method == "PUT" ? type : HeaderList());
        };
    }
    Call change(const std::string& from, const std::string& op, const std::string& to) {
        return [=, this] {
            Json form = {{"op", op}};
            if (op == "mkdir")
                return http_.request("POST", path("files/" + from + std::to_string(round_)), form.dump());
            form["to"] = to;
            form["overwrite"] = true;
            return http_.request("POST", path("files/" + from), form.dump());
        };
    }
    Call tool(const std::string& name, const Json& arguments) {
        return [=, this] {
            const Json body = {{"sandboxId", sandbox_}, {"args", arguments}};
            return http_.request("POST", "/v1/tools/" + name, body.dump());
        };
    }
    std::vector<std::pair<std::string, Call>> every_call() {
        const Json overwrite = {{"path", "place/w"}, {"content", "a"}, {"allow_overwrite", true}};
        return {
            {"get", file("GET", "files/place/file")},
            {"stat", file("GET", "files/place/file?stat=1")},
            {"list", file("GET", "files/place?list=1&depth=3")},
            {"put", file("PUT", "files/place/new", "x")},
            {"put in place", file("PUT", "files/place/kept?inplace=1", "x")},
            {"put deep", file("PUT", "files/place/a/b/new", "x")},
            {"mkdir", change("place/made", "mkdir", "")},
            {"copy out", change("place/file", "copy", "copied")},
            {"copy in", change("copied", "copy", "place/copied")},
            {"copy tree", change("place/a", "copy", "place/tree" + std::to_string(0))},
            {"delete tree", file("DELETE", "files/place/tree0?recursive=1")},
            {"move in",
             [this] {
                 file("PUT", "files/mover", "x")();
                 return change("mover", "move", "place/moved")();
             }},
            {"move out", change("place/moved", "move", "back")},
            {"delete", file("DELETE", "files/place/copied")},
            {"tar out", file("GET", "archive?path=place")},
            {"tar in", file("PUT", "archive", tar_)},
            {"list_directory", tool("list_directory", {{"path", "place"}})},
            {"read_file", tool("read_file", {{"path", "place/file"}})},
            {"write_file", tool("write_file", overwrite)},
            {"replace",
             tool("replace", {{"file_path", "place/w"}, {"old_string", "a"}, {"new_string", "b"}})},
            {"search_file_content",
             tool("search_file_content", {{"pattern", "good|CANARY"}, {"path", "place"}})},
            {"glob", tool("glob", {{"pattern", "*"}, {"path", "place"}})},
        };
    }

    ServerProcess server_;
    ApiClient api_{server_};
    HttpClient http_ = api_.connect();
    std::string id_;
    std::string sandbox_;
    std::string tar_;
    int round_ = 0;
};

void check(Race& race, const std::string& outside) {
    for (const auto& [name, seen] : race.outcomes) {
        INFO(name << ": " << seen.inside << " inside, " << seen.refused << " refused, " << seen.other
                  << " other");
        CHECK(seen.inside > 0);
        CHECK(seen.refused > 0);
    }
    CHECK(race.outcomes.size() == 22);
    CHECK(race.failure.empty());
    CHECK_FALSE(race.leaked);
    CHECK(race.exec(k_look_outside) == outside);
    CHECK(race.exec("grep -rlE CANARY /workspace | wc -l") == "0\n");
}

}  // namespace

TEST_CASE("A link that a program of the sandbox swaps in leads no route and no tool outside") {
    Race race;
    const std::string outside = race.make_outside();
    const Json process =
        race.api().call(201, "POST", race.path("processes"), Json{{"command", k_swapper}}.dump());
    // The control: who follows links reaches what is outside, now and then.
    REQUIRE(race.exec(k_follower) == "good CANARY");
    race.run();
    race.api().call(204, "POST",
                    race.path("processes/" + process["processId"].get<std::string>() + "/signal"),
                    R"({"signal":"SIGTERM"})");
    const std::string swaps =
        race.exec("for i in $(seq 600); do test -s /tmp/swaps && break; sleep 0.1; done; cat /tmp/swaps");
    CHECK(std::stol(swaps) > 0);
    check(race, outside);
}

TEST_CASE("A link that other requests swap in leads no route and no tool of a paused sandbox outside") {
    Race race;
    // Renames of requests replace links by links: one leads into the workspace, one out of it.
    race.exec("mv place real && ln -s real inside && ln -s real place");
    race.pause();
    const std::string outside = race.make_outside();
    const auto generation = race.conversation()["generation"];
    std::atomic<bool> is_over = false;
    std::atomic<int> swaps = 0;
    std::string failure;
    std::jthread swapper([&] {
        try {
            for (HttpClient client = race.api().connect(); !is_over; ++swaps) {
                race.copy("bad", "place", client);
                race.copy("inside", "place", client);
            }
        } catch (const std::exception& error) {
            failure = error.what();
        }
    });
    std::string control;
    try {
        control = race.exec(k_follower);
        race.run();
    } catch (...) {
        is_over = true;
        throw;
    }
    is_over = true;
    swapper.join();
    CHECK(failure.empty());
    CHECK(control == "good CANARY");
    CHECK(swaps > 20);
    check(race, outside);
    // The files outside were there all the time: no call has started a new generation.
    CHECK(race.conversation()["status"] == "paused");
    CHECK(race.conversation()["generation"] == generation);
}

}  // namespace link_race_test
