// Kernel tables that exist once for the host, or once for each uid: a sandbox must not use up the entries
// that others need.
#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace tables_test {

using namespace atl::test;

namespace {

constexpr int k_ptys_of_one = 256;

}  // namespace

// [serial]: the host's pseudoterminals count together.
TEST_CASE("A sandbox has a bound of its own on pseudoterminals where the server is root", "[serial]") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox greedy(lab);
    Sandbox neighbour(lab);
    // The control: rootless, bubblewrap's devpts has no bound but the host's.
    const int wanted = k_ptys_of_one + 44;
    const Results got = greedy.probe({"ptys", std::to_string(wanted)});
    CHECK(got["ptys"] == std::to_string(lab.has_private_uids ? k_ptys_of_one : wanted));
    CHECK(neighbour.probe({"ptys", "10"})["ptys"] == "10");
}

TEST_CASE("A terminal works inside: its name, its owner, its session and job control") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    CHECK(sandbox.output(
              "script -qec 'tty; stat -c %U $(tty); echo to-tty >/dev/tty' /dev/null | tr -d '\\r'") ==
          "/dev/pts/0\nuser\nto-tty");
    // Monitor mode needs a controlling terminal: the job is stopped and goes on.
    CHECK(sandbox.output(
              "script -qec 'bash -ic \"sleep 100 & kill -STOP %1;"
              " while [ -z \\\"\\$(jobs -s)\\\" ]; do :; done; jobs; kill %1; kill -CONT %1\" 2>&1' /dev/null"
              " | grep -o -m 1 Stopped") == "Stopped");
}

}  // namespace tables_test
