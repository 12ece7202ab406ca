// The commands that README.md and the quickstart show work as they are written there.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "core/plain/inner_paths.hpp"
#include "tests/support/api_client.hpp"
#include "tests/support/deadline.hpp"
#include "tests/support/paths.hpp"

namespace docs_test {

using namespace atl;
using namespace atl::test;

namespace {

namespace fs = std::filesystem;

void replace_all(std::string& text, const std::string& what, const std::string& by) {
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

/// The blocks of the page that are marked `language`, one after the other.
std::string marked_blocks_of(const fs::path& page, const std::string& language) {
    std::ifstream file(fs::path(test::source_path("")) / page);
    REQUIRE(file);
    std::string commands;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("```"))
            inside = line == "```" + language;
        else if (inside)
            commands += line + '\n';
    }
    return commands;
}

std::string commands_of(const fs::path& page) {
    return marked_blocks_of(page, "sh");
}

/// The output of `command` on both streams. Checks its exit status.
std::string output_of(const std::string& command, int exit_status = 0) {
    FILE* const shell = ::popen((command + " 2>&1").c_str(), "re");
    REQUIRE(shell != nullptr);
    std::string output;
    std::array<char, 4096> chunk{};
    for (std::size_t got = 1; got > 0;) {
        got = std::fread(chunk.data(), 1, chunk.size(), shell);
        output.append(chunk.data(), got);
    }
    const int status = ::pclose(shell);
    INFO(command << "\nprinted\n" << output);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == exit_status);
    return output;
}

/// cut: the page ends programs before their end.
enum class Pipes : std::uint8_t { whole, cut };

/// Against this server, in a folder of its own; what they printed.
std::string run_commands(const ServerProcess& server, const fs::path& folder, std::string commands,
                         Pipes pipes = Pipes::whole) {
    std::ofstream(server.data_dir() / "api-key") << server.key() << "\r\n";  // as some editors write it
    replace_all(commands, "/var/lib/atoll/data", server.data_dir().string());
    replace_all(commands, "127.0.0.1:4100", server.address());
    INFO(commands);
    std::ofstream(folder / "commands")
        << (pipes == Pipes::whole ? "set -euo pipefail" : "set -u") << "\ncd " << folder.string()
        << "\nPATH=" << test::build_path("bin") << ":$PATH\n"
        << commands;
    return output_of("bash " + (folder / "commands").string());
}

std::string run_page(const ServerProcess& server, const fs::path& folder, const fs::path& page,
                     Pipes pipes = Pipes::whole) {
    return run_commands(server, folder, commands_of(page), pipes);
}

/// The page at the address that the commands printed last, once something listens there.
std::string page_at_end_of(const std::string& output) {
    const std::string before = "http://localhost:";
    const auto at = output.rfind(before);
    REQUIRE(at != std::string::npos);
    const std::string port = std::to_string(std::stoi(output.substr(at + before.size())));
    HttpClient visitor("127.0.0.1:" + port, {{"Host", "localhost:" + port}});
    HttpResponse answer;
    CHECK(eventually([&] { return (answer = visitor.request("GET", "/")).status == 200; }));
    return answer.body;
}

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        ++count;
    return count;
}

std::string text_of(const fs::path& page) {
    std::ostringstream text;
    text << std::ifstream(fs::path(test::source_path("")) / page).rdbuf();
    return text.str();
}

using Events = std::vector<std::pair<std::size_t, std::string>>;

/// The numbers and types of the events in streamed text.
Events events_of(const std::string& text) {
    Events events;
    const std::regex event("\\{\"seq\":(\\d+),\"type\":\"(\\w+)\"");
    for (std::sregex_iterator at(text.begin(), text.end(), event), end; at != end; ++at)
        events.emplace_back(std::stoul((*at)[1].str()), (*at)[2].str());
    return events;
}

/// Each type once for all events of it that follow each other.
std::vector<std::string> types_of(const Events& events) {
    std::vector<std::string> types;
    for (const auto& [number, type] : events)
        if (types.empty() || types.back() != type)
            types.push_back(type);
    return types;
}

}  // namespace

