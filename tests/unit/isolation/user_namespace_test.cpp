#include "core/isolation/user_namespace.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>

#include "core/base/limits.hpp"
#include "core/plain/unique_fd.hpp"
#include "fixture.hpp"

namespace user_namespace_test {

namespace {

using namespace atl;
using isolation::mapped_host_uids;

constexpr std::uint32_t k_all = base::k_host_uids_per_block * base::k_host_uid_blocks;

std::uint32_t mapped(const test::TempFolder& folder, const std::string& map) {
    test::write_text(folder / "uid_map", map);
    return mapped_host_uids(folder / "uid_map");
}

/// The error of entering with a program `getsubids` that prints `listed`.
std::string refusal(const test::TempFolder& folder, const std::string& listed,
                    const std::optional<isolation::SubordinateIds>& wanted = {}) {
    const auto program = folder / "getsubids";
    test::write_text(program, "#!/bin/sh\necho '" + listed + "'\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    const auto entered = isolation::enter_user_namespace(wanted, {program, "/bin/false", "/bin/false"});
    return entered ? "entered" : entered.error().detail();
}

}  // namespace

TEST_CASE("user namespace: of the uids of sandboxes those that are mapped count") {
    const test::TempFolder folder;
    const std::string first = std::to_string(base::k_first_host_uid);
    CHECK(mapped(folder, "         0          0 4294967295\n") == k_all);
    CHECK(mapped(folder, "0 1000 1\n" + first + " 100000 65535\n") == 65'535);
    CHECK(mapped(folder, "0 1000 1\n" + first + " 100000 65535\n2000000000 165535 1\n") == 65'535);
    CHECK(mapped(folder, "0 100000 65536\n") == 0);
    CHECK(mapped(folder, "") == 0);
    CHECK(mapped(folder, "no map\n") == 0);
}

TEST_CASE("user namespace: a program that is run has no descriptor of the server") {
    const test::TempFolder folder;
    const base::UniqueFd inherited(::fcntl(STDERR_FILENO, F_DUPFD, 200));  // without FD_CLOEXEC
    REQUIRE(inherited);
    const std::string is_there = "test -e /proc/self/fd/" + std::to_string(inherited.get());
    // The positive control: a shell of system(3) inherits it.
    REQUIRE(std::system(is_there.c_str()) == 0);
    const auto program = folder / "getsubids";
    const auto told = folder / "told";
    test::write_text(program, "#!/bin/sh\nif " + is_there + "; then echo leaked; else echo none; fi >" +
                                  told.string() + "\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    CHECK_FALSE(isolation::enter_user_namespace({}, {program, "/bin/false", "/bin/false"}).has_value());
    CHECK(test::read_text(told) == "none\n");
}

TEST_CASE("user namespace: a program that writes without end, or is none, leaves no child") {
    const test::TempFolder folder;
    const auto children = [] { return test::read_text("/proc/thread-self/children"); };
    const std::string before = children();
    const auto program = folder / "getsubids";
    test::write_text(program, "#!/bin/sh\nexec yes 0: user x y\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    CHECK_FALSE(isolation::enter_user_namespace({}, {program, "/bin/false", "/bin/false"}).has_value());
    CHECK_FALSE(
        isolation::enter_user_namespace({}, {folder / "none", "/bin/false", "/bin/false"}).has_value());
    CHECK(children() == before);
}

TEST_CASE("user namespace: what is missing is told, and the process stays where it is") {
    const test::TempFolder folder;
    const auto before = std::filesystem::read_symlink("/proc/self/ns/user");
    const auto none = isolation::enter_user_namespace({}, {folder / "none", "/bin/false", "/bin/false"});
    REQUIRE_FALSE(none.has_value());
    CHECK(none.error().code() == base::Errc::host_unsupported);
    CHECK(none.error().detail().ends_with(isolation::root_fix_line("apt-get install uidmap")));
    CHECK(refusal(folder, "").find("/etc/subuid") != std::string::npos);
    CHECK(refusal(folder, "0: user 100000 4096").find("/etc/subuid\nFIX: ") != std::string::npos);
    CHECK(refusal(folder, "0: user x y").find("/etc/subuid") != std::string::npos);
    CHECK(refusal(folder, "0: user 100000 65536").find("/bin/false failed") != std::string::npos);
    // Ids that workspaces have already are wanted, and no others.
    const isolation::SubordinateIds wanted{100'000, 100'000, 65'535};
    CHECK(refusal(folder, "0: user 100000 65536", wanted).find("/bin/false failed") != std::string::npos);
    CHECK(refusal(folder, "0: user 1 4\n1: user 90000 100000", wanted).find("/bin/false failed") !=
          std::string::npos);
    CHECK(refusal(folder, "0: user 200000 65536", wanted).find("give them back") != std::string::npos);
    CHECK(refusal(folder, "0: user 100000 65535", wanted).find("give them back") != std::string::npos);
    CHECK(std::filesystem::read_symlink("/proc/self/ns/user") == before);
}

}  // namespace user_namespace_test
