// The tools that search, against a real guest and the ripgrep of this machine.
#include <unistd.h>
#include <utime.h>

#include <catch2/catch_test_macros.hpp>

#include "bridge/guest/tools/glob_pattern.hpp"
#include "tool_client.hpp"

namespace tool_search_test {

using namespace atl::test;
using atl::guest::GlobWork;
using Json = nlohmann::json;

namespace {

/// "a.txt:1:text b.txt:2:text ", without /workspace/.
std::string told(const ToolAnswer& answer) {
    std::string text;
    for (const Json& match : answer.data().at("matches"))
        text += match.at("filePath").get<std::string>().substr(11) + ":" +
                std::to_string(match.at("lineNumber").get<int>()) + ":" +
                match.at("line").get<std::string>() + " ";
    return text;
}

std::string files(const ToolAnswer& answer) {
    std::string text;
    for (const Json& file : answer.data().at("files"))
        text += file.get<std::string>().substr(11) + " ";
    return text;
}

/// Makes a file so old that its name alone decides its place in the list of glob.
void make_old(const ToolGuest& guest, std::string_view inner) {
    const utimbuf times{1'000'000'000, 1'000'000'000};
    REQUIRE(utime(guest.workspace.path(inner).c_str(), &times) == 0);
}

}  // namespace

TEST_CASE("search_file_content finds lines in the order of paths and respects .gitignore") {
    const ToolGuest guest;
    guest.workspace.write("b.txt", "x\nFoo 2\r\n");
    guest.workspace.write("a/z.ts", "foo 1\n");
    guest.workspace.write(".hidden", "foo 3\n");
    guest.workspace.write(".git/config", "foo 4\n");
    guest.workspace.write(".atoll/agents/a/state", "foo 6\n");
    guest.workspace.write("ignored.ts", "foo 5\n");
    guest.workspace.write(".gitignore", "ignored.ts\n");
    const auto found = guest.run("search_file_content", {{"pattern", "fo+ \\d$"}});
    CHECK(told(found) == ".hidden:1:foo 3 a/z.ts:1:foo 1 b.txt:2:Foo 2 ");
    CHECK(found.data().at("matchCount") == 3);
    CHECK(found.data().at("fileCount") == 3);
    CHECK(found.data().at("truncated") == false);
    CHECK(told(guest.run("search_file_content", {{"pattern", "Foo"}, {"case_sensitive", true}})) ==
          "b.txt:2:Foo 2 ");
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}, {"path", "/workspace/a"}})) ==
          "a/z.ts:1:foo 1 ");
    CHECK(guest.run("search_file_content", {{"pattern", "none"}, {"path", "a"}}).result.at("userFeedback") ==
          "Found no match in /workspace/a.");
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}, {"path", "b.txt"}})) ==
          "b.txt:2:Foo 2 ");
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}, {"include", "*.ts"}})) ==
          "a/z.ts:1:foo 1 ");
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}, {"include", "*.{ts,txt}"}})) ==
          "a/z.ts:1:foo 1 b.txt:2:Foo 2 ");
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}, {"include", "a/**"}})) ==
          "a/z.ts:1:foo 1 ");
}

TEST_CASE(
    "search_file_content takes an include as results show paths, and refuses what could match nothing") {
    const ToolGuest guest;
    guest.workspace.write("top.ts", "foo\n");
    guest.workspace.write("src/deep/a.ts", "foo\n");
    const auto included = [&](const char* include, const char* path = ".") {
        return guest.run("search_file_content", {{"pattern", "foo"}, {"include", include}, {"path", path}});
    };
    const std::string deep = "src/deep/a.ts:1:foo ";
    for (const char* include :
         {"./src/**/*.ts", "././src/**", "/workspace/src/**/*.ts", "/workspace/src/deep/a.ts"})
        CHECK(told(included(include)) == deep);
    CHECK(told(included("/workspace/src/**", "src")) == deep);
    CHECK(told(included("/workspace/src/deep/*.ts", "/workspace/src/deep")) == deep);
    // A name with a place is not one anywhere.
    CHECK(told(included("./*.ts")) == "top.ts:1:foo ");
    CHECK(told(included("/workspace/*.ts")) == "top.ts:1:foo ");
    CHECK(told(included("/workspace", ".")).empty());
    CHECK(included("/workspace/other/**", "src").code() == "INVALID_PATTERN");
    CHECK(included("/etc/**").code() == "OUTSIDE_WORKSPACE");
}

