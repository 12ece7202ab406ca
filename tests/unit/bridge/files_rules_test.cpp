// Rules that all ops of `file` share: what a slash at the end of a path means, and that a write changes the
// tag.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "file_lab.hpp"

namespace atl::test::files_rules_test {
namespace {

using nlohmann::json;

const json k_recursive = {{"recursive", true}};

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

}  // namespace atl::test::files_rules_test