TEST_CASE("The table of flags is what scripts/docs would write from --help") {
    const std::string script = test::source_path("scripts/docs ");
    const std::string program = " " + test::build_path("bin/atolld");
    output_of(script + "--check" + program);
    // The positive control: a page with another default is refused, and written as it should be.
    const std::string text = text_of("docs/operations/configuration.md");
    CHECK(count_of(text, "\n| `--") > 50);
    std::string other = text;
    replace_all(other, "| `4096` |", "| `4097` |");
    REQUIRE(other != text);
    const TempDir folder;
    const fs::path page = folder.path() / "page.md";
    std::ofstream(page) << other;
    CHECK(output_of(script + "--check --page " + page.string() + program, 1).find("4097") !=
          std::string::npos);
    output_of(script + "--page " + page.string() + program);
    CHECK(text_of(page) == text);
    std::ofstream(page) << "# A page without marks\n";
    output_of(script + "--page " + page.string() + program, 2);
    output_of(script + "--check /bin/true", 2);
}

TEST_CASE("The pages for operators name no flag in a table that the server does not have") {
    const std::string flags = text_of("docs/operations/configuration.md");
    const std::string page = text_of("docs/operations/limits-and-capacity.md");
    const std::regex row("\\n\\| `(--[a-z-]+)");
    std::size_t count = 0;
    for (std::sregex_iterator at(page.begin(), page.end(), row), end; at != end; ++at, ++count) {
        INFO((*at)[1]);
        CHECK(flags.find("| `" + (*at)[1].str() + "` |") != std::string::npos);
    }
    CHECK(count > 5);
}

TEST_CASE("The walk of README.md works as it is written") {
    const ServerProcess server;
    const TempDir folder;
    const std::string output = run_page(server, folder.path(), "README.md", Pipes::cut);
    INFO(output);
    // The output has the events that the page shows, each once and in its order. On a slow machine lines of
    // output may come in one event, and the end may not come in time.
    const Events shown = events_of(text_of("README.md"));
    const Events printed = events_of(output);
    CHECK(shown.size() == 6);
    REQUIRE(printed.size() > 3);  // the connection breaks behind the third
    for (std::size_t i = 0; i < printed.size(); ++i)
        CHECK(printed[i].first == shown[0].first + i);
    const auto all_types = types_of(shown);
    const auto types = types_of(printed);
    REQUIRE(types.size() <= all_types.size());
    CHECK(std::equal(types.begin(), types.end(), all_types.begin()));
    CHECK(output.find("\"requestId\"") == std::string::npos);  // a problem
    CHECK(output.starts_with("I am a stand-in without a model"));
    // The page of the prompt stays, and nothing else.
    ApiClient api(server);
    const Json left = api.call(200, "GET", "/v1/conversations")["conversations"];
    REQUIRE(left.size() == 1);
    const std::string url = api.get(left[0]["id"])["sandboxPublicUrl"];
    REQUIRE(output.find(url + "\n") != std::string::npos);
    if (is_root())
        CHECK(page_at_end_of(output).find("<h1>A page about the tides</h1>") != std::string::npos);
}

