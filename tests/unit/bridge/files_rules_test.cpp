// Rules that all ops of `file` share: what a slash at the end of a path means, and that a write changes the
// tag.
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "file_lab.hpp"

namespace atl::test::files_rules_test {
namespace {

using nlohmann::json;

const json k_recursive = {{"recursive", true}};

timespec written_at(const FileLab& lab, const std::string& path) {
    struct stat about {};
    REQUIRE(stat(lab.at(path).c_str(), &about) == 0);
    return about.st_mtim;
}

bool is_later(const timespec& one, const timespec& other) {
    return one.tv_sec != other.tv_sec ? one.tv_sec > other.tv_sec : one.tv_nsec > other.tv_nsec;
}

/// Sets the time of a file to that of now, and so much more.
timespec set_written_at(const FileLab& lab, const std::string& path, long seconds, long nanoseconds) {
    timespec times[2];
    REQUIRE(clock_gettime(CLOCK_REALTIME, &times[1]) == 0);
    times[1].tv_sec += seconds;
    times[1].tv_nsec += nanoseconds;
    if (times[1].tv_nsec >= 1'000'000'000) {
        times[1].tv_nsec -= 1'000'000'000;
        ++times[1].tv_sec;
    }
    times[0] = times[1];
    REQUIRE(utimensat(AT_FDCWD, lab.at(path).c_str(), times, 0) == 0);
    return written_at(lab, path);
}

}  // namespace

TEST_CASE("a slash at the end of a path means a directory, for every op") {
    const FileLab lab;
    lab.write("f", "text");
    lab.write("d/x", "inner");
    symlink("f", lab.at("to_file").c_str());
    symlink("f/", lab.at("to_slash").c_str());
    symlink("d", lab.at("to_folder").c_str());
    const json to_free = {{"to", "free"}};
    // The control: without the slash each is there.
    REQUIRE(lab.get("f") == "text");
    for (const char* const path : {"f/", "f//", "to_file/"}) {
        INFO(path);
        CHECK(lab.get(path) == "!not_a_directory");
        CHECK(lab.refusal("stat", path) == "not_a_directory");
        CHECK(lab.refusal("list", path) == "not_a_directory");
        CHECK(lab.refusal("move", path, to_free) == "not_a_directory");
        CHECK(lab.refusal("copy", path, to_free) == "not_a_directory");
        CHECK(lab.refusal("remove", path) == "not_a_directory");
        CHECK(lab.refusal("remove", path, k_recursive) == "not_a_directory");
        for (const bool in_place : {false, true})
            CHECK(lab.put(path, "x", {{"inplace", in_place}}).code() == "not_a_directory");
    }
    CHECK(lab.put("to_slash", "x").code() == "not_a_directory");
    CHECK(lab.put("new/file/", "x").code() == "is_directory");
    CHECK(lab.put("to_folder/", "x").code() == "is_directory");
    for (const char* const op : {"move", "copy"})
        for (const char* const to : {"free/", "parents/free/", "d/"})
            for (const bool overwrite : {false, true})
                CHECK(lab.refusal(op, "f", {{"to", to}, {"overwrite", overwrite}}) == "not_a_directory");
    // A link to a directory is none itself.
    CHECK(lab.refusal("remove", "to_folder/", k_recursive) == "not_a_directory");
    CHECK(lab.names() == std::vector<std::string>{"d", "f", "to_file", "to_folder", "to_slash"});
    CHECK(lab.text("f") == "text");
    // Directories are as without it.
    CHECK(lab.call("stat", "d/").reply.at("entry").at("type") == "directory");
    CHECK(lab.paths("to_folder/") == "to_folder/x");
    CHECK(lab.refusal("copy", "d/", {{"to", "copy/"}}).empty());
    CHECK(lab.refusal("move", "copy/", {{"to", "moved/"}}).empty());
    CHECK(lab.text("moved/x") == "inner");
    CHECK(lab.refusal("remove", "moved/", k_recursive).empty());
    CHECK(lab.refusal("mkdir", "made/").empty());
    CHECK(lab.refusal("remove", "made/").empty());
}

TEST_CASE("a write moves the time of a file on, also where the clock has not moved") {
    const FileLab lab;
    for (const bool in_place : {false, true}) {
        INFO(in_place);
        lab.write("f", "aaaa");
        // The file was written within the tick that the clock still shows, or shows again.
        const timespec first = set_written_at(lab, "f", 0, 900'000'000);
        REQUIRE(lab.put("f", "bbbb", {{"inplace", in_place}}).is_good());
        const timespec second = written_at(lab, "f");
        CHECK(is_later(second, first));
        REQUIRE(lab.put("f", "cccc", {{"inplace", in_place}}).is_good());
        CHECK(is_later(written_at(lab, "f"), second));
        // A time that somebody set is no tick of the clock.
        const timespec future = set_written_at(lab, "f", 3600, 0);
        REQUIRE(lab.put("f", "dddd", {{"inplace", in_place}}).is_good());
        CHECK(is_later(future, written_at(lab, "f")));
    }
}

TEST_CASE("each of many writes of one size gives the file a tag that it never had") {
    const FileLab lab;
    lab.write("f", "0000");
    std::set<std::string> tags{lab.call("stat", "f").reply.at("entry").at("etag")};
    for (int i = 0; i < 100; ++i) {
        const json entry =
            lab.put("f", std::to_string(1000 + i), {{"inplace", i % 3 != 0}}).reply.at("entry");
        CHECK(tags.insert(entry.at("etag")).second);
        CHECK(lab.call("stat", "f").reply.at("entry").at("etag") == entry.at("etag"));
    }
}

}  // namespace atl::test::files_rules_test
