// Programs that a request runs in a sandbox, over the real server: bytes, bounds, ends, and what goes wrong.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>

#include "core/base/base64.hpp"
#include "core/plain/operation_limits.hpp"
#include "hidden_children.hpp"
#include "tests/support/api_client.hpp"
#include "tests/support/deadline.hpp"

namespace integration_exec_test {

using namespace atl;
using namespace atl::test;

namespace {

using Clock = std::chrono::steady_clock;

const HeaderList k_stream = {{"Accept", "text/event-stream"}};

/// A server with a sandbox that has no conversation.
struct Lab {
    explicit Lab(const std::string& request = "{}", ServerOptions options = {})
        : server(std::move(options)), id(api.call(201, "POST", "/v1/sandboxes", request)["id"]) {}

    std::string path() const { return "/v1/sandboxes/" + id + "/exec"; }
    Json exec(const Json& request, int status = 200) {
        return api.call(status, "POST", path(), request.dump());
    }
    Json shell(const std::string& command, int status = 200) { return exec({{"command", command}}, status); }
    /// Sends it and does not wait for the answer.
    void send(HttpClient& client, const Json& request, const HeaderList& headers = {}) {
        const std::string body = request.dump();
        std::string head =
            "POST " + path() + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + server.key() +
            "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
        for (const auto& [name, value] : headers)
            head.append(name).append(": ").append(value).append("\r\n");
        client.connect();
        client.send_raw(head + "\r\n" + body);
    }
    /// The answer of a script whose time is over after it wrote "set": what it prepared is there by then.
    Json timed_out(const std::string& command) {
        Json answer;
        for (const int timeout_ms : {300, 1500, 7000, 30'000}) {
            answer = exec({{"command", command}, {"timeoutMs", timeout_ms}});
            if (answer["stdout"] == "set\n")
                break;
        }
        INFO(answer.dump());
        REQUIRE(answer["stdout"] == "set\n");
        CHECK(answer["timedOut"] == true);
        return answer;
    }
    /// `timed_out` for a program that ends within the grace behind SIGTERM, again where the machine gave it
    /// no processor in all that time.
    Json ended_in_grace(const std::string& command) {
        const auto until = Clock::now() + k_client_deadline;
        Json answer = timed_out(command);
        while (answer["signal"] == "SIGKILL" && Clock::now() < until)
            answer = timed_out(command);
        return answer;
    }
    /// Waits until a program that writes its progress to a file comes no further; how far it came.
    std::size_t last_progress() {
        constexpr int k_looks = 20;
        std::string last;
        int same = 0;
        const auto until = Clock::now() + k_client_deadline;
        while (same < k_looks && Clock::now() < until) {
            const std::string now = shell("cat progress")["stdout"];
            same = now == last && !now.empty() ? same + 1 : 0;
            last = now;
        }
        REQUIRE(same == k_looks);
        return std::stoul(last);
    }
    /// Waits until `command` exits with 0.
    bool becomes_true(const std::string& command) {
        const auto until = Clock::now() + k_client_deadline;
        while (Clock::now() < until) {
            if (shell(command)["exitCode"] == 0)
                return true;
        }
        return false;
    }

    ServerProcess server;
    ApiClient api{server};
    std::string id;
};

std::string bytes_of(const Json& answer, const std::string& name) {
    if (answer.contains(name))
        return answer[name].get<std::string>();
    return base::decode_base64(answer[name + "Base64"].get<std::string>()).value();
}

/// All frames of an open stream.
std::vector<Json> read_all(HttpClient& client) {
    std::vector<Json> frames;
    while (const auto event = client.next_event())
        frames.push_back(Json::parse(event->data));
    return frames;
}

std::size_t memory_kb(const ServerProcess& server) {
    std::ifstream status("/proc/" + std::to_string(server.pid()) + "/status");
    std::string word;
    std::size_t kb = 0;
    while (status >> word) {
        if (word == "VmRSS:")
            status >> kb;
    }
    return kb;
}

bool runs_all() {
    const char* full = std::getenv("ATOLL_TEST_FULL");
    return full != nullptr && std::string(full) == "1";
}

}  // namespace

TEST_CASE("An exec answers with the exit and every byte of both streams", "[exec]") {
    Lab lab;
    const Json plain = lab.exec({{"argv", {"echo", "a b", "$HOME"}}});
    CHECK(plain["exitCode"] == 0);
    CHECK(plain["signal"].is_null());
    CHECK(plain["timedOut"] == false);
    CHECK(plain["stdout"] == "a b $HOME\n");
    CHECK(plain["stderr"] == "");
    CHECK(plain["truncated"] == Json{{"stdout", false}, {"stderr", false}});
    CHECK(plain["durationMs"].is_number_unsigned());

    std::string all;
    for (int i = 0; i < 256; ++i)
        all.push_back(static_cast<char>(i));
    std::string coded;
    base::append_base64(coded, all);
    const Json answer = lab.exec({{"command", "tee /dev/stderr"}, {"stdinBase64", coded}});
    CHECK(bytes_of(answer, "stdout") == all);
    CHECK(bytes_of(answer, "stderr") == all);
    CHECK_FALSE(answer.contains("stdout"));

    const Json mixed = lab.shell("printf 'ä€𝄞\\0\\n'; printf '\\377' >&2; exit 7");
    CHECK(mixed["exitCode"] == 7);
    CHECK(mixed["stdout"] == std::string("ä€𝄞\0\n", 11));
    CHECK(mixed["stderrBase64"] == "/w==");
}

TEST_CASE("An exec has the input, the variables and the directory that it asks for", "[exec]") {
    Lab lab;
    CHECK(lab.exec({{"command", "cat"}, {"stdin", "in\n"}})["stdout"] == "in\n");
    CHECK(lab.exec({{"command", "wc -c"}, {"stdin", std::string(900'000, 'x')}})["stdout"] == "900000\n");
    CHECK(lab.exec({{"command", "cat"}})["stdout"] == "");
    CHECK(lab.exec({{"command", "true"}, {"stdin", std::string(900'000, 'x')}})["exitCode"] == 0);
    CHECK(lab.exec({{"command", "echo $A:$HOME"}, {"env", {{"A", "1 2"}}}})["stdout"] == "1 2:/workspace\n");
    CHECK(lab.shell("pwd; mkdir -p sub")["stdout"] == "/workspace\n");
    CHECK(lab.exec({{"command", "pwd"}, {"cwd", "sub"}})["stdout"] == "/workspace/sub\n");
    CHECK(lab.exec({{"command", "pwd"}, {"cwd", "/usr/bin"}})["stdout"] == "/usr/bin\n");
    const Json missing = lab.exec({{"command", "pwd"}, {"cwd", "gone"}}, 422);
    CHECK(missing["code"] == "invalid_cwd");
    CHECK(missing["detail"].get<std::string>().find("cwd") != std::string::npos);
    const Json unknown = lab.exec({{"argv", {"no-such-program"}}}, 422);
    CHECK(unknown["detail"].get<std::string>().find("no-such-program") != std::string::npos);
}

TEST_CASE("An exec whose time is over ends with its whole group", "[exec]") {
    Lab lab;
    // The control: the same grandchild outlives a program that ends by itself.
    CHECK(lab.shell("sleep 1001 & exit 0")["exitCode"] == 0);
    CHECK(lab.shell("pgrep -f 'sleep 100[1]'")["exitCode"] == 0);

    const Json soft = lab.timed_out("sleep 1002 & echo set; wait");
    CHECK(soft["signal"] == "SIGTERM");
    CHECK(soft["exitCode"].is_null());
    CHECK(lab.becomes_true("! pgrep -f 'sleep 100[2]'"));

    const Json hard = lab.timed_out("trap '' TERM; sleep 1003 & echo set; while :; do sleep 1; done");
    CHECK(hard["signal"] == "SIGKILL");
    CHECK(lab.becomes_true("! pgrep -f 'sleep 100[3]'"));

    const Json polite = lab.ended_in_grace("trap 'exit 9' TERM; echo set; while :; do sleep 0.01; done");
    CHECK(polite["exitCode"] == 9);
    CHECK(lab.shell("kill -9 $$")["signal"] == "SIGKILL");
    CHECK(lab.shell("kill -USR1 $$")["signal"] == "SIGUSR1");
}

TEST_CASE("An exec whose time is over ends with all that it started, whatever its group or session",
          "[exec]") {
    Lab lab;
    for (const char* hidden : hidden_children::k_all) {
        INFO(hidden);
        // The control: it is there while the program runs.
        HttpClient client = lab.api.connect();
        lab.send(client, {{"command", hidden}});
        CHECK(lab.becomes_true("pgrep -f '200[1]'"));
        client.close();
        CHECK(lab.becomes_true("! pgrep -f '200[1]'"));
        lab.timed_out("echo set; " + std::string(hidden));
        CHECK(lab.becomes_true("! pgrep -f '200[1]'"));
    }
}

TEST_CASE("Output beyond the bound of an exec is dropped and never blocks the program", "[exec]") {
    Lab lab;
    const Json some = lab.exec(
        {{"command", "head -c 5000000 /dev/zero | tr '\\0' x; echo done >&2"}, {"maxOutputBytes", 10}});
    CHECK(some["exitCode"] == 0);
    CHECK(some["stdout"] == "xxxxxxxxxx");
    CHECK(some["stderr"] == "done\n");
    CHECK(some["truncated"] == Json{{"stdout", true}, {"stderr", false}});
    const Json none = lab.exec({{"command", "echo x"}, {"maxOutputBytes", 0}});
    CHECK(none["stdout"] == "");
    CHECK(none["truncated"]["stdout"] == true);
    const Json by_default = lab.shell("head -c 3000000 /dev/zero | tr '\\0' '\\n'");
    CHECK(by_default["stdout"] == std::string(1024 * 1024, '\n'));
    CHECK(by_default["truncated"]["stdout"] == true);
}

TEST_CASE("A streamed exec tells output while the program runs, and its exit last", "[exec]") {
    Lab lab;
    HttpClient client = lab.api.connect();
    const Json request = {{"command", "echo one; echo two >&2; read -t 120 line < go; echo $line"},
                          {"env", {{"A", "b"}}}};
    CHECK(lab.shell("mkfifo go")["exitCode"] == 0);
    REQUIRE(client.open_stream("POST", lab.path(), request.dump(), k_stream).status == 200);
    std::map<std::string, std::string> seen;
    while (seen["stdout"].empty() || seen["stderr"].empty()) {
        const Json frame = Json::parse(client.next_event()->data);
        seen[frame["type"]] += frame["text"].get<std::string>();
    }
    CHECK(seen["stdout"] == "one\n");
    CHECK(seen["stderr"] == "two\n");
    CHECK(lab.shell("echo three > go")["exitCode"] == 0);
    const auto rest = read_all(client);
    REQUIRE(rest.size() == 2);
    CHECK(rest[0]["text"] == "three\n");
    CHECK(rest[1]["type"] == "exit");
    CHECK(rest[1]["exitCode"] == 0);
    CHECK(rest[1]["truncated"] == Json{{"stdout", false}, {"stderr", false}});

    REQUIRE(
        client.open_stream("POST", lab.path() + "?named=1", R"({"command":"kill -9 $$"})", k_stream).status ==
        200);
    const auto named = client.next_event();
    REQUIRE(named.has_value());
    CHECK(named->is_named);
    CHECK(named->event == "exit");
    CHECK(Json::parse(named->data)["signal"] == "SIGKILL");
    CHECK_FALSE(client.next_event().has_value());
    // An exec that cannot begin is answered by a problem, not by a stream.
    CHECK(client.request("POST", lab.path(), R"({"command":"a","cwd":"gone"})", k_stream).status == 422);
}

TEST_CASE("Output beyond the bound of a streamed exec is dropped and never blocks the program", "[exec]") {
    Lab lab;
    const auto stream = [&lab](Json request) {
        request["command"] = "head -c 3000000 /dev/zero | tr '\\0' x; echo done >&2";
        HttpClient client = lab.api.connect();
        REQUIRE(client.open_stream("POST", lab.path(), request.dump(), k_stream).status == 200);
        std::map<std::string, std::string> seen;
        for (const Json& frame : read_all(client)) {
            if (frame["type"] != "exit") {
                seen[frame["type"]] += frame["text"].get<std::string>();
                continue;
            }
            CHECK(frame["exitCode"] == 0);
            seen["truncated"] = frame["truncated"].dump();
        }
        CHECK(seen["stderr"] == "done\n");
        return std::pair(seen["stdout"].size(), seen["truncated"]);
    };
    const std::string cut = R"({"stderr":false,"stdout":true})";
    CHECK(stream(Json::object()) == std::pair(base::k_default_exec_output_bytes, cut));
    CHECK(stream({{"maxOutputBytes", 10}}) == std::pair(std::size_t{10}, cut));
    // The control: all of it is there where the client asks for so much.
    CHECK(stream({{"maxOutputBytes", 3'000'000}}) ==
          std::pair(std::size_t{3'000'000}, std::string(R"({"stderr":false,"stdout":false})")));
}

// [serial]: the server's memory. Of the 100 MB the gate writes 40, and leaves the bound on memory to --full.
// Over 5 s: each frame is read and parsed one by one.
TEST_CASE(
    "A stream of a program that writes 100 MB takes no memory of the server, and a slow reader holds it",
    "[exec][serial]") {
    Lab lab;
    const std::size_t pieces = runs_all() ? 1000 : 400;
    [[maybe_unused]] const std::size_t before_kb = memory_kb(lab.server);
    HttpClient client = lab.api.connect();
    const Json request = {
        {"command", "x=$(head -c 100000 /dev/zero | tr '\\0' x); for ((i = 0; i < " + std::to_string(pieces) +
                        "; ++i)); do printf %s $x; echo $i > progress; done; touch written"},
        {"maxOutputBytes", base::k_max_exec_output_bytes},
        {"timeoutMs", 240'000}};
    REQUIRE(client.open_stream("POST", lab.path(), request.dump(), k_stream).status == 200);
    // Nobody reads: what the buffers on the way hold, less than the bound, is all that was written.
    const Json first = Json::parse(client.next_event()->data);
    CHECK(first["type"] == "stdout");
    CHECK(lab.last_progress() * 100'000 < base::k_max_exec_output_bytes);
    CHECK(lab.shell("test -e written")["exitCode"] == 1);
    std::size_t bytes = first["text"].get_ref<const std::string&>().size();
    [[maybe_unused]] std::size_t most_kb = 0;
    Json last;
    for (std::size_t frames = 0; const auto event = client.next_event(); ++frames) {
        last = Json::parse(event->data);
        if (last["type"] == "stdout")
            bytes += last["text"].get_ref<const std::string&>().size();
        if (frames % 100 == 0)
            most_kb = std::max(most_kb, memory_kb(lab.server));
    }
    CHECK(last["type"] == "exit");
    CHECK(last["exitCode"] == 0);
    CHECK(last["truncated"] == Json{{"stdout", true}, {"stderr", false}});
    CHECK(bytes == base::k_max_exec_output_bytes);
#if !defined(__SANITIZE_ADDRESS__)  // ASan keeps freed blocks
    if (checks_bounds())
        CHECK(most_kb < before_kb + 8192);
#endif
    CHECK(lab.shell("test -e written")["exitCode"] == 0);
}

TEST_CASE("A client that leaves ends its program", "[exec]") {
    Lab lab;
    for (const HeaderList& headers : {HeaderList(), k_stream}) {
        INFO(headers.size());
        HttpClient client = lab.api.connect();
        lab.send(client, {{"command", "touch begun; sleep 1004"}}, headers);
        CHECK(lab.becomes_true("test -e begun && pgrep -f 'sleep 100[4]'"));
        client.close();
        CHECK(lab.becomes_true("! pgrep -f 'sleep 100[4]'"));
        CHECK(lab.shell("rm begun")["exitCode"] == 0);
    }
}

TEST_CASE("Output that one user has too much of is dropped, and others have room", "[exec]") {
    ServerOptions options;
    options.arguments = {"--user-share", "10"};
    Lab lab("{}", std::move(options));
    const auto used = [&] {
        const Json budgets = lab.api.call(200, "GET", "/v1/system")["budgets"];
        return std::ranges::find(budgets, "exec", [](const Json& one) { return one["name"]; })
            ->at("used")
            .get<std::uint64_t>();
    };
    const std::string sandbox = "/v1/sandboxes/" + lab.id;
    // Together they write 48 MiB, nearly twice as much as is kept for a user.
    std::deque<HttpClient> clients;
    for (const std::string name : {"a", "b", "c"}) {
        const std::string command =
            "head -c 8388608 /dev/zero | tr '\\0' x | tee /dev/stderr; touch " + name + "; sleep 1009";
        lab.send(clients.emplace_back(lab.api.connect()), {{"command", command},
                                                           {"maxOutputBytes", base::k_max_exec_output_bytes},
                                                           {"timeoutMs", 120'000}});
    }
    // Programs whose output is dropped go on.
    for (const char* const name : {"a", "b", "c"})
        CHECK(eventually(
            [&] { return lab.api.http().request("GET", sandbox + "/files/" + name).status == 200; }));
    CHECK(used() == base::k_exec_output_budget_bytes / 10);
    CHECK(lab.shell("echo out", 429)["code"] == "user_share");
    const std::string other = lab.api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    const Json whole = lab.api.call(200, "POST", "/v1/sandboxes/" + other + "/exec",
                                    R"({"command":"head -c 500000 /dev/zero | tr '\\0' x"})");
    CHECK(whole["stdout"] == std::string(500'000, 'x'));
    CHECK(whole["truncated"]["stdout"] == false);
    // It is given back with their end.
    for (HttpClient& client : clients)
        client.close();
    CHECK(eventually([&] { return used() == 0; }));
    CHECK(lab.shell("echo out")["stdout"] == "out\n");
}

TEST_CASE("An exec that waits for its program keeps no memory of the bodies of others", "[exec]") {
    ServerOptions options;
    options.arguments = {"--body-memory-mb", "1"};
    Lab lab("{}", std::move(options));
    // A body without a length takes a place as long as the longest: here all there is.
    const std::string body =
        Json{{"command", "# " + std::string(40'000, 'x') + "\ntouch begun; sleep 1007"}}.dump();
    HttpClient client = lab.api.connect();
    client.connect();
    std::ostringstream request;
    request << "POST " << lab.path() << " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
            << lab.server.key() << "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            << std::hex << body.size() << "\r\n"
            << body << "\r\n0\r\n\r\n";
    client.send_raw(request.str());
    CHECK(lab.becomes_true("test -e begun"));
    CHECK(lab.shell("# " + std::string(40'000, 'x') + "\necho ran")["stdout"] == "ran\n");
    CHECK(lab.shell("pgrep -f 'sleep 100[7]'")["exitCode"] == 0);
}

TEST_CASE("An exec in a paused conversation runs without its agent, and what it left dies", "[exec]") {
    const ServerProcess server;
    ApiClient api(server);
    const Json made = api.create();
    const std::string id = made["id"];
    const std::string path = "/v1/sandboxes/" + made["sandboxId"].get<std::string>() + "/exec";
    CHECK(api.message(id, "echo kept > file").exit_code == 0);
    api.call(200, "POST", "/v1/conversations/" + id + "/pause");
    const std::size_t events = api.events(id).size();
    // An exec that runs holds the generation: what another left in the background lives on meanwhile.
    HttpClient holder = api.connect();
    REQUIRE(holder.open_stream("POST", path, R"({"command":"echo on; sleep 1000"})", k_stream).status == 200);
    CHECK(Json::parse(holder.next_event()->data)["text"] == "on\n");
    const Json answer = api.call(200, "POST", path, R"({"command":"cat file; sleep 1005 & echo $!"})");
    CHECK(answer["stdout"].get<std::string>().starts_with("kept\n"));
    const char* const look = R"({"command":"pgrep -f 'sleep 100[5]'"})";
    CHECK(api.call(200, "POST", path, look)["exitCode"] == 0);
    CHECK(api.get(id)["status"] == "paused");
    CHECK(api.events(id).size() == events);
    // The generation goes back, and with it what was left behind.
    holder.close();
    const auto until = Clock::now() + k_client_deadline;
    while (api.get(id)["sandboxStatus"] != "terminated" && Clock::now() < until) {
    }
    CHECK(api.get(id)["sandboxStatus"] == "terminated");
    CHECK(api.call(200, "POST", path, look)["exitCode"] == 1);
}

TEST_CASE("An exec whose sandbox dies, or whose server stops, says so", "[exec]") {
    Lab lab;
    const auto open = [&lab](const std::string& id, HttpClient& client) {
        const std::string path = "/v1/sandboxes/" + id + "/exec";
        REQUIRE(client.open_stream("POST", path, R"({"command":"echo on; sleep 1000"})", k_stream).status ==
                200);
        CHECK(Json::parse(client.next_event()->data)["text"] == "on\n");
    };
    const auto last_of = [](HttpClient& client) {
        const auto frames = read_all(client);
        REQUIRE(frames.size() == 1);
        CHECK(frames[0]["type"] == "stream_closed");
        INFO(frames[0].dump());
        CHECK_FALSE(frames[0]["detail"].get<std::string>().empty());
        return frames[0]["code"].get<std::string>();
    };
    HttpClient client = lab.api.connect();
    open(lab.id, client);
    lab.api.call(204, "DELETE", "/v1/sandboxes/" + lab.id);
    CHECK(last_of(client) == "sandbox_gone");

    // Its memory: the kernel ends all of it.
    const Json made = lab.api.create({{"limits", {{"memoryMb", 64}}}});
    const std::string id = made["sandboxId"];
    HttpClient starved = lab.api.connect();
    open(id, starved);
    const Json bomb = {{"command", "head -c 1000000000 /dev/zero | tail"}, {"timeoutMs", 60000}};
    HttpClient killer = lab.api.connect();
    const auto answer = killer.request("POST", "/v1/sandboxes/" + id + "/exec", bomb.dump());
    INFO(answer.body);
    CHECK((answer.status == 200 || Json::parse(answer.body)["code"] == "sandbox_gone"));
    // Where the kernel ended that program only, the pause ends the other.
    if (answer.status == 200)
        lab.api.http().request("POST", "/v1/conversations/" + made["id"].get<std::string>() + "/pause");
    CHECK(last_of(starved) == "sandbox_gone");

    lab.id = lab.api.call(201, "POST", "/v1/sandboxes", "{}")["id"];
    HttpClient last = lab.api.connect();
    open(lab.id, last);
    HttpClient answered = lab.api.connect();
    lab.send(answered, {{"command", "touch begun; sleep 1000"}});
    const std::string look = "/v1/sandboxes/" + lab.id + "/files/begun";
    const auto until = Clock::now() + k_client_deadline;
    while (lab.api.http().request("GET", look).status != 200 && Clock::now() < until) {
    }
    lab.server.signal(SIGTERM);
    CHECK(last_of(last) == "shutting_down");
    const auto cut = answered.read_response();
    INFO(cut.body);
    CHECK(cut.status == 503);
    CHECK(Json::parse(cut.body)["begun"] == true);
    CHECK(cut.header("retry-after").empty());
}

TEST_CASE("A sandbox that has all its processes refuses an exec by the name of its limit", "[exec]") {
    Lab lab(R"({"limits":{"maxProcesses":24}})");
    HttpClient bomb = lab.api.connect();
    // bash says on stderr that it cannot fork, and waits before it tries again.
    REQUIRE(bomb.open_stream("POST", lab.path(), R"({"command":"while :; do sleep 1006 & done"})", k_stream)
                .status == 200);
    REQUIRE(Json::parse(bomb.next_event()->data)["type"] == "stderr");
    HttpClient client = lab.api.connect();
    const auto refused = client.request("POST", lab.path(), R"({"argv":["true"]})");
    INFO(refused.body);
    REQUIRE(refused.status == 503);
    const Json problem = Json::parse(refused.body);
    CHECK(problem["code"] == "too_many_processes");
    CHECK(problem["detail"].get<std::string>().find("limits.maxProcesses is 24") != std::string::npos);
    CHECK(client.request("POST", lab.path(), R"({"argv":["true"]})", k_stream).status == 503);
    // The group of the bomb ends with its client.
    bomb.close();
    const auto later = Clock::now() + k_client_deadline;
    while (client.request("POST", lab.path(), R"({"argv":["true"]})").status != 200 && Clock::now() < later) {
    }
    CHECK(client.request("POST", lab.path(), R"({"argv":["true"]})").status == 200);
}

TEST_CASE("A request for an exec that is wrong is refused, and nothing runs", "[exec]") {
    Lab lab;
    struct Row {
        std::string body;
        const char* code;
    };
    const Row rows[] = {
        {R"({})", "invalid_field"},
        {R"({"command":"touch ran","argv":["touch","ran"]})", "invalid_field"},
        {R"({"command":"touch ran","user":"root"})", "unknown_field"},
        {R"({"command":"touch ran\u0000"})", "invalid_field"},
        {R"({"command":"touch ran","env":{"LD_PRELOAD":"/x"}})", "invalid_env"},
        {R"({"command":"touch ran","env":{"PATH":"/x"}})", "invalid_env"},
        {R"({"command":"touch ran","env":{"HOME":"/x"}})", "invalid_env"},
        {R"({"command":"touch ran","timeoutMs":0})", "invalid_field"},
        {R"({"command":"touch ran","timeoutMs":1.5})", "invalid_field"},
        {R"({"command":"touch ran","cwd":"ran"})", "invalid_cwd"},
        {R"({"command":"touch ran","cwd":"/etc/passwd"})", "invalid_cwd"},
        {R"({"command":"touch ran","cwd":")" + std::string(4096, 'x') + "\"}", "invalid_field"},
        {R"({"command":"touch ran","cwd":")" + std::string(256, 'x') + "\"}", "invalid_cwd"},
        {R"({"argv":["/workspace"]})", "invalid_field"},
        {R"({"argv":["/etc/passwd"]})", "invalid_field"},
        {R"({"argv":["echo",")" + std::string(200'000, 'x') + "\"]}", "invalid_field"},
        {R"({"command":"touch ran")", "invalid_json"},
        {"{\"command\":\"touch ran\xff\"}", "invalid_utf8"},
    };
    for (const Row& row : rows) {
        INFO(row.body.substr(0, 100));
        const auto response = lab.api.http().request("POST", lab.path(), row.body);
        INFO(response.body);
        CHECK(response.status >= 400);
        CHECK(response.status < 500);
        CHECK(Json::parse(response.body)["code"] == row.code);
    }
    CHECK(lab.shell("test -e ran")["exitCode"] == 1);
    // A script beyond what one argument may hold still runs.
    CHECK(lab.shell("# " + std::string(200'000, 'x') + "\necho ran")["stdout"] == "ran\n");
    const std::string unknown(20, 'a');
    CHECK(
        lab.api.http().request("POST", "/v1/sandboxes/" + unknown + "/exec", "{\"command\":\"a\"}").status ==
        404);
}

// [serial]: many programs at once leave no processor to others.
TEST_CASE("Each of many execs at once gets its own answer, once", "[exec][serial]") {
    // A guest has 30 s to begin each: a thousand at once do so on a slow machine, too.
    const std::size_t sandboxes = runs_all() ? 20 : 8;
    const std::size_t each = 50;
    ServerOptions options;
    // All of them are one user's.
    options.arguments = {"--max-sandboxes", "64", "--user-share", "100"};
    const ServerProcess server(options);
    ApiClient api(server);
    std::vector<std::string> ids;
    while (ids.size() < sandboxes)
        ids.push_back(api.call(201, "POST", "/v1/sandboxes", R"({"limits":{"maxProcesses":128}})")["id"]);
    std::deque<HttpClient> clients;
    for (std::size_t i = 0; i < sandboxes * each; ++i) {
        HttpClient& client = clients.emplace_back(api.connect());
        const std::string& id = ids[i % sandboxes];
        const Json request = {{"command", "cat; echo " + std::to_string(i) + " >> log; echo $ASH_SANDBOX_ID"},
                              {"stdin", "request " + std::to_string(i) + "\n"},
                              {"timeoutMs", 300'000}};
        const std::string body = request.dump();
        client.connect();
        client.send_raw("POST /v1/sandboxes/" + id + "/exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: " +
                        "Bearer " + server.key() + "\r\nContent-Type: application/json\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body);
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
        const HttpResponse response = clients[i].read_response();
        INFO(i << ": " << response.body);
        REQUIRE(response.status == 200);
        REQUIRE(Json::parse(response.body)["stdout"] ==
                "request " + std::to_string(i) + "\n" + ids[i % sandboxes] + "\n");
    }
    for (std::size_t i = 0; i < sandboxes; ++i) {
        const Json log = api.call(200, "POST", "/v1/sandboxes/" + ids[i] + "/exec",
                                  R"({"command":"sort log | uniq | wc -l; wc -l < log"})");
        CHECK(log["stdout"] == std::to_string(each) + "\n" + std::to_string(each) + "\n");
    }
}

}  // namespace integration_exec_test