namespace {

/// Speaks as the program `claude` does. It asks its model once, and may then write and serve a page.
constexpr const char* k_claude_of_docs = R"python(
import json, os, subprocess, sys, urllib.request
command = {"command": "python3 -m http.server 5173 &"}
def send(kind, **members): print(json.dumps({"type": kind, **members}), flush=True)
def block(kind, **members): return {"id": "m1", "content": [{"type": kind, **members}]}
for line in sys.stdin:
    m = json.loads(line)
    if m["type"] == "control_request":
        send("control_response", response={"subtype": "success", "request_id": m["request_id"], "response": {}})
    elif m["type"] == "user":
        send("system", subtype="init", session_id="1111-2222")
        send("assistant", message=block("tool_use", id="t1", name="Bash", input=command))
        send("control_request", request_id="p1", request={"subtype": "can_use_tool", "tool_name": "Bash", "input": command, "tool_use_id": "t1"})
    elif m["type"] == "control_response":
        assert m["response"]["response"]["behavior"] == "allow"
        with urllib.request.urlopen(os.environ["ANTHROPIC_BASE_URL"] + "/v1/agents") as answer:
            said = answer.read().decode()
        open("index.html", "w").write("the page of claude")
        subprocess.Popen(["python3", "-m", "http.server", "5173"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        send("user", message=block("tool_result", tool_use_id="t1", content="served"))
        send("assistant", message=block("text", text="asked a model: " + str("shell" in said)))
        send("result", subtype="success", is_error=False)
)python";

}  // namespace

TEST_CASE("Claude Code in ten lines works as it is written, with a program that speaks as it does") {
    const ServerProcess model;  // a server that answers to its key alone, which it takes in the same header
    const TempDir folder;
    const Json claude{{"name", "claude"},
                      {"adapter", "stream-json"},
                      {"argv", Json::array({"python3", "-c", k_claude_of_docs})}};
    std::ofstream(folder.path() / "agents.json") << Json{{"agents", Json::array({claude})}}.dump();
    ServerOptions options;
    options.arguments = {"--agents-file", (folder.path() / "agents.json").string(), "--egress-private",
                         "127.0.0.1/32:" + std::to_string(model.port())};
    const ServerProcess server(options);
    std::string commands = commands_of("docs/agents.md");
    replace_all(commands, "https://api.anthropic.com", "http://" + model.address());
    replace_all(commands, "api.anthropic.com", "127.0.0.1");
    const std::string output =
        run_commands(server, folder.path(), "export ANTHROPIC_API_KEY=" + model.key() + "\n" + commands);
    INFO(output);
    CHECK(output.find("Bash {\"command\":\"python3 -m http.server 5173 &\"}") != std::string::npos);
    CHECK(output.find("asked a model: True") != std::string::npos);
    CHECK(output.find(model.key()) == std::string::npos);
    if (is_root())
        CHECK(page_at_end_of(output) == "the page of claude");
}

TEST_CASE("A server prints the walk of README.md, for its own address and key") {
    const ServerProcess server;
    std::string walk = commands_of("README.md");
    replace_all(walk, "127.0.0.1:4100", server.address());
    // This server has one.
    replace_all(walk, "$(tr -d '\\r\\n' < /var/lib/atoll/data/api-key)", "$ATOLL_API_KEY");
    std::istringstream lines(walk);
    std::string indented;
    for (std::string line; std::getline(lines, line);)
        indented += "  " + line + "\n";
    INFO(server.printed() << "\nlacks\n" << indented);
    CHECK(server.printed().find(indented) != std::string::npos);
}

TEST_CASE("The quickstart works as it is written") {
    const ServerProcess server;
    const TempDir folder;
    const std::string output = run_page(server, folder.path(), "docs/quickstart.md", Pipes::cut);
    INFO(output);
    CHECK(output.find("\"requestId\"") == std::string::npos);  // a problem
    CHECK(count_of(output, R"("type":"done")") >= 2);
    // The stream that is connected again goes on behind the last event that was seen.
    const Events printed = events_of(output);
    const auto end =
        std::find_if(printed.begin(), printed.end(), [](const auto& one) { return one.second == "done"; });
    REQUIRE(printed.end() - end > 1);
    CHECK((end + 1)->first == end->first + 1);
    CHECK(output.find("log_replaced") == std::string::npos);
    CHECK(output.find("\"filesystem\": \"bubblewrap\"") != std::string::npos);
    CHECK(output.find("paused\n") != std::string::npos);
    CHECK(output.find("hello") != std::string::npos);
    CHECK(output.find("Permission denied") == std::string::npos);
    CHECK(ApiClient(server).call(200, "GET", "/v1/conversations")["conversations"].empty());
}

TEST_CASE("The loop of a model that docs/tools.md shows is that of the example, which a test runs") {
    std::istringstream example(text_of("clients/examples/model_loop.py"));
    std::istringstream loop(marked_blocks_of("docs/tools.md", "python"));
    std::size_t count = 0;
    for (std::string line; std::getline(loop, line); ++count) {
        INFO(line);
        std::string there;
        while (std::getline(example, there) && there != line) {
        }
        CHECK(there == line);
    }
    CHECK(count >= 10);
    CHECK(count <= 20);
}

TEST_CASE("The commands of the pages for backends work as they are written") {
    const ServerProcess server;
    for (const char* page :
         {"clients.md", "exec.md", "files.md", "processes.md", "tools.md", "operations/monitoring.md"}) {
        const TempDir folder;
        const std::string output = run_page(server, folder.path(), fs::path("docs") / page);
        INFO(page << " printed\n" << output);
        CHECK_FALSE(output.empty());
        CHECK(output.find("\"requestId\"") == std::string::npos);  // a problem
        CHECK(output.find("\"success\":false") == std::string::npos);
        CHECK(output.find("not found") == std::string::npos);
    }
}

namespace {

/// A block of commands, with all that stands in it.
struct Block {
    std::string page;
    std::string text;
};

bool has_command(const std::string& text) {
    return std::regex_search(
        text, std::regex("(^|\n)(api|curl|atolld|scripts/|mkdir|install|docker|mkfs|rsync|systemd-run|POST)"
                         " ?[^ :]"));
}

/// The command blocks of a page: marked `sh`, or indented and with a command in them.
std::vector<Block> blocks_of(const fs::path& page) {
    std::istringstream lines(text_of(page));
    std::vector<Block> blocks;
    std::string text;
    std::string fence;
    const auto end = [&](bool is_marked) {
        if (is_marked || has_command(text))
            blocks.push_back({page.string(), text});
        text.clear();
    };
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```")) {
            end(fence == "```sh");
            fence = fence.empty() ? line : "";
        } else if (fence == "```sh") {
            text += line + '\n';
        } else if (fence.empty() && line.starts_with("    ")) {
            text += line.substr(4) + '\n';
        } else if (fence.empty()) {
            end(false);
        }
    }
    end(false);
    return blocks;
}

