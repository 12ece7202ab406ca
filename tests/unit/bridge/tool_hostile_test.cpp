// The tools of a real guest against hostile paths, hostile files and changes at bad moments.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "bridge/guest/files/new_file.hpp"
#include "exec_client.hpp"
#include "tool_client.hpp"

namespace tool_hostile_test {

using namespace atl::test;
using Json = nlohmann::json;

namespace {

/// Each tool with `path` as its place; those that write have something to write.
std::vector<std::pair<std::string, Json>> every_tool(const std::string& path) {
    return {{"list_directory", {{"path", path}}},
            {"read_file", {{"path", path}}},
            {"write_file", {{"path", path}, {"content", "mine"}, {"allow_overwrite", true}}},
            {"replace", {{"file_path", path}, {"old_string", "secret"}, {"new_string", "mine"}}},
            {"search_file_content", {{"pattern", "secret"}, {"path", path}}},
            {"glob", {{"pattern", "**"}, {"path", path}}}};
}

/// A directory outside the workspace with a file that must be neither shown nor changed.
struct Outside {
    Workspace directory;
    Outside() { directory.write("file", "secret"); }
    bool is_untouched() const { return directory.read("file") == "secret" && directory.count() == 1; }
};

}  // namespace

TEST_CASE("No tool takes a path that leads outside the workspace or is none") {
    const ToolGuest guest;
    const Outside outside;
    const std::string up = "../" + std::filesystem::path(outside.directory.path()).filename().string();
    std::filesystem::create_symlink(outside.directory.path(), guest.workspace.path("absolute"));
    std::filesystem::create_symlink("../" + up, guest.workspace.path("relative"));
    std::filesystem::create_symlink("self", guest.workspace.path("self"));
    // The links are good: outside the guest they show the file.
    REQUIRE(guest.workspace.read("absolute/file") == "secret");
    const std::pair<std::string, std::string> table[] = {
        {up + "/file", "OUTSIDE_WORKSPACE"},
        {"a/../../" + up + "/file", "FILE_NOT_FOUND"},
        {"../../../../../../etc/passwd", "OUTSIDE_WORKSPACE"},
        {"/etc/passwd", "OUTSIDE_WORKSPACE"},
        {"/workspace/../etc/passwd", "OUTSIDE_WORKSPACE"},
        {"/workspaces/x", "OUTSIDE_WORKSPACE"},
        {"absolute/file", "OUTSIDE_WORKSPACE"},
        {"relative/file", "OUTSIDE_WORKSPACE"},
        {"self", "INVALID_PATH"},
        {"self/file", "INVALID_PATH"},
        {std::string("a\0b", 3), "INVALID_PATH"},
        {std::string(256, 'n'), "INVALID_PATH"},
        {std::string(4096, 'p'), "INVALID_PATH"},
        {"~/file", "FILE_NOT_FOUND"},
        {"$HOME/file", "FILE_NOT_FOUND"},
    };
    for (const auto& [path, code] : table)
        for (const auto& [tool, arguments] : every_tool(path)) {
            if (tool == "write_file" && code == "FILE_NOT_FOUND")
                continue;
            INFO(tool << " " << path.substr(0, 80));
            // A tool that changes files checks the whole path before it reports a missing part.
            const bool climbs = tool == "replace" && path.starts_with("a/..");
            CHECK(guest.run(tool, arguments).code() == (climbs ? "OUTSIDE_WORKSPACE" : code));
        }
    CHECK(guest.run("write_file", {{"path", "a/../../" + up + "/new"}, {"content", "x"}}).code() ==
          "OUTSIDE_WORKSPACE");
    CHECK_FALSE(guest.workspace.has("a"));
    CHECK(outside.is_untouched());
}

TEST_CASE("A home that a shell would expand is an ordinary name") {
    const ToolGuest guest;
    REQUIRE(guest.run("write_file", {{"path", "~/f"}, {"content", "1"}}).success());
    REQUIRE(guest.run("write_file", {{"path", "$HOME/f"}, {"content", "2"}}).success());
    CHECK(guest.workspace.read("~/f") == "1");
    CHECK(guest.workspace.read("$HOME/f") == "2");
}

TEST_CASE("Names that are not UTF-8 are listed escaped, and reached by the escape") {
    const ToolGuest guest;
    guest.workspace.write("a\xFF\n.txt", "odd\n");
    guest.workspace.write("100%FE.txt", "literal\n");
    const auto list = guest.run("list_directory", {{"path", "."}});
    CHECK(list.data().at("entries").at(0).at("name") == "100%25FE.txt");
    const std::string path = list.data().at("entries").at(1).at("path");
    CHECK(path == "/workspace/a%FF\n.txt");
    CHECK(guest.run("read_file", {{"path", path}}).data().at("content") == "odd\n");
    CHECK(guest.run("read_file", {{"path", "100%25FE.txt"}}).data().at("content") == "literal\n");
    CHECK(guest.run("read_file", {{"path", "100%FE.txt"}}).code() == "FILE_NOT_FOUND");
    REQUIRE(
        guest.run("replace", {{"file_path", path}, {"old_string", "odd"}, {"new_string", "even"}}).success());
    CHECK(guest.workspace.read("a\xFF\n.txt") == "even\n");
    const auto found = guest.run("search_file_content", {{"pattern", "even"}});
    CHECK(found.data().at("matches").at(0).at("filePath") == path);
    CHECK(guest.run("glob", {{"pattern", "a*"}}).data().at("files").at(0) == path);
}

TEST_CASE("What an interrupted write left is shown by no tool, and none can write to such a name") {
    const ToolGuest guest;
    const std::string left = ".atoll-write-0123456789abcdef-7";
    REQUIRE(atl::guest::is_hidden_name(left));
    guest.workspace.write(left, "foo\n");
    guest.workspace.write("d/" + left + "/inner", "foo\n");
    guest.workspace.write(".atoll-write-notes", "foo\n");
    CHECK(guest.run("list_directory", {{"path", "."}}).data().at("totalCount") == 2);
    const auto files = guest.run("glob", {{"pattern", "**"}});
    CHECK(files.data().at("files") == Json::parse(R"(["/workspace/.atoll-write-notes"])"));
    const auto found = guest.run("search_file_content", {{"pattern", "foo"}});
    CHECK(found.data().at("matchCount") == 1);
    for (const std::string& path : {left, "d/" + left + "/more"}) {
        CHECK(guest.run("write_file", {{"path", path}, {"content", "x"}, {"allow_overwrite", true}}).code() ==
              "INVALID_PATH");
        CHECK(
            guest.run("replace", {{"file_path", path}, {"old_string", "foo"}, {"new_string", "x"}}).code() ==
            "INVALID_PATH");
    }
    CHECK(guest.workspace.read(left) == "foo\n");
}

TEST_CASE("The state of agents is there for no tool, also through a link") {
    const ToolGuest guest;
    guest.workspace.write(".atoll/agents/a/session", "foo\n");
    // Such a folder elsewhere, and names that begin so, are ordinary ones.
    guest.workspace.write("d/.atoll/file", "bar\n");
    guest.workspace.write(".atoll-notes", "bar\n");
    std::filesystem::create_directory_symlink(".atoll/agents", guest.workspace.path("link"));
    for (const std::string folder : {"/workspace/.atoll", "./.atoll/agents", "d/../.atoll/agents", "link"}) {
        INFO(folder);
        CHECK(guest.run("list_directory", {{"path", folder}}).code() == "FILE_NOT_FOUND");
        CHECK(guest.run("search_file_content", {{"pattern", "foo"}, {"path", folder}}).code() ==
              "FILE_NOT_FOUND");
        CHECK(guest.run("write_file", {{"path", folder + "/new"}, {"content", "x"}}).code() ==
              "FILE_NOT_FOUND");
    }
    for (const std::string file : {".atoll/agents/a/session", "link/a/session"}) {
        INFO(file);
        CHECK(guest.run("read_file", {{"path", file}}).code() == "FILE_NOT_FOUND");
        CHECK(guest.run("write_file", {{"path", file}, {"content", "x"}, {"allow_overwrite", true}}).code() ==
              "FILE_NOT_FOUND");
        CHECK(
            guest.run("replace", {{"file_path", file}, {"old_string", "foo"}, {"new_string", "x"}}).code() ==
            "FILE_NOT_FOUND");
    }
    CHECK(guest.workspace.read(".atoll/agents/a/session") == "foo\n");
    CHECK(guest.workspace.count(".atoll") == 1);
    CHECK(guest.workspace.count(".atoll/agents") == 1);
    for (const std::string file : {"d/.atoll/file", ".atoll-notes"})
        CHECK(guest.run("read_file", {{"path", file}}).data().at("content") == "bar\n");
}

TEST_CASE("What is no regular file is told, and never opened") {
    const ToolGuest guest;
    REQUIRE(mkfifo(guest.workspace.path("fifo").c_str(), 0600) == 0);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    guest.workspace.path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    for (const char* path : {"fifo", "socket"})
        for (const auto& [tool, arguments] : every_tool(path)) {
            INFO(tool << " " << path);
            const auto answer = guest.run(tool, arguments);
            CHECK(answer.code() ==
                  (tool == "list_directory" || tool == "glob" ? "NOT_A_DIRECTORY" : "NOT_A_FILE"));
            if (answer.code() == "NOT_A_FILE")
                CHECK(answer.result.at("technicalDetails").at("type") ==
                      (path == std::string("fifo") ? "FIFO" : "socket"));
        }
    CHECK(guest.run("search_file_content", {{"pattern", "x"}}).success());
    close(socket);
}

TEST_CASE("A file under a lease is told as changed, and not waited for") {
    const ToolGuest guest;
    guest.workspace.write("leased", "one\n");
    const int holder = open(guest.workspace.path("leased").c_str(), O_RDWR | O_CLOEXEC);
    // The kernel tells the holder of a lease that it is to be broken; the default is to end it.
    const auto before = signal(SIGIO, SIG_IGN);
    REQUIRE(fcntl(holder, F_SETLEASE, F_WRLCK) == 0);
    CHECK(guest.run("read_file", {{"path", "leased"}}).code() == "FILE_CHANGED");
    CHECK(guest.run("replace", {{"file_path", "leased"}, {"old_string", "one"}, {"new_string", "two"}})
              .code() == "FILE_CHANGED");
    close(holder);
    CHECK(guest.run("read_file", {{"path", "leased"}}).data().at("content") == "one\n");
    signal(SIGIO, before);
}

TEST_CASE("A link that stays in the workspace is read and written through") {
    const ToolGuest guest;
    guest.workspace.write("d/real", "one\n");
    std::filesystem::create_symlink("d/real", guest.workspace.path("link"));
    std::filesystem::create_symlink(guest.workspace.path("d/real"), guest.workspace.path("absolute"));
    std::filesystem::create_symlink("d/later", guest.workspace.path("dangling"));
    std::filesystem::create_symlink("../../tmp/nobody-has-this", guest.workspace.path("out"));
    for (const char* path : {"link", "absolute"}) {
        guest.workspace.write("d/real", "one\n");
        const auto done =
            guest.run("replace", {{"file_path", path}, {"old_string", "one"}, {"new_string", "two"}});
        REQUIRE(done.success());
        CHECK(done.result.at("changedFiles") == Json::parse(R"(["/workspace/d/real"])"));
        CHECK(guest.workspace.read("d/real") == "two\n");
        CHECK(std::filesystem::is_symlink(guest.workspace.path(path)));
    }
    CHECK(guest.run("write_file", {{"path", "dangling"}, {"content", "x"}}).success());
    CHECK(guest.workspace.read("d/later") == "x");
    std::filesystem::create_directory_symlink("d", guest.workspace.path("folder"));
    const auto made = guest.run("write_file", {{"path", "./folder/../folder/new"}, {"content", "x"}});
    REQUIRE(made.success());
    CHECK(made.data().at("filePath") == "/workspace/d/new");
    CHECK(guest.run("write_file", {{"path", "out"}, {"content", "x"}}).code() == "OUTSIDE_WORKSPACE");
}

TEST_CASE("A hard link becomes a file of its own when it is edited") {
    const ToolGuest guest;
    const Outside outside;
    std::filesystem::create_hard_link(outside.directory.path("file"), guest.workspace.path("hard"));
    REQUIRE(guest.run("replace", {{"file_path", "hard"}, {"old_string", "secret"}, {"new_string", "mine"}})
                .success());
    CHECK(guest.workspace.read("hard") == "mine");
    CHECK(outside.is_untouched());
}

TEST_CASE("A full disk leaves the old file and no other") {
    if (!GuestProcess::can_isolate())
        SKIP("no namespaces to mount a small disk in");
    const ToolGuest guest(64UL * 1024);
    const std::string old(30'000, 'o');
    REQUIRE(guest.run("write_file", {{"path", "f"}, {"content", old}}).success());
    const std::string big(100'000, 'n');
    const auto full = guest.run("write_file", {{"path", "f"}, {"content", big}, {"allow_overwrite", true}});
    CHECK(full.code() == "DISK_FULL");
    CHECK(
        guest
            .run("replace",
                 {{"file_path", "f"}, {"old_string", "o"}, {"new_string", "nnnn"}, {"allow_multiple", true}})
            .code() == "DISK_FULL");
    CHECK(guest.run("write_file", {{"path", "g"}, {"content", big}}).code() == "DISK_FULL");
    CHECK(guest.run("search_file_content", {{"pattern", "^o+$"}}).data().at("matchCount") == 1);
    CHECK(guest.run("list_directory", {{"path", "."}}).data().at("count") == 1);
    CHECK(guest.run("write_file", {{"path", "g"}, {"content", "fits"}}).success());
}

TEST_CASE("A link that is swapped during the calls never leads a tool outside") {
    const ToolGuest guest;
    const Outside outside;
    guest.workspace.write("good/file", "good");
    std::filesystem::create_directory_symlink(outside.directory.path(), guest.workspace.path("bad"));
    std::filesystem::create_directory_symlink("good", guest.workspace.path("place"));
    // Positive control: followed as a shell does, the swapped path shows the secret.
    REQUIRE(guest.workspace.read("bad/file") == "secret");
    std::atomic<bool> done = false;
    std::atomic<int> swaps = 0;
    std::thread swapper([&] {
        while (!done) {
            static_cast<void>(renameat2(AT_FDCWD, guest.workspace.path("bad").c_str(), AT_FDCWD,
                                        guest.workspace.path("place").c_str(), RENAME_EXCHANGE));
            ++swaps;
        }
    });
    const auto begun = std::chrono::steady_clock::now();
    int calls = 0, inside = 0, refused = 0;
    bool leaked = false;
    const auto is_enough = [&] {
        const auto time = std::chrono::steady_clock::now() - begun;
        const bool saw_all = swaps > 100 && calls > 50 && inside > 0 && refused > 0;
        return time > std::chrono::seconds(120) || (saw_all && time > std::chrono::seconds(2));
    };
    while (!is_enough())
        for (const char* path : {"place/file", "place", "place/new"})
            for (const auto& [tool, arguments] : every_tool(path)) {
                const auto answer = guest.run(tool, arguments);
                const std::string text = answer.success() ? answer.data().dump() : std::string();
                leaked = leaked || text.find("secret") != std::string::npos;
                inside += answer.success() ? 1 : 0;
                refused += answer.code() == "OUTSIDE_WORKSPACE" ? 1 : 0;
                ++calls;
            }
    done = true;
    swapper.join();
    CHECK_FALSE(leaked);
    CHECK(outside.is_untouched());
    CHECK(swaps > 100);
    CHECK(calls > 50);
    CHECK(inside > 0);
    CHECK(refused > 0);
}

TEST_CASE("A guest that dies in the middle of a write leaves the old file or the new one") {
    for (int round = 0; round < 3; ++round) {
        ToolGuest victim;
        victim.workspace.write("f", std::string(20UL * 1024 * 1024 - 10, 'o'));
        Client call = victim.begin(
            "replace",
            {{"file_path", "f"}, {"old_string", "o"}, {"new_string", "n"}, {"allow_multiple", true}});
        // Somewhere within it.
        for (int i = 0; i <= 10 * round; ++i)
            static_cast<void>(victim.run("list_directory", {{"path", "."}}));
        victim.guest().signal(SIGKILL);
        while (call.bytes()) {
        }
        const std::string left = victim.workspace.read("f");
        CHECK(left.size() == 20UL * 1024 * 1024 - 10);
        CHECK(left.find_first_not_of(left.front()) == std::string::npos);
        // The moment between the two names of a new file is short, but it may be the one.
        for (const auto& entry : std::filesystem::directory_iterator(victim.workspace.path())) {
            const std::string name = entry.path().filename();
            CHECK((name == "f" || atl::guest::is_hidden_name(name)));
        }
    }
}

namespace {

/// How far the guest has read a file of its workspace; 0 where it does not have it open (proc(5), fdinfo).
std::uint64_t read_position(const ToolGuest& guest, const std::string& inner) {
    const std::string process = "/proc/" + std::to_string(guest.guest().pid());
    std::uint64_t most = 0;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(process + "/fd", gone)) {
        if (std::filesystem::read_symlink(entry.path(), gone) != guest.workspace.path(inner))
            continue;
        std::ifstream info(process + "/fdinfo/" + entry.path().filename().string());
        std::string word;
        std::uint64_t position = 0;
        if (info >> word >> position)
            most = std::max(most, position);
    }
    return most;
}

bool is_stopped(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("State:"))
            return line.find('T') != std::string::npos;
    return false;
}

bool has_answer(const Client& client) {
    pollfd answer{client.fd(), POLLIN, 0};
    return poll(&answer, 1, 0) == 1;
}

}  // namespace

TEST_CASE("A file that grows while read_file reads it is read as it was") {
    if (!GuestProcess::can_isolate())
        SKIP("no pid namespace on this host");
    const ToolGuest guest;
    const std::string bytes(20UL * 1024 * 1024, 'x');  // the most that is read
    const pid_t pid = guest.guest().pid();
    // The guest stands still when it has read a part.
    bool is_caught = false;
    for (int tries = 0; tries < 100 && !is_caught; ++tries) {
        guest.workspace.write("f", bytes);
        Client call = guest.begin("read_file", {{"path", "f"}});
        REQUIRE(eventually([&] { return read_position(guest, "f") > 0 || has_answer(call); }));
        guest.guest().signal(SIGSTOP);
        REQUIRE(eventually([&] { return is_stopped(pid); }));
        const std::uint64_t position = read_position(guest, "f");
        is_caught = position > 0 && position < bytes.size();
        if (is_caught)
            std::ofstream(guest.workspace.path("f"), std::ios::app) << "more";
        guest.guest().signal(SIGCONT);
        const ToolAnswer answer = ToolGuest::finish(call);
        REQUIRE(answer.success());
        CHECK(answer.data().at("size") == bytes.size());
    }
    CHECK(is_caught);
}

TEST_CASE("A search whose caller goes away ends its ripgrep") {
    if (!GuestProcess::can_isolate())
        SKIP("no pid namespace to count processes in");
    const ToolGuest guest;
    for (int i = 0; i < 20; ++i)
        guest.workspace.write("big" + std::to_string(i), std::string(19UL * 1024 * 1024, 'a'));
    const auto running = [&] {
        ExecClient list(guest.guest(), R"("command":"grep -lx rg /proc/[0-9]*/comm 2>/dev/null | wc -l")");
        return std::stoi(list.finish().output);
    };
    std::vector<Client> calls;
    for (int i = 0; i < 5; ++i)
        calls.push_back(guest.begin("search_file_content", {{"pattern", "\\b\\w{5,300}\\b!"}}));
    REQUIRE(eventually([&] { return running() > 0; }));
    calls.clear();
    CHECK(eventually([&] { return running() == 0; }));
    CHECK(guest.run("list_directory", {{"path", "."}}).success());
}

}  // namespace tool_hostile_test
