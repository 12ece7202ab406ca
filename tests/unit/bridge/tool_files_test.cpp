// The tools that read and write files, each row of docs/tools.md and each known trap, against a real guest.
#include <catch2/catch_test_macros.hpp>

#include "tool_client.hpp"

namespace tool_files_test {

using namespace atl::test;
using Json = nlohmann::json;

namespace {

std::string lines(int count) {
    std::string text;
    for (int i = 1; i <= count; ++i)
        text += "line " + std::to_string(i) + "\n";
    return text;
}

}  // namespace

TEST_CASE("A tool's result has the form that backends know, and its context as it came") {
    const ToolGuest guest;
    guest.workspace.write("a.txt", "hello\n");
    const Json context = {{"context", {{"userId", "u\n1"}, {"pageId", 7}, {"deep", {{"x", {1, 2}}}}}}};
    const auto read = guest.run("read_file", {{"absolute_path", "/workspace/a.txt"}}, context);
    CHECK(read.reply == Json::parse(R"({"ok":true,"success":true})"));
    CHECK(read.result.at("context") == context.at("context"));
    CHECK(read.result.at("previewRefreshNeeded") == false);
    CHECK_FALSE(read.result.at("userFeedback").get<std::string>().empty());
    CHECK(read.data().at("filePath") == "/workspace/a.txt");
    CHECK(read.data().at("content") == "hello\n");

    const auto written = guest.run("write_file", {{"file_path", "b.txt"}, {"content", "x\ny"}});
    CHECK(written.reply == Json::parse(R"({"ok":true,"success":true,"changedFiles":["/workspace/b.txt"]})"));
    CHECK(written.result.at("changedFiles") == Json::parse(R"(["/workspace/b.txt"])"));
    CHECK(written.result.at("previewRefreshNeeded") == true);
    CHECK_FALSE(written.result.contains("context"));
    CHECK(written.data().at("isNewFile") == true);
    CHECK(written.data().at("contentLength") == 3);
    CHECK(written.data().at("lineCount") == 2);
    CHECK(written.data().at("diff") ==
          "--- /dev/null\n+++ /workspace/b.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n");

    const auto missing = guest.run("read_file", {{"path", "nope"}});
    CHECK(missing.reply == Json::parse(R"({"ok":true,"success":false})"));
    CHECK(missing.code() == "FILE_NOT_FOUND");
    CHECK_FALSE(missing.result.contains("data"));
    CHECK_FALSE(missing.result.contains("changedFiles"));
    CHECK(missing.result.at("previewRefreshNeeded") == false);
}

TEST_CASE("Every parameter of a tool has its other names, and nothing else is taken for one") {
    const ToolGuest guest;
    guest.workspace.write("d/a.txt", "1\n2\n3\n");
    for (const char* name : {"absolute_path", "file_path", "path"})
        CHECK(guest.run("read_file", {{name, "d/a.txt"}}).success());
    for (const char* name : {"path", "dir_path"})
        CHECK(guest.run("list_directory", {{name, "d"}}).data().at("count") == 1);
    for (const char* name : {"file_path", "path"})
        CHECK(guest.run("write_file", {{name, std::string("w") + name}, {"content", ""}}).success());
    for (const char* name : {"pattern", "grep_search"})
        CHECK(guest.run("search_file_content", {{name, "2"}}).data().at("matchCount") == 1);
    CHECK(guest.run("search_file_content", {{"pattern", "2"}, {"dir_path", "d"}}).success());
    CHECK(guest.run("glob", {{"pattern", "*.txt"}, {"dir_path", "d"}}).data().at("count") == 1);
    CHECK(guest
              .run("replace", {{"file_path", "d/a.txt"},
                               {"old_string", "1"},
                               {"new_string", "1"},
                               {"expectedReplacements", 1}})
              .code() == "NO_CHANGE_NEEDED");

    struct Bad {
        const char* tool;
        Json arguments;
        const char* named;
    };
    const Bad table[] = {
        {"read_file", Json::object(), "`absolute_path` is missing"},
        {"read_file", {{"path", 5}}, "`path` must be a string"},
        {"read_file", {{"path", nullptr}}, "`path` must be a string"},
        {"read_file", {{"path", "a"}, {"file_path", "a"}}, "twice"},
        {"read_file", {{"path", "a"}, {"limit", "5"}}, "`limit` must be an integer"},
        {"read_file", {{"path", "a"}, {"limit", 0}}, "`limit` must be an integer from 1"},
        {"read_file", {{"path", "a"}, {"offset", -1}}, "`offset`"},
        {"read_file", {{"path", "a"}, {"offset", 1.0}}, "`offset`"},
        {"read_file", {{"path", "a"}, {"lines", 1}}, "`lines` is no argument"},
        {"read_file", {{"path", "d/a.txt"}, {"offset", 1}, {"start_line", 1}}, "not both"},
        {"read_file", {{"path", "d/a.txt"}, {"start_line", 3}, {"end_line", 2}}, "before"},
        {"write_file", {{"path", "a"}, {"content", "x"}, {"allow_overwrite", "true"}}, "must be a boolean"},
        {"list_directory", {{"path", "."}, {"ignore", "x"}}, "array of strings"},
        {"list_directory", {{"path", "."}, {"ignore", {1}}}, "array of strings"},
        {"search_file_content", {{"pattern", "a"}, {"max_matches", 1001}}, "from 1 to 1000"},
        {"replace", {{"file_path", "a"}, {"old_string", "a"}}, "`new_string` is missing"},
        {"glob", {{"pattern", {"a"}}}, "`pattern` must be a string"},
    };
    for (const Bad& bad : table) {
        INFO(bad.tool << " " << bad.arguments);
        const auto answer = guest.run(bad.tool, bad.arguments);
        REQUIRE_FALSE(answer.success());
        CHECK(answer.code() == "INVALID_ARGUMENTS");
        CHECK(answer.error().find(bad.named) != std::string::npos);
    }
    CHECK(guest.run("no_such_tool", Json::object()).reply.at("ok") == false);
}

TEST_CASE("read_file gives lines from an offset on and says where to go on") {
    const ToolGuest guest;
    guest.workspace.write("long.txt", lines(5000));
    const auto first = guest.run("read_file", {{"path", "long.txt"}});
    CHECK(first.data().at("lineCount") == 2000);
    CHECK(first.data().at("totalLines") == 5000);
    CHECK(first.data().at("nextOffset") == 2000);
    CHECK(first.data().at("encoding") == "utf8");
    CHECK(first.data().at("startLine") == 1);
    CHECK(first.data().at("endLine") == 2000);
    CHECK(first.data().at("truncated") == true);
    CHECK(first.warnings().find("lines 2001-5000 are not shown. Read on with offset 2000") !=
          std::string::npos);
    const auto part = guest.run("read_file", {{"path", "long.txt"}, {"offset", 4998}, {"limit", 10}});
    CHECK(part.data().at("content") == "line 4999\nline 5000\n");
    CHECK_FALSE(part.data().contains("nextOffset"));
    const auto same = guest.run("read_file", {{"path", "long.txt"}, {"start_line", 11}, {"end_line", 12}});
    CHECK(same.data().at("content") == "line 11\nline 12\n");
    CHECK(same.data().at("offset") == 10);
    CHECK(same.data().at("startLine") == 11);
    CHECK(same.data().at("endLine") == 12);
    CHECK(guest.run("read_file", {{"path", "long.txt"}, {"offset", 5000}}).code() == "OFFSET_OUT_OF_BOUNDS");
    guest.workspace.write("empty", "");
    CHECK(guest.run("read_file", {{"path", "empty"}}).data().at("content") == "");
    CHECK(guest.run("read_file", {{"path", "empty"}, {"offset", 1}}).code() == "OFFSET_OUT_OF_BOUNDS");
}

TEST_CASE("read_file cuts long lines by characters and says which") {
    const ToolGuest guest;
    std::string wide;
    for (int i = 0; i < 2001; ++i)
        wide += "\xC3\xA9";
    guest.workspace.write("wide.txt", wide.substr(0, 4000) + "\n" + wide + "\n");
    const auto read = guest.run("read_file", {{"path", "wide.txt"}});
    const std::string whole = wide.substr(0, 4000);
    CHECK(read.data().at("content") == whole + "\n" + whole + "... [truncated]\n");
    CHECK(read.warnings().find("cut: 2.") != std::string::npos);
}

TEST_CASE("read_file returns binary files as base64 by their content") {
    const ToolGuest guest;
    const std::string png = std::string("\x89PNG\r\n\x1a\n", 8) + std::string(100, '\0') + "\xFF\xFE";
    guest.workspace.write("picture.txt", png);
    const auto read = guest.run("read_file", {{"path", "picture.txt"}});
    CHECK(read.data().at("mimeType") == "image/png");
    CHECK(read.data().at("encoding") == "base64");
    CHECK(read.data().at("content").get<std::string>().starts_with("iVBORw0KGgoAAAAA"));
    CHECK(read.data().at("content").get<std::string>().ends_with("//4="));
    guest.workspace.write("bytes", std::string("a\0b", 3));
    CHECK(guest.run("read_file", {{"path", "bytes"}}).data().at("content") == "YQBi");
    guest.workspace.write("big.bin", std::string(1024 * 1024 + 1, '\0'));
    CHECK(guest.run("read_file", {{"path", "big.bin"}}).code() == "BINARY_FILE");
    guest.workspace.write("latin1.txt", "caf\xE9 is a word of four letters, and this is text\n");
    const auto latin = guest.run("read_file", {{"path", "latin1.txt"}});
    CHECK(latin.data().at("content") == "caf\xEF\xBF\xBD is a word of four letters, and this is text\n");
    CHECK(latin.warnings().find("not UTF-8") != std::string::npos);
}

TEST_CASE("A text that begins as a binary format does is text") {
    const ToolGuest guest;
    for (const std::string text :
         {"GIF89a is a format\n", "ID3 tags\n", "RIFFxxxxWAVE\n", "%PDF-1.4 \xC3\xA9\n"}) {
        guest.workspace.write("f", text);
        const auto read = guest.run("read_file", {{"path", "f"}});
        CHECK(read.data().at("mimeType") == "text/plain");
        CHECK(read.data().at("content") == text);
    }
    guest.workspace.write("f", "%PDF-1.4\n%\xE2\xE3\xCF\xD3\n and much text that follows it\n");
    CHECK(guest.run("read_file", {{"path", "f"}}).data().at("mimeType") == "application/pdf");
}

TEST_CASE("read_file of a directory succeeds with its listing and a warning") {
    const ToolGuest guest;
    guest.workspace.write("d/f", "x");
    const auto read = guest.run("read_file", {{"path", "/workspace/d"}});
    CHECK(read.data().at("entries").at(0).at("path") == "/workspace/d/f");
    CHECK(read.warnings().find("is a directory") != std::string::npos);
}

TEST_CASE("A file beyond 20 MiB is not read, and a line of 1 GB costs nothing") {
    const ToolGuest guest;
    guest.workspace.write("huge", "");
    std::filesystem::resize_file(guest.workspace.path("huge"), 1024UL * 1024 * 1024);
    const auto read = guest.run("read_file", {{"path", "huge"}});
    CHECK(read.code() == "FILE_TOO_LARGE");
    CHECK(read.result.at("technicalDetails").at("size") == 1024UL * 1024 * 1024);
    CHECK(guest.run("replace", {{"file_path", "huge"}, {"old_string", "a"}, {"new_string", "b"}}).code() ==
          "FILE_TOO_LARGE");
    CHECK(guest.run("search_file_content", {{"pattern", "a"}}).data().at("matchCount") == 0);
    guest.workspace.write("line", std::string(20UL * 1024 * 1024, 'x'));
    const auto line = guest.run("read_file", {{"path", "line"}});
    CHECK(line.data().at("content").get<std::string>().size() == 2000 + 15);
    const auto found = guest.run("search_file_content", {{"pattern", "x"}, {"path", "line"}});
    CHECK(found.data().at("matches").at(0).at("line").get<std::string>().size() == 2000 + 15);
}

TEST_CASE("list_directory shows directories first, then names, with sizes and times") {
    const ToolGuest guest;
    guest.workspace.write("b.txt", "12345");
    guest.workspace.write("a.txt", "");
    guest.workspace.write("z/inner", "");
    guest.workspace.write("node_modules/m", "");
    guest.workspace.write("x.log", "");
    guest.workspace.write(".atoll/agents/a/state", "");
    std::filesystem::create_directory_symlink("z", guest.workspace.path("link"));
    std::filesystem::create_directory_symlink("/etc", guest.workspace.path("outside"));
    const auto list = guest.run("list_directory", {{"path", "."}, {"ignore", {"node_modules", "*.log"}}});
    std::string names;
    for (const Json& entry : list.data().at("entries"))
        names += entry.at("name").get<std::string>() + (entry.at("isDirectory") == true ? "/ " : " ");
    CHECK(names == "link/ z/ a.txt b.txt outside ");
    CHECK(list.data().at("count") == 5);
    CHECK(list.data().at("ignoredCount") == 2);
    CHECK(list.data().at("truncated") == false);
    CHECK(list.data().at("entries").at(3).at("size") == 5);
    CHECK(list.data().at("entries").at(3).at("path") == "/workspace/b.txt");
    const std::string time = list.data().at("entries").at(3).at("modifiedTime");
    CHECK(time.size() == std::string("2026-01-02T03:04:05.678Z").size());
    CHECK(guest.run("list_directory", {{"path", "b.txt"}}).code() == "NOT_A_DIRECTORY");
    CHECK(guest.run("list_directory", {{"path", "nope"}}).code() == "FILE_NOT_FOUND");
}

TEST_CASE("write_file makes parents, refuses to overwrite unless told, and keeps the mode") {
    const ToolGuest guest;
    CHECK(guest.run("write_file", {{"path", "a/b/c.txt"}, {"content", "one\n"}}).success());
    CHECK(guest.workspace.read("a/b/c.txt") == "one\n");
    const auto refused = guest.run("write_file", {{"path", "a/b/c.txt"}, {"content", "two\n"}});
    CHECK(refused.code() == "FILE_ALREADY_EXISTS");
    CHECK(guest.workspace.read("a/b/c.txt") == "one\n");
    // A user who edits a program does not get its rights: the set-user-ID bit is cleared.
    REQUIRE(chmod(guest.workspace.path("a/b/c.txt").c_str(), 04750) == 0);
    const auto written = guest.run(
        "write_file", {{"path", "/workspace/a/b/c.txt"}, {"content", "two\n"}, {"allow_overwrite", true}});
    CHECK(written.data().at("isNewFile") == false);
    CHECK(written.data().at("diff") ==
          "--- /workspace/a/b/c.txt\n+++ /workspace/a/b/c.txt\n@@ -1 +1 @@\n-one\n+two\n");
    CHECK(guest.workspace.read("a/b/c.txt") == "two\n");
    struct stat state {};
    REQUIRE(stat(guest.workspace.path("a/b/c.txt").c_str(), &state) == 0);
    CHECK((state.st_mode & 07777) == 0750);
    CHECK(guest.workspace.count("a/b") == 1);
    CHECK(guest.run("write_file", {{"path", "a"}, {"content", ""}}).code() == "IS_DIRECTORY");
    CHECK(guest.run("write_file", {{"path", "a/b/c.txt/d"}, {"content", ""}}).code() == "NOT_A_DIRECTORY");
    REQUIRE(chmod(guest.workspace.path("a/b/c.txt").c_str(), 0444) == 0);
    CHECK(
        guest.run("write_file", {{"path", "a/b/c.txt"}, {"content", ""}, {"allow_overwrite", true}}).code() ==
        "PERMISSION_DENIED");
}

TEST_CASE("replace is literal on both sides") {
    const ToolGuest guest;
    struct Row {
        std::string before, wanted, by, after;
    };
    const Row table[] = {
        {"a b a\n", "b", "$& $1 \\1 \\n", "a $& $1 \\1 \\n a\n"},
        {"print(\"a\\nb\")\n", "a\\nb", "c\\nd", "print(\"c\\nd\")\n"},
        {"x = [a](b){c}.*\n", "[a](b){c}.*", "ok", "x = ok\n"},
        {"one\ntwo\nthree\n", "two\nthree", "2\n3", "one\n2\n3\n"},
        {"tab\there\n", "\t", "    ", "tab    here\n"},
        {"no end", "end", "", "no "},
    };
    for (const Row& row : table) {
        INFO(row.wanted);
        guest.workspace.write("f", row.before);
        const auto done =
            guest.run("replace", {{"file_path", "f"}, {"old_string", row.wanted}, {"new_string", row.by}});
        REQUIRE(done.success());
        CHECK(guest.workspace.read("f") == row.after);
        CHECK(done.data().at("occurrences") == 1);
        CHECK(done.result.at("changedFiles") == Json::parse(R"(["/workspace/f"])"));
    }
}

TEST_CASE("replace counts occurrences, and changes all of them or none") {
    const ToolGuest guest;
    guest.workspace.write("f", "aaa aaa aaa\n");
    const auto more = guest.run("replace", {{"file_path", "f"}, {"old_string", "aaa"}, {"new_string", "b"}});
    CHECK(more.code() == "OCCURRENCE_MISMATCH");
    CHECK(more.result.at("technicalDetails").at("occurrences") == 3);
    CHECK(more.error().find("3 times") != std::string::npos);
    CHECK(guest.workspace.read("f") == "aaa aaa aaa\n");
    CHECK(guest
              .run("replace", {{"file_path", "f"},
                               {"old_string", "aaa"},
                               {"new_string", "b"},
                               {"expected_replacements", 3}})
              .data()
              .at("occurrences") == 3);
    CHECK(guest.workspace.read("f") == "b b b\n");
    CHECK(guest
              .run("replace",
                   {{"file_path", "f"}, {"old_string", "b"}, {"new_string", "c"}, {"allow_multiple", true}})
              .success());
    CHECK(guest.workspace.read("f") == "c c c\n");
    const auto twice = guest.run("replace", {{"file_path", "f"},
                                             {"old_string", "c"},
                                             {"new_string", "d"},
                                             {"allow_multiple", true},
                                             {"expected_replacements", 3}});
    CHECK(twice.code() == "INVALID_ARGUMENTS");
    CHECK(twice.error().find("twice") != std::string::npos);
    CHECK(guest.workspace.read("f") == "c c c\n");
    CHECK(guest.run("replace", {{"file_path", "f"}, {"old_string", "c"}, {"new_string", "c"}}).code() ==
          "NO_CHANGE_NEEDED");
    CHECK(guest.run("replace", {{"file_path", "none"}, {"old_string", "c"}, {"new_string", "d"}}).code() ==
          "FILE_NOT_FOUND");
    guest.workspace.write("many", std::string(1024 * 1024, 'a'));
    CHECK(guest
              .run("replace", {{"file_path", "many"},
                               {"old_string", "a"},
                               {"new_string", std::string(100, 'b')},
                               {"allow_multiple", true}})
              .code() == "FILE_TOO_LARGE");
    CHECK(
        guest
            .run("replace",
                 {{"file_path", "many"}, {"old_string", "a"}, {"new_string", "b"}, {"allow_multiple", true}})
            .data()
            .at("occurrences") == 1024 * 1024);
}

TEST_CASE("replace with an empty old_string creates a file") {
    const ToolGuest guest;
    const auto made =
        guest.run("replace", {{"file_path", "new/f"}, {"old_string", ""}, {"new_string", "x\n"}});
    CHECK(made.data().at("isNewFile") == true);
    CHECK(guest.workspace.read("new/f") == "x\n");
    CHECK(guest.run("replace", {{"file_path", "new/f"}, {"old_string", ""}, {"new_string", "y"}}).code() ==
          "FILE_ALREADY_EXISTS");
}

TEST_CASE("replace that finds nothing names the nearest lines") {
    const ToolGuest guest;
    guest.workspace.write("f.js", "function one() {}\n  const total = sum(items);\nfunction two() {}\n");
    const auto none = guest.run(
        "replace",
        {{"file_path", "f.js"}, {"old_string", "\nconst total = sum(item);\n"}, {"new_string", "x"}});
    CHECK(none.code() == "STRING_NOT_FOUND");
    CHECK(none.suggestions().find("Line 2 is similar: const total = sum(items);") != std::string::npos);
}

TEST_CASE("Files with CRLF stay so, whatever line ends the caller writes") {
    const ToolGuest guest;
    guest.workspace.write("f", "one\r\ntwo\r\nthree\r\n");
    REQUIRE(
        guest.run("replace", {{"file_path", "f"}, {"old_string", "one\ntwo"}, {"new_string", "1\n2\n2.5"}})
            .success());
    CHECK(guest.workspace.read("f") == "1\r\n2\r\n2.5\r\nthree\r\n");
    REQUIRE(
        guest.run("replace", {{"file_path", "f"}, {"old_string", "2.5\r\n"}, {"new_string", ""}}).success());
    CHECK(guest.workspace.read("f") == "1\r\n2\r\nthree\r\n");
    guest.workspace.write("mixed", "a\nb\r\nc\r\n");
    REQUIRE(guest.run("replace", {{"file_path", "mixed"}, {"old_string", "b\nc"}, {"new_string", "x\ny"}})
                .success());
    CHECK(guest.workspace.read("mixed") == "a\nx\r\ny\r\n");
}

TEST_CASE("A line end of old_string matches either form, and what is around the match keeps its own") {
    const ToolGuest guest;
    const auto replaced = [&guest](const std::string& text, const std::string& wanted, const std::string& by,
                                   int count = 1) {
        guest.workspace.write("f", text);
        const auto result = guest.run("replace", {{"file_path", "f"},
                                                  {"old_string", wanted},
                                                  {"new_string", by},
                                                  {"expected_replacements", count}});
        return result.success() ? guest.workspace.read("f") : result.code();
    };
    CHECK(replaced("a\r\nb\nc\r\nd\n", "a\nb\nc\n", "1\n2\n3\n") == "1\r\n2\n3\r\nd\n");
    CHECK(replaced("a\nb\r\nc\nd\r\n", "b\nc", "x") == "a\nx\nd\r\n");
    CHECK(replaced("a\nb\r\nc\n", "a\r\nb\r\n", "a\r\nb\r\nb2\r\n") == "a\nb\r\nb2\r\nc\n");
    CHECK(replaced("a\nb\nc\n", "a\r\nb\r\n", "x\r\ny\r\n") == "x\ny\nc\n");
    // Both occurrences are seen, and each keeps its form.
    CHECK(replaced("a\nb\na\r\nb\r\n", "a\nb", "c\nd\ne") == "OCCURRENCE_MISMATCH");
    CHECK(replaced("a\nb\na\r\nb\r\n", "a\nb", "c\nd\ne", 2) == "c\nd\ne\nc\r\nd\r\ne\r\n");
    // Without a line end in the match: as the next one, or the one before.
    CHECK(replaced("a\nb\r\nc\n", "b", "x\ny") == "a\nx\r\ny\r\nc\n");
    CHECK(replaced("a\r\nb", "b", "x\ny") == "a\r\nx\r\ny");
    CHECK(replaced("a\r\n\r\nb\n", "\n\nb", "\nb") == "a\r\nb\n");
    CHECK(replaced("a\r\nb\n", "a\nb\n", "") == "");
    // A carriage return that is no half of a line end, and one alone.
    CHECK(replaced("a\rb\r\n", "a\rb\n", "c\n") == "c\r\n");
    CHECK(replaced("a\r\nb\r\n", "\r", "", 2) == "a\nb\n");
    CHECK(replaced("a\r\nb\r\n", "a\nb", "a\r\nb") == "NO_CHANGE_NEEDED");
    const std::string long_text(2 * 1024 * 1024, 'x');
    CHECK(replaced(long_text + "\r\na\nb\r\n" + long_text, "a\nb\n", "c\n") ==
          long_text + "\r\nc\n" + long_text);
    CHECK(replaced(std::string(1024 * 1024, '\n') + "\r\n", "\n", std::string(100, '\n'), 1024 * 1024 + 1) ==
          "FILE_TOO_LARGE");
}

TEST_CASE(
    "An edit needs a read where that is the rule, also of CRLF files, and the tools' own writes count") {
    const ToolGuest guest;
    const Json rule = {{"readBeforeEdit", true}};
    guest.workspace.write("f", "one\r\n");
    const Json edit = {{"file_path", "f"}, {"old_string", "one"}, {"new_string", "two"}};
    const auto unread = guest.run("replace", edit, rule);
    CHECK(unread.code() == "FILE_CHANGED");
    CHECK(unread.error().find("not read") != std::string::npos);
    CHECK(guest.run("write_file", {{"path", "f"}, {"content", ""}, {"allow_overwrite", true}}, rule).code() ==
          "FILE_CHANGED");
    // A read that failed showed nothing.
    CHECK(guest.run("read_file", {{"path", "f"}, {"offset", 9}}, rule).code() == "OFFSET_OUT_OF_BOUNDS");
    CHECK(guest.run("replace", edit, rule).code() == "FILE_CHANGED");
    REQUIRE(guest.run("read_file", {{"path", "f"}}, rule).success());
    REQUIRE(guest.run("replace", edit, rule).success());
    REQUIRE(guest.run("replace", {{"file_path", "f"}, {"old_string", "two"}, {"new_string", "one"}}, rule)
                .success());
    guest.workspace.write("f", "one, and more\r\n");
    const auto changed = guest.run("replace", edit, rule);
    CHECK(changed.code() == "FILE_CHANGED");
    CHECK(changed.error().find("size changed from 5 to 15 bytes") != std::string::npos);
    CHECK(guest.workspace.read("f") == "one, and more\r\n");
    REQUIRE(guest.run("write_file", {{"path", "g"}, {"content", "x"}}, rule).success());
    REQUIRE(guest.run("write_file", {{"path", "g"}, {"content", "y"}, {"allow_overwrite", true}}, rule)
                .success());
    const ToolGuest next_generation;
    next_generation.workspace.write("g", "y");
    CHECK(next_generation.run("replace", {{"file_path", "g"}, {"old_string", "y"}, {"new_string", "z"}}, rule)
              .code() == "FILE_CHANGED");
}

}  // namespace tool_files_test