/// Says what is not literal in a block; empty: nothing. `known` gets the names that the block defines.
std::string fault_of(const std::string& text, std::set<std::string>& known) {
    const auto found = [&text](const char* pattern) {
        std::smatch match;
        return std::regex_search(text, match, std::regex(pattern)) ? match.str() : std::string();
    };
    if (const auto answer = found("(^|\n)(\\{\"|data: |id: |HTTP/)[^\n]*"); !answer.empty())
        return "an answer in it: " + answer;
    if (const auto comment = found("[^ \n\\\\] {4,}[^# \n]+"); !comment.empty())
        return "words beside a command: " + comment;
    if (const auto place = found("…|\\b[A-Z]+-(DIR|ID|KEY)\\b|/ID\\b| (ID|KEY|BACKUP|IMAGE)\\b");
        !place.empty())
        return "something to fill in: " + place;
    const std::regex definition("(?:^|\n|for |read -r )([a-z_]+)(?:=|\\(\\)| in |;)");
    for (std::sregex_iterator at(text.begin(), text.end(), definition), end; at != end; ++at)
        known.insert((*at)[1]);
    const std::regex use("\\$\\{?([a-z_]+)");
    for (std::sregex_iterator at(text.begin(), text.end(), use), end; at != end; ++at)
        if (!known.contains((*at)[1]))
            return "a name that nothing defines: " + (*at)[1].str();
    if (!found("(^|\n|\\()api ").empty() && !known.contains("api"))
        return "a name that nothing defines: api";
    return "";
}

}  // namespace

TEST_CASE("The names that lists and archives leave out stand where a reader looks for them") {
    for (const char* page : {"docs/files.md", "clients/js/README.md", "clients/js/src/files.d.ts",
                             "clients/python/README.md", "http/api/file_call.hpp"}) {
        const std::string text = text_of(page);
        for (const std::string_view name : base::k_home_names) {
            INFO(page << " lacks " << name);
            CHECK(text.find("`" + std::string(name) + "`") != std::string::npos);
        }
    }
}

TEST_CASE("The user of the image can write its home, where a server keeps what it leases") {
    const std::string image = text_of("Dockerfile");
    CHECK(std::regex_search(image, std::regex("useradd [^\n]*--home-dir /data ")));
    CHECK(image.find("install -d -o 1000 -g 1000 -m 700 /data") != std::string::npos);
    CHECK(image.find("\nVOLUME /data\n") != std::string::npos);
}

TEST_CASE("Every command block of the pages is literal") {
    std::size_t count = 0;
    std::vector<fs::path> pages = {"README.md"};
    for (const auto& entry : fs::recursive_directory_iterator(test::source_path("docs")))
        if (entry.path().extension() == ".md")
            pages.push_back(fs::relative(entry.path(), test::source_path("")));
    for (const auto& page : pages) {
        std::set<std::string> known;
        for (const Block& block : blocks_of(page)) {
            INFO(block.page << '\n' << block.text);
            CHECK(fault_of(block.text, known) == "");
            ++count;
        }
    }
    CHECK(count > 30);
    // The positive control.
    for (const char* text : {"api $url\n", "curl x\n{\"id\":1}\n", "curl a      the bytes\n",
                             "curl https://a/ID\n", "docker run IMAGE\n", "POST /v1/x {\"a\": \"…\"}\n",
                             "atolld --data-dir DATA-DIR\n", "curl -d '…'\n"}) {
        std::set<std::string> known = {"url"};
        INFO(text);
        CHECK(fault_of(text, known) != "");
    }
}

}  // namespace docs_test
