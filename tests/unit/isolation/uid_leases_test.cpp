#include "core/isolation/uid_leases.hpp"

#include <malloc.h>

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "core/isolation/uid_set.hpp"
#include "fixture.hpp"

namespace uid_leases_test {

namespace {

using namespace atl;
using isolation::HostUidLeases;

struct Host {
    test::TempFolder folder;

    std::unique_ptr<HostUidLeases> server(const std::string& name, const std::string& instance,
                                          std::uint32_t blocks = 4, std::uint32_t uids = 4) const {
        test::write_text(folder / name / "instance-id", instance + "\n");
        auto leases = HostUidLeases::open({folder / "leases", folder / name, instance, blocks, uids});
        REQUIRE(leases.has_value());
        return std::move(*leases);
    }
    std::size_t lease_files() const {
        std::size_t count = 0;
        for (const auto& entry : std::filesystem::directory_iterator(folder / "leases"))
            count += entry.path().filename().string().starts_with("block-") ? 1 : 0;
        return count;
    }
};

}  // namespace

TEST_CASE("two servers on one host never hand out the same uid") {
    const Host host;
    const auto a = host.server("a", "ia");
    const auto b = host.server("b", "ib");
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 8; ++i) {
        CHECK(seen.insert(a->acquire().value()).second);
        CHECK(seen.insert(b->acquire().value()).second);
    }
    CHECK(*seen.begin() == base::k_first_host_uid);
    CHECK(*seen.rbegin() < base::k_first_host_uid + 16);
}

TEST_CASE("a restarted server finds its blocks and hands out no uid that is in use") {
    const Host host;
    const std::uint32_t first = host.server("a", "ia")->acquire().value();
    const auto again = host.server("a", "ia");
    again->adopt(first);
    for (int i = 0; i < 3; ++i)
        CHECK(again->acquire().value() != first);
    CHECK(host.lease_files() == 1);
}

TEST_CASE("a uid that was given back is handed out again, but not at once") {
    const Host host;
    const auto leases = host.server("a", "ia");
    const std::uint32_t uid = leases->acquire().value();
    leases->release(uid);
    CHECK(leases->acquire().value() != uid);
    for (int i = 0; i < 3; ++i)
        (void)leases->acquire();
    CHECK(host.lease_files() == 1);
}

TEST_CASE("a full host refuses another uid") {
    const Host host;
    const auto leases = host.server("a", "ia", 1, 2);
    CHECK(leases->acquire().has_value());
    CHECK(leases->acquire().has_value());
    CHECK(leases->acquire().error().code() == base::Errc::capacity);
}

TEST_CASE("a block is taken over once its holder's data directory has another instance") {
    const Host host;
    (void)host.server("old", "io", 1)->acquire();
    const auto fresh = host.server("new", "in", 1);
    CHECK(fresh->acquire().error().code() == base::Errc::capacity);
    test::write_text(host.folder / "old/instance-id", "another\n");
    CHECK(fresh->acquire().has_value());
    CHECK(test::read_text(host.folder / "leases/block-0") == (host.folder / "new").string() + "\nin\n");
}

TEST_CASE("a block of a data directory that is gone is taken over only when no fresh one is left") {
    const Host host;
    (void)host.server("old", "io", 2)->acquire();
    std::filesystem::remove_all(host.folder / "old");
    const auto fresh = host.server("new", "in", 2);
    CHECK(fresh->acquire().value() >= base::k_first_host_uid + 4);
    for (int i = 0; i < 3; ++i)
        (void)fresh->acquire();
    CHECK(fresh->acquire().value() < base::k_first_host_uid + 4);
}

TEST_CASE("an adopted uid whose lease file is missing is leased again") {
    const Host host;
    const auto leases = host.server("a", "ia");
    leases->adopt(base::k_first_host_uid + 5);
    CHECK(std::filesystem::exists(host.folder / "leases/block-1"));
    for (int i = 0; i < 3; ++i)
        CHECK(leases->acquire().value() != base::k_first_host_uid + 5);
}