TEST_CASE("search_file_content takes brackets in paths as they are") {
    const ToolGuest guest;
    guest.workspace.write("app/[id]/page.tsx", "foo\n");
    guest.workspace.write("app/(group)/{x}/page.tsx", "foo\n");
    guest.workspace.write("app/i/page.tsx", "foo\n");
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}, {"path", "app/[id]"}})) ==
          "app/[id]/page.tsx:1:foo ");
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}, {"path", "app/(group)/{x}"}})) ==
          "app/(group)/{x}/page.tsx:1:foo ");
    const auto included =
        guest.run("search_file_content", {{"pattern", "foo"}, {"include", "app/[id]/*.tsx"}});
    CHECK(told(included).find("app/[id]/page.tsx") != std::string::npos);
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}, {"include", "app/(group)/**"}})) ==
          "app/(group)/{x}/page.tsx:1:foo ");
}

TEST_CASE("A search that fails is not a search without matches") {
    const ToolGuest guest;
    guest.workspace.write("a.txt", "foo(\n");
    const auto none = guest.run("search_file_content", {{"pattern", "bar"}});
    CHECK(none.success());
    CHECK(none.data().at("matchCount") == 0);
    CHECK(told(guest.run("search_file_content", {{"pattern", "--foo|foo\\("}})) == "a.txt:1:foo( ");
    for (const char* pattern : {"foo(", "[a", "(?=a)", "\\1", "a{1000}{1000}{1000}", "", "a\nb"}) {
        INFO(pattern);
        const auto bad = guest.run("search_file_content", {{"pattern", pattern}});
        CHECK(bad.code() == "INVALID_PATTERN");
    }
    CHECK(guest.run("search_file_content", {{"pattern", std::string("a\0b", 3)}}).code() ==
          "INVALID_PATTERN");
    CHECK(guest.run("search_file_content", {{"pattern", "a"}, {"path", "nope"}}).code() == "FILE_NOT_FOUND");
    CHECK(guest.run("search_file_content", {{"pattern", "a"}, {"path", "../"}}).code() ==
          "OUTSIDE_WORKSPACE");
}

TEST_CASE("A regular expression that makes others explode is matched in linear time") {
    const ToolGuest guest;
    guest.workspace.write("a.txt", std::string(200'000, 'a') + "\n");
    const auto found = guest.run("search_file_content", {{"pattern", "(a+)+$b|(a|aa)+c"}});
    // Otherwise its time would be over (k_tool_search_timeout).
    CHECK(found.success());
}

TEST_CASE("search_file_content stops at max_matches, cuts long lines and leaves binary files out") {
    const ToolGuest guest;
    for (int i = 0; i < 30; ++i)
        guest.workspace.write("f" + std::to_string(10 + i), "foo\nfoo\nfoo\nfoo\nfoo\n");
    const auto default_most = guest.run("search_file_content", {{"pattern", "foo"}});
    CHECK(default_most.data().at("matchCount") == 100);
    CHECK(default_most.data().at("truncated") == true);
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}, {"max_matches", 2}})) ==
          "f10:1:foo f10:2:foo ");
    CHECK(
        guest.run("search_file_content", {{"pattern", "foo"}, {"max_matches", 150}}).data().at("truncated") ==
        false);
    guest.workspace.write("wide", "needle" + std::string(5000, 'x') + "\n");
    guest.workspace.write("binary", std::string(100'000, 'y') + "\nneedle\n" + std::string(200'000, 'z') +
                                        "\n" + std::string(10, '\0'));
    guest.workspace.write("zz", "needle\n");
    const auto cut = guest.run("search_file_content", {{"pattern", "needle"}});
    REQUIRE(cut.success());
    const Json matches = cut.data().at("matches");
    CHECK(matches.back().at("filePath") == "/workspace/zz");
    CHECK(matches.at(matches.size() - 2).at("line").get<std::string>().size() == 2015);
    CHECK(cut.warnings().find("1 line of more than 2000 characters cut") != std::string::npos);
}

