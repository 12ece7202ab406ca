// Where the tools meet their bounds and what they lack: crowded directories, a search that takes too long, a
// ripgrep that is not there or fails, and what counts as an ignored file, as binary, as the size of a link.
#include <sys/resource.h>
#include <sys/stat.h>
#include <utime.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>

#include "bridge/guest/tools/file_text.hpp"
#include "exec_client.hpp"
#include "tool_client.hpp"

namespace tool_limits_test {

using namespace atl::test;
using namespace std::string_literals;
using Json = nlohmann::json;

namespace {

/// A ripgrep in place of the real one.
struct FakeRipgrep {
    explicit FakeRipgrep(const std::string& script) {
        folder.write("rg", "#!/bin/sh\necho \"$@\" > " + folder.path("arguments") + "\n" + script + "\n");
        REQUIRE(chmod(folder.path("rg").c_str(), 0755) == 0);
        // Where ripgrep may be run from: below /usr.
        setting.local_programs = folder.path();
    }
    Workspace folder;
    GuestSetting setting;
};

}  // namespace

// The gate takes 40,000 of them.
TEST_CASE("A directory of 200,000 entries is listed and searched, while other calls are answered") {
    if (!GuestProcess::can_isolate())
        SKIP("no namespaces to mount a small disk in");
    const ToolGuest guest(64UL * 1024 * 1024);
    const int files = checks_bounds() ? 200'000 : 40'000;
    ExecClient crowd(guest.guest(), R"("command":"mkdir many && cd many && seq -f f%.0f 100000 )" +
                                        std::to_string(99'999 + files) +
                                        R"( | xargs touch && mkdir zzz && echo one > g")");
    REQUIRE(crowd.finish().exit.has_value());
    const Json arguments[] = {{{"path", "many"}}, {{"pattern", "many/**"}}, {{"pattern", "one"}}};
    const char* const tools[] = {"list_directory", "glob", "search_file_content"};
    std::vector<ToolAnswer> answers;
    for (std::size_t i = 0; i < 3; ++i) {
        Client slow = guest.begin(tools[i], arguments[i]);
        CHECK(guest.run("write_file", {{"path", "d/m" + std::to_string(i)}, {"content", "x"}}).success());
        answers.push_back(ToolGuest::finish(slow));
        INFO(answers.back().result.dump().substr(0, 1000));
        REQUIRE(answers.back().success());
    }
    CHECK(answers[0].data().at("totalCount") == files + 2);
    CHECK(answers[0].data().at("count") == 2000);
    CHECK(answers[0].data().at("truncated") == true);
    CHECK(answers[0].data().at("entries").at(0).at("name") == "zzz");
    CHECK(answers[0].data().at("entries").at(1999).at("name") == "f101998");
    CHECK(answers[1].data().at("totalCount") == files + 1);
    CHECK(answers[1].data().at("count") == 1000);
    CHECK(answers[2].data().at("matchCount") == 1);
    CHECK(answers[2].data().at("matches").at(0).at("filePath") == "/workspace/many/g");
}

TEST_CASE("A search that takes longer than its time is stopped, and is no search without matches") {
    if (!GuestProcess::can_isolate())
        SKIP("no namespaces to show another ripgrep in");
    FakeRipgrep slow("sleep 1000");
    slow.setting.search_timeout = std::chrono::milliseconds(300);
    const ToolGuest guest(0, slow.setting);
    const auto search = guest.run("search_file_content", {{"pattern", "one"}});
    CHECK(search.code() == "TIMEOUT");
    CHECK(search.error().find("was stopped") != std::string::npos);
    CHECK(guest.run("glob", {{"pattern", "*"}}).code() == "TIMEOUT");
    CHECK(guest.run("list_directory", {{"path", "."}}).success());
}

TEST_CASE("A search that prints nothing tells all the same that it is at work") {
    if (!GuestProcess::can_isolate())
        SKIP("no namespaces to show another ripgrep in");
    const FakeRipgrep silent("sleep 1000");
    const ToolGuest guest(0, silent.setting);
    for (const auto& [tool, what] :
         {std::pair{"search_file_content", "0 matches so far"}, std::pair{"glob", "0 files so far"}}) {
        Client search = guest.begin(tool, {{"pattern", "one"}});
        // Each word comes after the one before, however long ripgrep is silent.
        for (int word = 0; word < 2; ++word)
            CHECK(search.line() == "{\"progress\":{\"message\":\"" + std::string(what) + "\"}}");
    }
}

// [full]: it writes a gigabyte to the disk.
TEST_CASE("A line of 1 GiB of text that is searched by name costs no memory, and is told as cut", "[full]") {
    if (!GuestProcess::can_isolate())
        SKIP("no pid namespace on this host");
    GuestSetting patient;
    patient.search_timeout = std::chrono::minutes(5);
    const ToolGuest guest(0, patient);
    {
        const std::string piece(1024UL * 1024, 'x');
        std::ofstream file(guest.workspace.path("line"), std::ios::binary);
        for (int i = 0; i < 1024; ++i)
            file << piece;
        REQUIRE(file.flush());
    }
#ifndef __SANITIZE_ADDRESS__  // whose own memory counts
    // The guest's and ripgrep's, each; what is mapped of a file does not count (setrlimit(2), RLIMIT_DATA).
    const rlimit limit{512UL * 1024 * 1024, 512UL * 1024 * 1024};
    REQUIRE(prlimit(guest.guest().pid(), RLIMIT_DATA, &limit, nullptr) == 0);
#endif
    const auto found = guest.run("search_file_content", {{"pattern", "x"}, {"path", "line"}});
    INFO(found.result.dump().substr(0, 1000));
    REQUIRE(found.success());
    CHECK(found.data().at("matchCount") == 1);
    CHECK(found.data().at("matches").at(0).at("line").get<std::string>().size() == 2000 + 15);
    CHECK(found.warnings().find("1 line of more than 2000 characters cut") != std::string::npos);
    const auto none = guest.run("search_file_content", {{"pattern", "y"}, {"path", "line"}});
    REQUIRE(none.success());
    CHECK(none.data().at("matchCount") == 0);
}

TEST_CASE("Without ripgrep the tools that need it say so, and the others work") {
    GuestSetting setting;
    setting.programs = "/nowhere";
    const ToolGuest guest(0, setting);
    guest.workspace.write("a.txt", "one\n");
    for (const char* tool : {"search_file_content", "glob"}) {
        const auto answer = guest.run(tool, {{"pattern", "one"}});
        CHECK(answer.code() == "TOOL_UNAVAILABLE");
        CHECK(answer.error().find("not installed") != std::string::npos);
    }
    CHECK(guest.run("read_file", {{"path", "a.txt"}}).success());
}

TEST_CASE("Only what ripgrep says about the regular expression makes a pattern invalid") {
    if (!GuestProcess::can_isolate())
        SKIP("no namespaces to show another ripgrep in");
    struct Row {
        const char* script;
        const char* search;
        const char* glob;
    };
    const Row table[] = {
        {"echo 'thread panicked: failed to spawn thread' >&2; exit 101", "TOOL_UNAVAILABLE",
         "TOOL_UNAVAILABLE"},
        {"exit 101", "TOOL_UNAVAILABLE", "TOOL_UNAVAILABLE"},
        {"kill -9 $$", "TOOL_UNAVAILABLE", "TOOL_UNAVAILABLE"},
        {"echo 'Cannot allocate memory (os error 12)' >&2; exit 2", "TOOL_UNAVAILABLE", "TOOL_UNAVAILABLE"},
        {"echo 'regex parse error: x' >&2; exit 2", "INVALID_PATTERN", "INVALID_PATTERN"},
        {"exit 2", "", ""},
        {"exit 1", "", ""},
    };
    for (const Row& row : table) {
        INFO(row.script);
        const FakeRipgrep fake(row.script);
        const ToolGuest guest(0, fake.setting);
        CHECK(guest.run("search_file_content", {{"pattern", "x"}}).code() == row.search);
        CHECK(guest.run("glob", {{"pattern", "x"}}).code() == row.glob);
        CHECK(fake.folder.read("arguments").find("--threads=1") != std::string::npos);
    }
}

TEST_CASE("Neither .ignore nor a repository's own list of exclusions hides anything from a search") {
    const ToolGuest guest;
    guest.workspace.write(".gitignore", "by-git.txt\n");
    guest.workspace.write(".ignore", "*.txt\n");
    guest.workspace.write(".git/HEAD", "ref: refs/heads/main\n");
    guest.workspace.write(".git/info/exclude", "*.txt\n");
    guest.workspace.write("by-git.txt", "needle\n");
    guest.workspace.write("a.txt", "needle\n");
    CHECK(guest.run("search_file_content", {{"pattern", "needle"}}).data().at("matchCount") == 1);
    CHECK(guest.run("glob", {{"pattern", "*.txt"}}).data().at("files") ==
          Json::parse(R"(["/workspace/a.txt"])"));
}

TEST_CASE("A link in a listing has the size and the time of what it leads to in the workspace") {
    const ToolGuest guest;
    guest.workspace.write("d/real", "12345");
    const utimbuf times{1'000'000'000, 1'000'000'000};
    REQUIRE(utime(guest.workspace.path("d/real").c_str(), &times) == 0);
    std::filesystem::create_symlink("d/real", guest.workspace.path("link"));
    std::filesystem::create_symlink("d/nothing", guest.workspace.path("lost"));
    std::filesystem::create_symlink("/etc/passwd", guest.workspace.path("outside"));
    const auto list = guest.run("list_directory", {{"path", "."}});
    const Json& entries = list.data().at("entries");
    REQUIRE(entries.size() == 4);
    CHECK(entries.at(1).at("name") == "link");
    CHECK(entries.at(1).at("isDirectory") == false);
    CHECK(entries.at(1).at("size") == 5);
    CHECK(entries.at(1).at("modifiedTime") == "2001-09-09T01:46:40.000Z");
    CHECK(entries.at(2).at("size") == std::string("d/nothing").size());
    CHECK(entries.at(3).at("size") == std::string("/etc/passwd").size());
}

TEST_CASE("read_file gives at most 4 MiB, in whole lines, and says where to go on") {
    const ToolGuest guest;
    std::string line;
    for (int i = 0; i < 1500; ++i)
        line += "\xE2\x82\xAC";
    line += "\n";
    std::string text;
    for (int i = 0; i < 2000; ++i)
        text += line;
    guest.workspace.write("wide.txt", text);
    const auto first = guest.run("read_file", {{"path", "wide.txt"}});
    const std::size_t whole_lines = 4UL * 1024 * 1024 / line.size();
    CHECK(first.data().at("lineCount") == whole_lines);
    CHECK(first.data().at("content").get<std::string>().size() == whole_lines * line.size());
    CHECK(first.data().at("truncated") == true);
    CHECK(first.data().at("nextOffset") == whole_lines);
    const auto rest = guest.run("read_file", {{"path", "wide.txt"}, {"offset", whole_lines}});
    CHECK(rest.data().at("lineCount") == whole_lines);
    const auto last = guest.run("read_file", {{"path", "wide.txt"}, {"offset", 2 * whole_lines}});
    CHECK(last.data().at("lineCount") == 2000 - 2 * whole_lines);
}

TEST_CASE("The type of a binary file is known by its first bytes") {
    const std::pair<std::string, std::string_view> table[] = {
        {"\x89PNG\r\n\x1a\n\0"s, "image/png"},
        {"\xFF\xD8\xFF\xE0\0"s, "image/jpeg"},
        {"GIF87a\0"s, "image/gif"},
        {"GIF89a\0"s, "image/gif"},
        {"RIFF\x10\0\0\0WEBPVP8 "s, "image/webp"},
        {"RIFF\x10\0\0\0WAVEfmt "s, "audio/wav"},
        {"%PDF-1.7\n\0"s, "application/pdf"},
        {"PK\x03\x04\0"s, "application/zip"},
        {"\x1F\x8B\x08\0"s, "application/gzip"},
        {"\x7F"
         "ELF\x02\0"s,
         "application/x-executable"},
        {"\0asm\x01\0\0\0"s, "application/wasm"},
        {"\0\0\x01\0\x01\0"s, "image/x-icon"},
        {"II*\0\x08"s, "image/tiff"},
        {"MM\0*\0"s, "image/tiff"},
        {"OggS\0\x02"s, "audio/ogg"},
        {"fLaC\0\0\0\x22"s, "audio/flac"},
        {"ID3\x04\0\0"s, "audio/mpeg"},
        {"wOFF\0\x01"s, "font/woff"},
        {"wOF2\0\x01"s, "font/woff2"},
        {"SQLite format 3\0"s, "application/vnd.sqlite3"},
        {"\0\0\0\x20"
         "ftypisom"s,
         "video/mp4"},
        {"\0\x01\x02"s, "application/octet-stream"},
        {"RIFF\x10\0\0\0AVI LIST"s, "application/octet-stream"},
        {"plain text\n"s, "text/plain"},
    };
    for (const auto& [bytes, type] : table) {
        INFO(type);
        CHECK(atl::guest::mime_type(bytes) == type);
    }
}

}  // namespace tool_limits_test
