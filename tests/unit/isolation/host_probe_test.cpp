#include "core/isolation/host_probe.hpp"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "tests/unit/isolation/fixture.hpp"

namespace host_probe_test {

using namespace atl;

TEST_CASE("host probe: which kernels count processes by user namespace") {
    for (const char* release : {"5.14.0", "5.15.0-91-generic", "6.1.0-18-amd64", "6.12", "10.0.1"})
        CHECK(isolation::counts_processes_by_namespace(release));
    for (const char* release : {"5.13.19", "5.4.0-42-generic", "4.19.0", "", "linux", "6"})
        CHECK_FALSE(isolation::counts_processes_by_namespace(release));
    CHECK_FALSE(isolation::running_kernel().empty());
}

TEST_CASE("host probe: the guest limits processes where groups do not and the kernel lets it") {
    using isolation::ProcessLimit;
    sandbox::Enforcement none;
    sandbox::Enforcement group;
    group.processes = "cgroup2";
    CHECK(isolation::best_process_limit(none, "6.1.0") == ProcessLimit::rlimit);
    CHECK(isolation::best_process_limit(none, "5.4.0") == ProcessLimit::group);
    CHECK(isolation::best_process_limit(group, "6.1.0") == ProcessLimit::group);
}

TEST_CASE("host probe: bubblewrap's version is what the program tells, and empty where it tells none") {
    const test::TempFolder folder;
    const auto version = [&](const std::string& commands) {
        const auto program = folder.path() / "bwrap";
        std::ofstream(program) << "#!/bin/sh\n" << commands << '\n';
        std::filesystem::permissions(program, std::filesystem::perms::owner_all);
        return isolation::bwrap_version(program);
    };
    CHECK(version("[ \"$*\" = --version ] && echo bubblewrap 0.12.0") == "0.12.0");
    CHECK(version("echo bubblewrap").empty());
    CHECK(version("echo bubblewrap 0.8.0; exit 1").empty());
    CHECK(version("exec yes bubblewrap").size() < 64);
    CHECK(isolation::bwrap_version(folder.path() / "missing").empty());
}

}  // namespace host_probe_test