TEST_CASE("glob lists what changed lately first, then by name") {
    const ToolGuest guest;
    for (const char* name : {"b.ts", "a.ts", "src/c.ts", "src/deep/d.TS", "old.js"}) {
        guest.workspace.write(name, "");
        make_old(guest, name);
    }
    guest.workspace.write("src/new.ts", "");
    guest.workspace.write("newer.ts", "");
    const utimbuf hour_ago{time(nullptr) - 3600, time(nullptr) - 3600};
    REQUIRE(utime(guest.workspace.path("src/new.ts").c_str(), &hour_ago) == 0);
    CHECK(files(guest.run("glob", {{"pattern", "**/*.ts"}})) ==
          "newer.ts src/new.ts a.ts b.ts src/c.ts src/deep/d.TS ");
    CHECK(files(guest.run("glob", {{"pattern", "**/*.ts"}, {"case_sensitive", true}})) ==
          "newer.ts src/new.ts a.ts b.ts src/c.ts ");
    CHECK(files(guest.run("glob", {{"pattern", "{a,old}.{ts,js}"}})) == "a.ts old.js ");
    CHECK(files(guest.run("glob", {{"pattern", "*.ts"}, {"path", "src"}})) == "src/new.ts src/c.ts ");
    CHECK(files(guest.run("glob", {{"pattern", "/workspace/src/*.ts"}})) == "src/new.ts src/c.ts ");
    CHECK(files(guest.run("glob", {{"pattern", "?.ts"}})) == "a.ts b.ts ");
    CHECK(guest.run("glob", {{"pattern", "*.py"}}).data().at("count") == 0);
    CHECK(guest.run("glob", {{"pattern", "../*"}}).code() == "OUTSIDE_WORKSPACE");
    CHECK(guest.run("glob", {{"pattern", "/etc/*"}}).code() == "OUTSIDE_WORKSPACE");
    CHECK(guest.run("glob", {{"pattern", "*"}, {"path", "a.ts"}}).code() == "NOT_A_DIRECTORY");
    CHECK(guest.run("glob", {{"pattern", ""}}).code() == "INVALID_PATTERN");
}

TEST_CASE("glob takes brackets literally where a file is so named, else as a set") {
    const ToolGuest guest;
    for (const char* name : {"app/[id]/page.tsx", "app/i/page.tsx", "app/(g)/page.tsx", "app/[...slug]/p.tsx",
                             "a.c", "b.c", "{x}.c"}) {
        guest.workspace.write(name, "");
        make_old(guest, name);
    }
    CHECK(files(guest.run("glob", {{"pattern", "app/[id]/page.tsx"}})) == "app/[id]/page.tsx ");
    CHECK(files(guest.run("glob", {{"pattern", "app/[id]/*"}})) == "app/[id]/page.tsx ");
    CHECK(files(guest.run("glob", {{"pattern", "**/[...slug]/*.tsx"}})) == "app/[...slug]/p.tsx ");
    CHECK(files(guest.run("glob", {{"pattern", "app/(g)/*"}})) == "app/(g)/page.tsx ");
    CHECK(files(guest.run("glob", {{"pattern", "[ab].c"}})) == "a.c b.c ");
    CHECK(files(guest.run("glob", {{"pattern", "[!a].c"}})) == "b.c ");
    CHECK(files(guest.run("glob", {{"pattern", "{x}.c"}})) == "{x}.c ");
}

