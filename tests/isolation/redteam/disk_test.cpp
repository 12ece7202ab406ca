// Disk space that no walk finds: each attack runs first outside, where the disk fills and no folder shows it,
// then in a sandbox whose disk is only measured.
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>

#include "core/plain/unique_fd.hpp"
#include "tests/isolation/redteam/attack_run.hpp"
#include "tests/isolation/redteam/small_disk.hpp"
#include "tests/support/deadline.hpp"

namespace disk_test {

using namespace atl::test;
namespace fs = std::filesystem;
namespace base = atl::base;
using Clock = std::chrono::steady_clock;

namespace {

fs::path made(const fs::path& folder) {
    fs::create_directory(folder);
    return folder;
}

/// The part of a server's data on the small disk: all, or the workspaces alone (its folder `disk`).
enum class OnDisk : std::uint8_t { all, workspaces };

fs::path data_dir_on(const SmallDisk& disk, const TempDir& elsewhere, OnDisk what) {
    if (what == OnDisk::all)
        return disk.data_dir();
    fs::path data = made(elsewhere.path() / "data");
    if (::mount(disk.path().c_str(), made(data / "disk").c_str(), nullptr, MS_BIND, nullptr) != 0)
        throw std::runtime_error("cannot bind the disk");
    return data;
}

/// A server on a disk of its own, and a conversation that must not notice.
class FilledLab {
  public:
    explicit FilledLab(std::uint64_t megabytes, OnDisk what = OnDisk::all, const char* period_seconds = "5")
        : disk(megabytes),
          lab(Privilege::as_started, {"--disk-period", period_seconds}, data_dir_on(disk, elsewhere, what)),
          neighbour(lab) {
        if (neighbour.conversation()["enforcement"]["disk"] == "quota")
            SKIP("project quotas where temporary folders are: nothing is measured");
    }

    /// Waits until `megabytes` are free again; returns the free megabytes.
    std::uint64_t await_free(std::uint64_t megabytes) const {
        const auto until = Clock::now() + k_client_deadline;
        while (disk.free_mb() < megabytes && Clock::now() < until)
            ::poll(nullptr, 0, 20);
        return disk.free_mb();
    }

    SmallDisk disk;
    TempDir elsewhere;
    Lab lab;
    Sandbox neighbour;
};

/// For attacks outside of sandboxes.
fs::path outside_folder(const SmallDisk& disk) {
    fs::path folder = made(disk.path() / "outside");
    fs::permissions(folder, fs::perms(0777));
    return folder;
}

/// The size of the folder by a walk.
std::uint64_t megabytes_in(const fs::path& folder) {
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file())
            bytes += entry.file_size();
    }
    return bytes / (1024UL * 1024);
}

/// The server's own walk of the folder, by a helper of the same program.
Json measured(const fs::path& folder) {
    const std::string command = R"(cd ')" + folder.string() +
                                R"(' && echo '{"id":1,"op":"measure","path":"."}' | ')" +
                                (binaries(Privilege::as_started) / "atoll-helper").string() + "'";
    const std::unique_ptr<FILE, int (*)(FILE*)> helper(::popen(command.c_str(), "r"), ::pclose);
    REQUIRE(helper);
    std::array<char, 4096> line{};
    REQUIRE(std::fgets(line.data(), line.size(), helper.get()) != nullptr);
    const Json answer = Json::parse(line.data());
    REQUIRE(answer["ok"] == true);
    return answer;
}

constexpr std::uint64_t k_room_for_turns_mb = 64;

/// False where its message was refused.
bool is_well(Sandbox& sandbox) {
    try {
        return sandbox.is_well();
    } catch (const std::exception&) {
        return false;
    }
}

