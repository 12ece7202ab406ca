#include "tests/bench/bounded_run.hpp"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "tests/bench/child.hpp"
#include "tests/bench/sockets.hpp"
#include "tests/bench/temp_dir.hpp"

namespace bounded_run_test {

namespace {

using namespace std::chrono_literals;
using atl::bench::Child;
using atl::bench::run_within;

/// Calls `body` in a process without other children, as run_within() wants, which SIGTERM ends: the handler
/// of Catch2, in a child, would end the report of the tests. Throws if `body` throws.
void apart(const std::function<void()>& body) {
    Child process([&] {
        ::signal(SIGTERM, SIG_DFL);
        body();
    });
    process.wait();
}

void hang() {
    for (;;)
        ::pause();
}

/// The sentence with which `run` fails within `deadline`.
std::string failure_of(std::chrono::seconds deadline, const std::function<std::string()>& run) {
    try {
        return "returned " + run_within(deadline, run);
    } catch (const std::runtime_error& error) {
        return error.what();
    }
}

void expect(bool holds, const std::string& what) {
    if (!holds)
        throw std::runtime_error(what);
}

}  // namespace

TEST_CASE("bounded run: the text of a measurement comes from its process") {
    CHECK_NOTHROW(apart([] {
        const pid_t parent = ::getpid();
        const std::string child = run_within(60s, [] { return std::to_string(::getpid()); });
        expect(std::stoi(child) != parent, "it ran in the same process");
        const std::string long_text(1 << 20, 'x');
        expect(run_within(60s, [&] { return long_text; }) == long_text, "a long text was cut");
    }));
}

TEST_CASE("bounded run: a measurement that does not end is ended with a sentence, and the next one runs") {
    CHECK_NOTHROW(apart([] {
        const std::string failure = failure_of(0s, [] {
            hang();
            return "";
        });
        expect(failure == "did not end within 0 s", failure);
        expect(run_within(60s, [] { return "next"; }) == "next", "the next one did not run");
    }));
}

TEST_CASE("bounded run: a measurement whose process crashes fails") {
    CHECK_NOTHROW(apart([] {
        const std::string failure = failure_of(60s, []() -> std::string { ::_exit(3); });
        expect(failure.find("process") != std::string::npos, failure);
    }));
}

TEST_CASE("bounded run: processes and folders that a measurement leaves are gone afterwards") {
    CHECK_NOTHROW(apart([] {
        atl::bench::SocketPair pair;
        const std::string folder = run_within(60s, [&] {
            pair.ours.reset();
            if (::fork() == 0)
                hang();
            return static_cast<std::string>((new atl::bench::TempDir)->path());
        });
        expect(!std::filesystem::exists(folder), folder + " is still there");
        // The kernel closes the other end when the last process that has it is gone.
        pair.theirs.reset();
        char byte = 0;
        expect(::read(pair.ours.get(), &byte, 1) == 0, "a process still has the socket");
    }));
}

}  // namespace bounded_run_test