TEST_CASE("glob respects .gitignore unless told otherwise, and is cut at 1,000 files") {
    const ToolGuest guest;
    guest.workspace.write(".gitignore", "out/\n");
    guest.workspace.write("out/x.js", "");
    guest.workspace.write(".git/y.js", "");
    CHECK(guest.run("glob", {{"pattern", "**/*.js"}}).data().at("count") == 0);
    CHECK(files(guest.run("glob", {{"pattern", "**/*.js"}, {"respect_git_ignore", false}})) == "out/x.js ");
    for (int i = 0; i < 1200; ++i)
        guest.workspace.write("many/" + std::to_string(10'000 + i), "");
    const auto many = guest.run("glob", {{"pattern", "many/*"}});
    CHECK(many.data().at("count") == 1000);
    CHECK(many.data().at("totalCount") == 1200);
    CHECK(many.data().at("truncated") == true);
    CHECK(many.warnings().find("1000 of 1200") != std::string::npos);
}

TEST_CASE("A binary file that is searched by its name is told as one") {
    const ToolGuest guest;
    guest.workspace.write("binary", std::string("one\n\0one\n", 9));
    const std::string text = [] {
        std::string lines;
        for (int i = 0; i < 30'000; ++i)
            lines += "other\n";
        return lines;
    }();
    guest.workspace.write("late", "one\n" + text + std::string("\0one\n", 5));
    CHECK(guest.run("search_file_content", {{"pattern", "one"}, {"path", "binary"}}).code() == "BINARY_FILE");
    const auto none = guest.run("search_file_content", {{"pattern", "two"}, {"path", "binary"}});
    CHECK(none.data().at("matchCount") == 0);
    const auto late = guest.run("search_file_content", {{"pattern", "one"}, {"path", "late"}});
    CHECK(told(late) == "late:1:one ");
    CHECK(late.warnings().find("binary") != std::string::npos);
}

TEST_CASE("A search of a directory tells how many files it left out as too large") {
    const ToolGuest guest;
    guest.workspace.write("a", "foo\n");
    guest.workspace.write("d/large", std::string(20UL * 1024 * 1024 + 1, 'f'));
    guest.workspace.write("d/line\nbreak", std::string(20UL * 1024 * 1024 + 1, 'f'));
    guest.workspace.write("d/fits", std::string(20UL * 1024 * 1024 - 10, 'f') + "\nfoo\n");
    const auto found = guest.run("search_file_content", {{"pattern", "foo"}});
    CHECK(told(found) == "a:1:foo d/fits:2:foo ");
    CHECK(found.warnings() == R"(["2 files of more than 20 MiB not searched."])");
    CHECK_FALSE(
        guest.run("search_file_content", {{"pattern", "foo"}, {"path", "a"}}).result.contains("warnings"));
    // The message of ripgrep about a bad pattern is shown without its debug output.
    const auto bad = guest.run("search_file_content", {{"pattern", "foo("}});
    CHECK(bad.error().find("DEBUG") == std::string::npos);
    CHECK(bad.error().find("unclosed group") != std::string::npos);
}

TEST_CASE("A file that is named like a notice of ripgrep's keeps its name") {
    const ToolGuest guest;
    guest.workspace.write("x", "foo 1\n");
    const std::string forged = "x: binary file matches (found \"\\0\" byte around offset 5)\nz";
    guest.workspace.write(forged, "foo 2\n");
    // The control: behind the text of a binary file a notice does come, and is no part of the next name.
    guest.workspace.write("y",
                          std::string("foo 3\n") + std::string(70'000, 'y') + "\n" + std::string(1, '\0'));
    guest.workspace.write("z", "foo 4\n");
    CHECK(told(guest.run("search_file_content", {{"pattern", "foo"}})) ==
          "x:1:foo 1 " + forged + ":1:foo 2 y:1:foo 3 z:1:foo 4 ");
}

TEST_CASE("Globs of more than 512 bytes are refused, and the longest ones keep nobody waiting") {
    const ToolGuest guest;
    for (int i = 0; i < 300; ++i)
        guest.workspace.write(std::string(200, 'a') + std::to_string(i), "x\n");
    std::string longest;
    while (longest.size() + 5 <= 512)
        longest += "[ab]*";
    const std::string too_long = longest + "xyz";
    const auto runs = [&](const std::string& glob) {
        const Json many(std::vector<std::string>(20, glob));
        return std::vector<ToolAnswer>{
            guest.run("glob", {{"pattern", glob}}),
            guest.run("list_directory", {{"path", "."}, {"ignore", many}}),
            guest.run("search_file_content", {{"pattern", "x"}, {"include", glob}}),
        };
    };
    for (const ToolAnswer& answer : runs(longest))
        CHECK(answer.success());
    for (const ToolAnswer& answer : runs(too_long))
        CHECK(answer.code() == "INVALID_PATTERN");
    GlobWork work;
    CHECK_FALSE(work.add(10));
    CHECK(work.add(GlobWork::k_steps_per_turn));
    CHECK_FALSE(work.add(10));
}

}  // namespace tool_search_test