/// Runs the attack beside the neighbour to the end of its sandbox, for its disk limit: the event. How much it
/// took until then is a rate of the machine, which the benchmarks measure. `afterwards` goes on with it.
Json run_inside(FilledLab& filled, const Words& words, const Json& request,
                void (*afterwards)(FilledLab&, Sandbox&) = nullptr) {
    Json end;
    int seen_well = 0;
    AttackInside attack(filled.lab, words, request);
    const std::string id = attack.sandbox().id();
    const auto until = Clock::now() + k_attack_limit;
    while (filled.lab.api.get(id)["status"] == "active" && Clock::now() < until) {
        // Its turns go on while there is room for a cut of logs, and no look at the disk is a change of its
        // state.
        if (filled.disk.free_mb() > k_room_for_turns_mb)
            seen_well += is_well(filled.neighbour) ? 1 : 0;
        CHECK(filled.lab.api.get(filled.neighbour.id())["status"] == "active");
    }
    CHECK(seen_well > 0);
    CHECK(eventually([&] { return is_well(filled.neighbour); }));
    const Json conversation = filled.lab.api.get(id);
    INFO(filled.lab.server.log());
    CHECK(conversation["status"] == "paused");
    CHECK(conversation["statusReason"] == "disk");
    for (const auto& event : filled.lab.api.events(id)) {
        if (event["type"] == "sandbox_terminated")
            end = event["data"];
    }
    REQUIRE(end.is_object());
    REQUIRE(end["class"] == "disk_limit");
    if (afterwards != nullptr)
        afterwards(filled, attack.sandbox());
    return end;
}

/// Removes them as their user can, in several starts if the first is too short.
void remove_folders(FilledLab& filled, Sandbox& sandbox) {
    std::string status;
    for (int starts = 0; starts < 3 && status != "active"; ++starts) {
        sandbox.run("rm -rf /workspace/d");
        status = filled.lab.api.get(sandbox.id())["status"];
    }
    INFO(filled.lab.server.log());
    CHECK(sandbox.run("test ! -e /workspace/d").exit_code == 0);
}

}  // namespace

TEST_CASE("Deleted files that a sandbox keeps open, mapped or in flight count against its disk limit",
          "[redteam][disk]") {
    const std::string attack = GENERATE("deleted-files", "deleted-mappings", "files-in-flight");
    INFO(attack);
    FilledLab filled(1024);
    const std::uint64_t free_before = filled.disk.free_mb();
    {
        // The control: outside, the disk loses space that no folder shows.
        const fs::path folder = outside_folder(filled.disk);
        AttackOutside outside({attack, folder.string(), "--max-mb", "100"}, rlimits_of(filled.neighbour));
        CHECK(outside.loot()["mb"] == 100);
        CHECK(filled.disk.free_mb() + 95 < free_before);
        CHECK(megabytes_in(folder) == 0);
    }
    REQUIRE(filled.await_free(free_before - 10) >= free_before - 10);
    const Json end = run_inside(filled, {attack, "--max-mb", "900"}, {{"limits", {{"diskMb", 64}}}});
    const std::string detail = end["detail"];
    INFO(detail);
    CHECK((detail.find("deleted files") != std::string::npos ||
           detail.find("keep open files where they cannot be counted") != std::string::npos));
    CHECK(filled.await_free(free_before - 64) >= free_before - 64);
    CHECK(filled.neighbour.is_well());
}

TEST_CASE("Deleted files count also where only the workspaces are on a file system of their own",
          "[redteam][disk]") {
    FilledLab filled(1024, OnDisk::workspaces);
    {
        // The control: outside, no walk finds them.
        const fs::path folder = outside_folder(filled.disk);
        AttackOutside outside({"deleted-files", folder.string(), "--max-mb", "100"},
                              rlimits_of(filled.neighbour));
        CHECK(outside.loot()["mb"] == 100);
        CHECK(megabytes_in(folder) == 0);
    }
    const Json end = run_inside(filled, {"deleted-files", "--max-mb", "900"}, {{"limits", {{"diskMb", 64}}}});
    CHECK(end["detail"].get<std::string>().find("deleted files") != std::string::npos);
    CHECK(filled.neighbour.is_well());
    ::umount2((filled.lab.server.data_dir() / "disk").c_str(), MNT_DETACH);
}