TEST_CASE("a uid that another server leases is never taken on, however often it is tried") {
    const Host host;
    const auto original = host.server("a", "ia");
    const std::uint32_t uid = original->acquire().value();
    // A copy of the data directory, with an id of its own.
    const auto copy = host.server("copy", "ic");
    CHECK_FALSE(copy->adopt(uid));
    CHECK_FALSE(copy->adopt(uid));
    CHECK_FALSE(copy->adopt(uid + 1));
    CHECK(test::read_text(host.folder / "leases/block-0") == (host.folder / "a").string() + "\nia\n");
    for (int i = 0; i < 4; ++i)
        CHECK(copy->acquire().value() >= base::k_first_host_uid + 4);
    CHECK(original->adopt(uid + 2));
}

TEST_CASE("a uid that another server leases is not taken on either where nothing can be leased") {
    const Host host;
    const std::uint32_t uid = host.server("a", "ia")->acquire().value();
    const auto copy = host.server("copy", "ic");
    // The lock file cannot be opened, as where the disk is full or the directory is read-only.
    std::filesystem::remove(host.folder / "leases/lock");
    std::filesystem::create_directory(host.folder / "leases/lock");
    CHECK_FALSE(copy->adopt(uid));
    CHECK(copy->adopt(uid + 4));  // of a block that nobody has
    CHECK(host.server("a", "ia")->adopt(uid));
}

TEST_CASE("uids of a data directory that moved, or got another id, stay with it") {
    const Host host;
    const std::uint32_t uid = host.server("a", "ia")->acquire().value();
    std::filesystem::rename(host.folder / "a", host.folder / "moved");
    const auto moved = host.server("moved", "ia");
    CHECK(moved->adopt(uid));
    const auto renewed = host.server("moved", "another");
    CHECK(renewed->adopt(uid));
    CHECK(test::read_text(host.folder / "leases/block-0") ==
          (host.folder / "moved").string() + "\nanother\n");
    CHECK(renewed->acquire().value() != uid);
}

TEST_CASE("leftovers of a lease that was cut short do no harm") {
    const Host host;
    test::write_text(host.folder / "leases/new-abc", "half");
    test::write_text(host.folder / "leases/block-x", "not a number");
    test::write_text(host.folder / "leases/block-99", "beyond the range");
    CHECK(host.server("a", "ia")->acquire().value() == base::k_first_host_uid);
}

TEST_CASE("a lease directory that cannot be made is an error with its name") {
    const auto leases = HostUidLeases::open({"/proc/atoll-uids", "/tmp", "i", 1, 1});
    REQUIRE_FALSE(leases.has_value());
    CHECK(leases.error().code() == base::Errc::storage_failed);
    CHECK(leases.error().detail().find("/proc/atoll-uids") != std::string::npos);
    CHECK(leases.error().detail().ends_with("\nFIX: atolld --uid-lease-dir /tmp/uids ..."));
}

TEST_CASE("a uid whose files are still being removed is not handed out, whoever releases it") {
    const Host host;
    const std::uint32_t left = host.server("a", "ia")->acquire().value();
    const auto leases = host.server("a", "ia");
    leases->quarantine({left});
    leases->adopt(left);
    leases->release(left);
    for (int i = 0; i < 8; ++i)
        CHECK(leases->acquire().value() != left);
    leases->lift_quarantine();
    bool again = false;
    for (int i = 0; i < 8 && !again; ++i)
        again = leases->acquire().value() == left;
    CHECK(again);
}

TEST_CASE("a uid whose files stay without a sandbox is never handed out, and its block stays leased") {
    const Host host;
    const auto leases = host.server("a", "ia");
    const std::uint32_t held = base::k_first_host_uid + 5;
    leases->hold({held, 0});
    CHECK(std::filesystem::exists(host.folder / "leases/block-1"));
    leases->adopt(held);
    leases->release(held);
    leases->lift_quarantine();
    for (int i = 0; i < 6; ++i)
        CHECK(leases->acquire().value() != held);
}

TEST_CASE("a uid that two sandboxes of an old database name is free only when both have released it") {
    const Host host;
    const auto leases = host.server("a", "ia", 1, 2);
    const std::uint32_t uid = leases->acquire().value();
    leases->adopt(uid);
    leases->release(uid);
    CHECK(leases->acquire().value() != uid);
    CHECK_FALSE(leases->acquire().has_value());
    leases->release(uid);
    CHECK(leases->acquire().value() == uid);
}

