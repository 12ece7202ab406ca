// The pure parts of the tools: globs, diffs, ripgrep's output, names, what was read.
#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "bridge/guest/tools/glob_pattern.hpp"
#include "bridge/guest/tools/read_files.hpp"
#include "bridge/guest/tools/search_output.hpp"
#include "bridge/guest/tools/text_diff.hpp"
#include "bridge/guest/tools/tool_arguments.hpp"
#include "bridge/guest/tools/tool_run.hpp"
#include "bridge/guest/tools/workspace_path.hpp"
#include "core/plain/path_text.hpp"
#include "tests/support/deadline.hpp"

namespace tool_parts_test {

using namespace atl::guest;
using atl::test::checks_bounds;

namespace {

bool matches(std::string_view glob, std::string_view path,
             GlobPattern::Brackets brackets = GlobPattern::Brackets::set) {
    return GlobPattern(glob, GlobPattern::Case::differs, brackets).matches(path);
}

std::string diff(std::string_view before, std::string_view after) {
    const std::string text = unified_diff("f", "f", before, after, 10'000).text;
    return text.substr(std::min(text.size(), std::string("--- f\n+++ f\n").size()));
}

}  // namespace

TEST_CASE("Globs match whole paths, name by name") {
    struct Row {
        const char* glob;
        const char* yes;
        const char* no;
    };
    const Row table[] = {
        {"*.ts", "a.ts", "d/a.ts"},
        {"*.ts", ".ts", "a.tsx"},
        {"**/*.ts", "a.ts", "a.js"},
        {"**/*.ts", "d/e/a.ts", "d/e/a.ts/x"},
        {"src/**", "src/a/b", "src"},
        {"src/**/x", "src/x", "srcx"},
        {"src/**/x", "src/a/b/x", "src/ax"},
        {"a**b", "axxb", "ax/xb"},
        {"?", "\xC3\xA9", "ab"},
        {"{a,b{c,d}}.e", "bd.e", "b.e"},
        {"{a}", "{a}", "a"},
        {"{a,b", "{a,b", "a"},
        {"[a-c]x", "bx", "dx"},
        {"[!a-c]x", "dx", "bx"},
        {"[!a]x", "\xC3\xA9x", "ax"},
        {"[]a]", "]", "b"},
        {"[a", "[a", "a"},
        {"a\\*b", "a*b", "axb"},
        {"[!a]", "b", "/"},
        {"(a)", "(a)", "a"},
        {"**", "a/b/c", ""},
        {"", "", "a"},
    };
    for (const Row& row : table) {
        INFO(row.glob << " " << row.yes << " " << row.no);
        CHECK(matches(row.glob, row.yes));
        CHECK_FALSE(matches(row.glob, row.no));
    }
    CHECK(matches("[id].tsx", "[id].tsx", GlobPattern::Brackets::either));
    CHECK(matches("[id].tsx", "i.tsx", GlobPattern::Brackets::either));
    CHECK_FALSE(matches("[id].tsx", "[id].tsx"));
    CHECK(GlobPattern("*.TS", GlobPattern::Case::ignored, GlobPattern::Brackets::set).matches("a.ts"));
    CHECK(GlobPattern("[A-B]", GlobPattern::Case::ignored, GlobPattern::Brackets::set).matches("b"));
}

// [serial]: a bound on time, with ATOLL_TEST_FULL=1.
TEST_CASE("Globs that make others explode are matched in time", "[serial]") {
    std::string stars, sets, choices;
    for (int i = 0; i < 500; ++i)
        stars += "*a", sets += "[ab]*", choices += "{a,aa}";
    const std::string path(2000, 'a');
    const auto begun = std::chrono::steady_clock::now();
    for (const std::string& glob : {stars + "b", sets + "c", choices + "b", std::string(4096, '{'),
                                    std::string(4096, '['), "**/" + stars + "/**/" + sets})
        CHECK_FALSE(
            GlobPattern(glob, GlobPattern::Case::ignored, GlobPattern::Brackets::either).matches(path));
    const auto took = std::chrono::steady_clock::now() - begun;
    if (checks_bounds())
        CHECK(took < std::chrono::seconds(5));
}

TEST_CASE("A diff shows what changed with three lines around it") {
    CHECK(diff("a\n", "a\n").empty());
    CHECK(diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5x\n6\n7\n8\n9\n") ==
          "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+5x\n 6\n 7\n 8\n");
    CHECK(diff("a\nb\n", "a\n") == "@@ -1,2 +1 @@\n a\n-b\n");
    CHECK(diff("a", "a\n") == "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    CHECK(diff("", "a\n") == "@@ -0,0 +1 @@\n+a\n");
    CHECK(diff("a\n", "") == "@@ -1 +0,0 @@\n-a\n");
    std::string before, after;
    for (int i = 1; i <= 40; ++i) {
        before += std::to_string(i) + "\n";
        after += std::to_string(i) + (i == 5 || i == 30 ? "x\n" : "\n");
    }
    CHECK(diff(before, after) ==
          "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+5x\n 6\n 7\n 8\n"
          "@@ -27,7 +27,7 @@\n 27\n 28\n 29\n-30\n+30x\n 31\n 32\n 33\n");
}

// [serial]: a bound on time, with ATOLL_TEST_FULL=1.
TEST_CASE("A diff of large texts is bounded in size and time, and says so", "[serial]") {
    std::string before, after;
    for (int i = 0; i < 300'000; ++i) {
        before += "line " + std::to_string(i) + "\n";
        after += "other " + std::to_string(i * 7 % 1000) + "\n";
    }
    const auto begun = std::chrono::steady_clock::now();
    const TextDiff cut = unified_diff("f", "f", before, after, 64UL * 1024);
    CHECK(cut.is_cut);
    CHECK(cut.text.size() <= 64UL * 1024);
    const auto took = std::chrono::steady_clock::now() - begun;
    if (checks_bounds())
        CHECK(took < std::chrono::seconds(2));
}

// [serial]: a bound on time, with ATOLL_TEST_FULL=1.
TEST_CASE("A diff of long lines that are alike is made in time", "[serial]") {
    // Each pair of lines is equal but for the end: compared byte by byte, this takes minutes.
    const std::string alike(1000, 'x');
    std::string before, after;
    for (int i = 0; i < 20'000; ++i) {
        before += alike + (i % 7 == 0 ? "a\n" : "b\n");
        after += alike + (i % 5 == 0 ? "a\n" : "b\n");
    }
    const auto begun = std::chrono::steady_clock::now();
    CHECK(unified_diff("f", "f", before, after, 64UL * 1024).is_cut);
    const auto took = std::chrono::steady_clock::now() - begun;
    if (checks_bounds())
        CHECK(took < std::chrono::seconds(5));
}

TEST_CASE("The output of ripgrep is read in pieces of any size") {
    const std::string text = std::string("./a\nb\0", 6) + "12:x:y\r\n" +
                             std::string("./a\nb: binary file matches (found \"\\0\")\n./c\0", 44) +
                             "3:" + std::string(50, 'z') + "\n" + std::string("./c: words\n./d\0", 15) +
                             "1:\n";
    for (std::size_t piece = 1; piece < text.size(); ++piece) {
        std::string seen;
        SearchOutput output(
            10,
            [&](const SearchMatch& match) {
                seen += match.path + "|" + std::to_string(match.line_number) + "|" + match.line + ";";
                return true;
            },
            [](const std::string& path) { return path == "./c: words\n./d"; });
        for (std::size_t at = 0; at < text.size(); at += piece)
            REQUIRE(output.feed(std::string_view(text).substr(at, piece)));
        REQUIRE(seen == "./a\nb|12|x:y;./c|3|zzzzzzzzzz;./c: words\n./d|1|;");
    }
}

TEST_CASE("Times beyond the years of RFC 3339 are shown as its last and first ones") {
    CHECK(rfc3339({0, 5'000'000}) == "1970-01-01T00:00:00.005Z");
    CHECK(rfc3339({INT64_MAX, 0}) == "9999-12-31T23:59:59.000Z");
    CHECK(rfc3339({INT64_MIN, 0}) == "0000-01-01T00:00:00.000Z");
}

TEST_CASE("A path as it is shown means what it is shown for, and every other one itself") {
    for (const std::string name : {"plain", "caf\xC3\xA9", "a\xFF", "\xC3", "\xE2\x82x\xE2\x82\xAC",
                                   "%41\xFE", "%", "%FF", "%25FF", "50%20off", "%2e%2E"}) {
        INFO(name);
        CHECK(path_of_text(atl::base::path_text(name)) == name);
    }
    for (const char* const text : {"100%", "50%20off", "%2F", "%2e%2e", "%00", "caf%C3%A9", "a%ff"})
        CHECK(path_of_text(text) == text);
    CHECK(path_of_text("a%FF") == "a\xFF");
    CHECK(path_of_text("100%25aa") == "100%aa");
}

TEST_CASE("The book of what was read forgets the oldest") {
    ReadFiles book(2);
    struct stat state {};
    state.st_ino = 7;
    book.note("a", state);
    book.note("b", state);
    book.note("a", state);
    book.note("c", state);
    CHECK(book.objection("a", state).empty());
    CHECK_FALSE(book.objection("b", state).empty());
    CHECK(book.objection("c", state).empty());
    state.st_ino = 8;
    CHECK(book.objection("a", state).find("replaced") != std::string::npos);
}

}  // namespace tool_parts_test