TEST_CASE("Deleted files that only rules of Landlock would keep are not to be had", "[redteam][disk]") {
    FilledLab filled(1024);
    const std::uint64_t free_before = filled.disk.free_mb();
    {
        // The control: outside, the disk loses space that no folder, descriptor or mapping shows.
        const fs::path folder = outside_folder(filled.disk);
        AttackOutside outside({"landlock-rules", folder.string(), "--max-mb", "100"},
                              rlimits_of(filled.neighbour));
        if (outside.loot().refused.contains("rules"))
            SKIP("no control: the kernel has no Landlock");
        CHECK(outside.loot()["mb"] == 100);
        CHECK(filled.disk.free_mb() + 95 < free_before);
        CHECK(megabytes_in(folder) == 0);
    }
    REQUIRE(filled.await_free(free_before - 10) >= free_before - 10);
    AttackInside attack(filled.lab, {"landlock-rules", "--max-mb", "900"}, {{"limits", {{"diskMb", 64}}}});
    CHECK(attack.loot()["mb"] == 0);
    CHECK(attack.loot().refused.at("rules") == "ENOSYS");
    CHECK(filled.disk.free_mb() + 10 > free_before);
    CHECK(filled.neighbour.is_well());
}

TEST_CASE("A folder that is moved around the walks counts against its sandbox's disk limit",
          "[redteam][disk]") {
    FilledLab filled(1024);
    const std::uint64_t free_before = filled.disk.free_mb();
    {
        // The control: a walk beside the attack misses the folder.
        const fs::path folder = outside_folder(filled.disk);
        AttackOutside outside({"moved-around", folder.string(), "--max-mb", "100"},
                              rlimits_of(filled.neighbour));
        CHECK(outside.loot()["mb"] == 100);
        CHECK(filled.disk.free_mb() + 95 < free_before);
        std::uint64_t least_found = 100;
        const auto until = Clock::now() + k_attack_limit;
        while (least_found > 50 && Clock::now() < until)
            least_found =
                std::min(least_found, measured(folder)["bytes"].get<std::uint64_t>() / (1024UL * 1024));
        CHECK(least_found < 50);
    }
    const Json end = run_inside(filled, {"moved-around", "--max-mb", "900"}, {{"limits", {{"diskMb", 64}}}});
    CHECK(end["peakBytes"] > 64UL * 1024 * 1024);
    CHECK(filled.neighbour.is_well());
}

