// Rules that all ops of `file` share: what a slash at the end of a path means, and that a write changes the
// tag.
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <set>

#include "bridge/guest/files/tar.hpp"
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

TEST_CASE(
    "what HOME holds of shells and package managers is left out at the top alone, unless all is asked for") {
    const FileLab lab;
    for (const char* path : {".bash_history", ".cache/x", ".config/x", ".local/x", ".node_repl_history",
                             ".npm/x", ".profile", ".python_history", "a/.cache/x", "b"})
        lab.write(path, "");
    const std::string known = ".bash_history .cache .config .local .node_repl_history .npm";
    CHECK(lab.paths("") == known + " .profile .python_history a b");
    const auto names = [&](const std::string& path) {
        const json page =
            json::parse(lab.call("list", path, {{"depth", 9}, {"limit", 1000}, {"all", false}}).output);
        std::string joined = page.at("hidden").dump();
        for (const auto& entry : page.at("entries"))
            joined += " " + entry.at("path").get<std::string>();
        return joined;
    };
    CHECK(names("") == "7 .profile a a/.cache a/.cache/x b");
    CHECK(names(".npm") == "0 .npm/x");
    CHECK(names("a") == "0 a/.cache a/.cache/x");
    const CallClient packed = lab.call("pack", "", {{"all", false}});
    CHECK(packed.reply.at("leftOut") ==
          ".bash_history, .cache, .config, .local, .node_repl_history, .npm, .python_history");
    CHECK(packed.output.find(".npm/x") == std::string::npos);
    CHECK(packed.output.find("a/.cache/x") != std::string::npos);
    const CallClient whole = lab.call("pack", "");
    CHECK_FALSE(whole.reply.contains("leftOut"));
    CHECK(whole.output.find(".npm/x") != std::string::npos);
}

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

namespace {

/// Each way to give the file `f`, which is there, other content.
enum class Way : std::uint8_t { put, put_in_place, tool, copy, unpack };

constexpr Way k_ways[] = {Way::put, Way::put_in_place, Way::tool, Way::copy, Way::unpack};

bool unpack_f(const FileLab& lab, std::string_view text) {
    guest::ArchiveEntry entry;
    entry.type = guest::EntryType::file;
    entry.path = "f";
    entry.size = text.size();
    entry.mtime = time(nullptr);
    std::string archive;
    guest::append_tar_header(archive, entry);
    archive += text;
    guest::append_tar_padding(archive, text.size());
    guest::append_tar_end(archive);
    CallClient client = lab.begin("unpack", "");
    if (client.await_ready()) {
        client.write(archive);
        client.end_input();
    }
    return client.finish().is_good();
}

bool write_by(const FileLab& lab, Way way, const std::string& text) {
    switch (way) {
        case Way::put:
        case Way::put_in_place:
            return lab.put("f", text, {{"inplace", way == Way::put_in_place}}).is_good();
        case Way::tool: {
            const json arguments = {{"file_path", "f"}, {"content", text}, {"allow_overwrite", true}};
            CallClient call(lab.guest, {{"cmd", "tool"}, {"name", "write_file"}, {"args", arguments}});
            return call.finish().reply.value("success", false);
        }
        case Way::copy:
            lab.write("source", text);
            return lab.call("copy", "source", {{"to", "f"}, {"overwrite", true}}).is_good();
        case Way::unpack:
            return unpack_f(lab, text);
    }
    return false;
}

}  // namespace

TEST_CASE("a write moves the time of a file on, also where the clock has not moved") {
    const FileLab lab;
    for (const Way way : k_ways) {
        INFO(static_cast<int>(way));
        lab.write("f", "aaaa");
        // The file was written within the tick that the clock still shows, or shows again.
        const timespec first = set_written_at(lab, "f", 0, 900'000'000);
        REQUIRE(write_by(lab, way, "bbbb"));
        CHECK(lab.text("f") == "bbbb");
        const timespec second = written_at(lab, "f");
        CHECK(is_later(second, first));
        REQUIRE(write_by(lab, way, "cccc"));
        CHECK(is_later(written_at(lab, "f"), second));
        // A time that somebody set is no tick of the clock.
        const timespec future = set_written_at(lab, "f", 3600, 0);
        REQUIRE(write_by(lab, way, "dddd"));
        CHECK(is_later(future, written_at(lab, "f")));
    }
}

TEST_CASE("each of many writes of one size gives the file a tag that it never had") {
    const FileLab lab;
    lab.write("f", "0000");
    const auto tag = [&] { return lab.call("stat", "f").reply.at("entry").at("etag").get<std::string>(); };
    std::set<std::string> tags{tag()};
    for (int i = 0; i < 100; ++i) {
        // Unpacking is left out: an unpacked file has the time that the archive says, a whole second.
        const Way way = k_ways[static_cast<std::size_t>(i) % 4];
        REQUIRE(write_by(lab, way, std::to_string(1000 + i)));
        CHECK(tags.insert(tag()).second);
    }
}

TEST_CASE("the tag that a write answers with is the file's") {
    const FileLab lab;
    for (const bool in_place : {false, true}) {
        lab.write("f", "0000");
        const json entry = lab.put("f", "1111", {{"inplace", in_place}}).reply.at("entry");
        CHECK(lab.call("stat", "f").reply.at("entry").at("etag") == entry.at("etag"));
    }
    lab.write("source", "2222");
    const json entry = lab.call("copy", "source", {{"to", "f"}, {"overwrite", true}}).reply.at("entry");
    CHECK(lab.call("stat", "f").reply.at("entry").at("etag") == entry.at("etag"));
}

}  // namespace atl::test::files_rules_test