TEST_CASE("a server whose instance id vanished leases no block twice, and says when none is left") {
    const Host host;
    const auto leases = host.server("a", "ia", 2, 4);
    CHECK(leases->acquire().has_value());
    std::filesystem::remove(host.folder / "a" / "instance-id");
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 7; ++i)
        CHECK(seen.insert(leases->acquire().value()).second);
    CHECK(leases->acquire().error().code() == base::Errc::capacity);
    leases->release(*seen.begin());
    CHECK(leases->acquire().value() == *seen.begin());
}

TEST_CASE("a lease file that was removed under the server is made again, and its block is no new one") {
    const Host host;
    const auto leases = host.server("a", "ia", 2, 4);
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 4; ++i)
        CHECK(seen.insert(leases->acquire().value()).second);
    std::filesystem::remove(host.folder / "leases/block-0");
    for (int i = 0; i < 4; ++i)
        CHECK(seen.insert(leases->acquire().value()).second);
    CHECK(host.lease_files() == 2);
    CHECK(leases->acquire().error().code() == base::Errc::capacity);
}

TEST_CASE("a million uids in use take little memory, and a free one is found at once") {
    const Host host;
    constexpr std::uint32_t k_used = 1'000'000;
    const auto leases = host.server("a", "ia", 1, k_used + 2);
    const std::size_t before = ::mallinfo2().uordblks;
    for (std::uint32_t i = 0; i < k_used; ++i)
        leases->adopt(base::k_first_host_uid + i);
    CHECK(::mallinfo2().uordblks < before + 512UL * 1024);
    CHECK(leases->acquire().value() == base::k_first_host_uid + k_used);
    CHECK(leases->acquire().value() == base::k_first_host_uid + k_used + 1);
    CHECK(leases->acquire().error().code() == base::Errc::capacity);
    leases->release(base::k_first_host_uid + 123'456);
    CHECK(leases->acquire().value() == base::k_first_host_uid + 123'456);
}

TEST_CASE("a set of uids finds the next one that is not in it") {
    isolation::UidSet set;
    CHECK(set.first_absent(7, 9) == 7);
    CHECK(set.first_absent(9, 9) == 9);
    for (std::uint32_t uid = 60; uid < 10'000; ++uid)
        CHECK(set.insert(uid));
    CHECK_FALSE(set.insert(4096));
    CHECK(set.first_absent(0, 20'000) == 0);
    CHECK(set.first_absent(60, 20'000) == 10'000);
    CHECK(set.first_absent(9'999, 20'000) == 10'000);
    CHECK(set.first_absent(60, 500) == 500);
    set.erase(4095);
    set.erase(4097);
    CHECK(set.contains(4096));
    CHECK_FALSE(set.contains(4095));
    CHECK(set.first_absent(100, 20'000) == 4095);
    CHECK(set.first_absent(4096, 20'000) == 4097);
    CHECK(set.first_absent(4098, 4'294'967'295) == 10'000);
    set.clear();
    CHECK(set.first_absent(60, 20'000) == 60);
}

TEST_CASE("private uids are those that the user namespace maps, shared ones are the server's") {
    const Host host;
    using isolation::UidMode;
    const isolation::UidLeaseConfig config{host.folder / "leases", host.folder / "a", "ia"};
    test::write_text(host.folder / "a" / "instance-id", "ia\n");
    test::write_text(host.folder / "none", "0 0 1\n");
    const auto none = isolation::open_uids(UidMode::private_uid, config, host.folder / "none");
    REQUIRE(none.has_error());
    CHECK(none.error().code() == base::Errc::host_unsupported);
    CHECK(none.error().detail().find("map 4096 or more") != std::string::npos);
    const std::string first = std::to_string(base::k_first_host_uid);
    test::write_text(host.folder / "one", first + " 100000 4096\n");
    const auto one = isolation::open_uids(UidMode::private_uid, config, host.folder / "one");
    REQUIRE(one.has_value());
    for (std::uint32_t i = 0; i < base::k_host_uids_per_block; ++i)
        REQUIRE((*one)->acquire().has_value());
    CHECK((*one)->acquire().error().code() == base::Errc::capacity);
    const auto shared = isolation::open_uids(UidMode::shared, config, host.folder / "none");
    REQUIRE(shared.has_value());
    CHECK((*shared)->acquire().value() == 0);
    CHECK((*shared)->acquire().value() == 0);
    CHECK(isolation::own_uid_mode() == (test::is_root() ? UidMode::private_uid : UidMode::shared));
}

}  // namespace uid_leases_test