TEST_CASE("A chain of folders that is too deep to be measured ends its sandbox, and can be cleaned up",
          "[redteam][disk]") {
    // A start has a period for the cleaning up, on a slow machine, too.
    FilledLab filled(1024, OnDisk::all, "300");
    {
        // The control: outside, nobody ends it, and the walk ends at its bound.
        const fs::path folder = outside_folder(filled.disk);
        AttackOutside outside({"deep-folders", folder.string(), "--max-count", "30000"},
                              rlimits_of(filled.neighbour));
        CHECK(outside.loot()["folders"] == 30'000);
        const Json answer = measured(folder);
        CHECK(answer["tooLarge"] == true);
        CHECK(answer["inodes"] < 3'000);
    }
    const Json end = run_inside(filled, {"deep-folders", "--max-count", "300000"},
                                {{"limits", {{"diskMb", 1024}}}}, checks_bounds() ? remove_folders : nullptr);
    CHECK(end["detail"].get<std::string>().find("too large to be measured") != std::string::npos);
    CHECK(filled.disk.free_mb() > 512);
    CHECK(filled.neighbour.is_well());
}

// It makes 430,000 names, and waits for the next walk.
TEST_CASE("Names of empty files count against their sandbox's disk limit", "[redteam][disk][full]") {
    FilledLab filled(1024);
    {
        // The control: outside, they are there, and no file has a byte.
        const fs::path folder = outside_folder(filled.disk);
        AttackOutside outside({"many-names", folder.string(), "--max-count", "100000"},
                              rlimits_of(filled.neighbour));
        CHECK(outside.loot()["names"] == 100'000);
        CHECK(megabytes_in(folder) == 0);
        CHECK(measured(folder)["inodes"] > 100'000);
    }
    const Json end =
        run_inside(filled, {"many-names", "--max-count", "330000"}, {{"limits", {{"diskMb", 64}}}});
    CHECK(end["detail"].get<std::string>().find("more than the disk limit of 64 MB") != std::string::npos);
    CHECK(filled.neighbour.is_well());
}

TEST_CASE("A sandbox that fills the disk with deleted files is ended for the reserve, and the room is back",
          "[redteam][disk]") {
    FilledLab filled(200);
    const std::uint64_t free_before = filled.disk.free_mb();
    const Json end =
        run_inside(filled, {"deleted-files", "--max-mb", "2000"}, {{"limits", {{"diskMb", 4096}}}});
    const std::string detail = end["detail"];
    INFO(detail);
    CHECK(detail.find("nearly full") != std::string::npos);
    CHECK(detail.find("deleted files") != std::string::npos);
    CHECK(filled.await_free(free_before - 30) >= free_before - 30);
    CHECK(filled.neighbour.is_well());
    // The server looks at the disk 20 times a second.
    const auto until = Clock::now() + k_client_deadline;
    int status = 0;
    while (status != 201 && Clock::now() < until) {
        status = filled.lab.api.http().request("POST", "/v1/conversations", R"({"agent":"echo"})").status;
        ::poll(nullptr, 0, 20);
    }
    CHECK(status == 201);
}

TEST_CASE("Many small workspaces of one user on a full disk end none of a neighbour's",
          "[redteam][drawn][disk]") {
    // The control: without an owner each is a user of its own, and the neighbour's is the largest.
    const bool is_one_user = GENERATE(false, true);
    INFO(is_one_user);
    const SmallDisk disk(400);
    Lab lab(Privilege::as_started, {"--disk-period", "300"}, disk.data_dir());
    const auto request = [&](const char* user) {
        Json wanted{{"limits", {{"diskMb", 4096}}}};
        if (is_one_user)
            wanted["userId"] = user;
        return wanted;
    };
    Sandbox neighbour(lab, request("neighbour"));
    (void)neighbour.output("head -c 12M /dev/zero > f");
    std::list<Sandbox> many;
    for (int i = 0; i < 6; ++i)
        (void)many.emplace_back(lab, request("greedy")).output("head -c 8M /dev/zero > f");
    // Below the reserve of 5 %, and above half of it.
    const std::string filled = (disk.path() / "filled").string();
    const std::string fill = "fallocate -l " + std::to_string(disk.free_mb() - 15) + "M '" + filled + "'";
    REQUIRE(std::system(fill.c_str()) == 0);
    const auto is_ended = [&](const Sandbox& one) { return lab.api.get(one.id())["status"] != "active"; };
    const auto count_ended = [&] { return std::ranges::count_if(many, is_ended); };
    REQUIRE(eventually([&] { return is_ended(neighbour) || count_ended() > 0; }));
    CHECK(is_ended(neighbour) == !is_one_user);
    CHECK(count_ended() == (is_one_user ? 1 : 0));
}

TEST_CASE("A chain of folders that is being removed makes no stranger's DELETE wait", "[redteam][disk]") {
    Lab lab(Privilege::as_started);
    const auto made_for = [&](const char* user) {
        return lab.api.call(201, "POST", "/v1/conversations",
                            Json{{"agent", "echo"}, {"userId", user}}.dump());
    };
    const Json greedy = made_for("greedy");
    const Json stranger = made_for("stranger");
    const fs::path trash = lab.server.data_dir() / "trash";
    const auto is_being_removed = [&](const Json& of) {
        const std::string id = of["sandboxId"];
        return std::ranges::any_of(fs::directory_iterator(trash), [&](const auto& entry) {
            return entry.path().filename().string().starts_with(id);
        });
    };
    // By the host, which is quicker.
    const std::string workspace =
        (lab.server.data_dir() / "workspaces" / greedy["sandboxId"].get<std::string>()).string();
    base::UniqueFd at(::open(workspace.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < 20'000; ++i) {
        REQUIRE(::mkdirat(at.get(), "d", 0700) == 0);
        at = base::UniqueFd(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    at.reset();
    for (const Json& one : {greedy, stranger})
        lab.api.call(204, "DELETE", "/v1/conversations/" + one["id"].get<std::string>());
    CHECK(is_being_removed(greedy));  // the control: the chain takes long
    REQUIRE(eventually([&] { return !is_being_removed(stranger); }));
    CHECK(is_being_removed(greedy));
    CHECK(eventually([&] { return fs::is_empty(trash); }));
}

}  // namespace disk_test
