#include "core/base/nearest.hpp"

#include <catch2/catch_test_macros.hpp>

#include "core/base/limits.hpp"

namespace nearest_test {

using atl::base::did_you_mean;
using atl::base::nearest;

TEST_CASE("the nearest word is the one that was meant, and a stranger has none") {
    const std::vector<std::string> known{"metadata",   "memoryMb", "maxProcesses",
                                         "ttlSeconds", "env",      "agent"};
    for (const auto& [word, meant] :
         std::vector<std::pair<std::string, std::string>>{{"metdata", "metadata"},
                                                          {"meatdata", "metadata"},
                                                          {"meta", "metadata"},
                                                          {"memory_mb", "memoryMb"},
                                                          {"memory", "memoryMb"},
                                                          {"max-processes", "maxProcesses"},
                                                          {"MAXPROCESSES", "maxProcesses"},
                                                          {"ttl", "ttlSeconds"},
                                                          {"ttlSecond", "ttlSeconds"},
                                                          {"evn", "env"},
                                                          {"agents", "agent"}}) {
        INFO(word);
        CHECK(nearest(word, known) == meant);
    }
    const std::vector<std::string> exec{"cwd",   "command", "argv",      "env",
                                        "stdin", "title",   "timeoutMs", "ttlSeconds"};
    CHECK(did_you_mean("cmd", exec, "", "") == "; did you mean command?");
    CHECK(did_you_mean("cwdd", exec, "", "") == "; did you mean cwd?");
    CHECK(did_you_mean("ttl", exec, "", "") == "; did you mean ttlSeconds?");
    // A variable that is near refuses a start; this one is near to nothing.
    const std::vector<std::string> rests{"DISK_RESERVE", "DATA_DIR"};
    CHECK(nearest("DIR", rests).empty());
    CHECK(did_you_mean("DIR", rests, "", "") == "; did you mean DATA_DIR?");
    for (const char* word : {"", "x", "userId", "completely", "me"}) {
        INFO(word);
        CHECK(nearest(word, known).empty());
    }
    CHECK(nearest(std::string(atl::base::k_max_told_word_bytes + 1, 'a'), known).empty());
    CHECK(nearest(std::string(atl::base::k_max_told_word_bytes, 'a'), {}).empty());
    CHECK(did_you_mean("evn", known, "`", ".") == "; did you mean `env`?");
    CHECK(did_you_mean("nothing", known, "`", ".") == ".");
    const std::vector<std::string> twice = {"a", "b", "a"};
    CHECK(atl::base::those_there_are("fields", twice) == " The fields are `a`, `b`.");
    CHECK(atl::base::those_there_are("fields", {}).empty());
}

}  // namespace nearest_test
