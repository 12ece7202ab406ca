// The helper's measurements of hostile trees, on this machine's file system.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <thread>

#include "../isolation/fixture.hpp"
#include "fs-guard/helper/progress.hpp"
#include "fs-guard/helper/tree_meter.hpp"
#include "fs-guard/helper_client.hpp"
#include "tests/support/many_files.hpp"
#include "tests/support/paths.hpp"

namespace tree_meter_test {

namespace {

using namespace atl;
namespace fs = std::filesystem;

constexpr std::uint64_t k_block = 512;

class Bench {
  public:
    explicit Bench(const fs::path& in = fs::temp_directory_path()) : data(in) {
        auto started = fs_guard::HelperClient::start(loop_.context.get_executor(), loop_.timers,
                                                     {test::build_path("bin/atoll-helper"), data.path()});
        REQUIRE(started.has_value());
        helper_ = std::move(*started);
        fs::create_directory(tree());
    }
    fs::path tree() const { return data / "t"; }
    base::Result<fs_guard::TreeSize> measure(const std::string& path = "t") {
        std::optional<base::Result<fs_guard::TreeSize>> outcome;
        helper_->measure(path, [&outcome](const auto& result) { outcome = result; });
        REQUIRE(loop_.run_until([&outcome] { return outcome.has_value(); }, std::chrono::seconds(60)));
        return *outcome;
    }
    // So that it is not removed by a recursion of the test's.
    void remove_tree() {
        std::optional<base::Result<void>> outcome;
        helper_->remove("t", std::chrono::hours(1), [&outcome](const base::Result<bool>& gone) {
            outcome = gone ? base::Result<void>() : gone.error();
        });
        REQUIRE(loop_.run_until([&outcome] { return outcome.has_value(); }, std::chrono::seconds(60)));
        CHECK(outcome->has_value());
    }

    test::TempFolder data;

  private:
    test::Loop loop_;
    std::unique_ptr<fs_guard::HelperClient> helper_;
};

std::uint64_t allocated(const fs::path& path) {
    struct stat about {};
    REQUIRE(::lstat(path.c_str(), &about) == 0);
    return static_cast<std::uint64_t>(about.st_blocks) * k_block;
}

void write_file(const fs::path& path, std::size_t bytes) {
    test::write_text(path, std::string(bytes, 'x'));
    // Blocks of a delayed allocation are counted when they are there.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(fd);
    ::close(fd);
}

}  // namespace

TEST_CASE("tree meter: files, folders, holes, several names, and what is no file") {
    Bench bench;
    const fs::path tree = bench.tree();
    fs::create_directories(tree / "a/b");
    write_file(tree / "a/b/file", 100'000);
    const int sparse = ::open((tree / "sparse").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    REQUIRE(::ftruncate(sparse, 1L << 40) == 0);
    ::close(sparse);
    REQUIRE(::mkfifo((tree / "fifo").c_str(), 0600) == 0);
    fs::create_symlink("/usr", tree / "link");
    fs::create_symlink("loop", tree / "loop");
    write_file(tree / "no \xff\xfe utf8\n", 10);
    std::uint64_t bytes = allocated(tree) + allocated(tree / "a") + allocated(tree / "a/b");
    for (const char* name : {"a/b/file", "sparse", "fifo", "link", "loop", "no \xff\xfe utf8\n"})
        bytes += allocated(tree / name);
    const auto once = bench.measure();
    REQUIRE(once.has_value());
    CHECK(once->bytes == bytes);
    CHECK(once->inodes == 9);
    CHECK(once->is_complete);
    for (int i = 0; i < 3; ++i)
        fs::create_hard_link(tree / "a/b/file", tree / ("name" + std::to_string(i)));
    const auto with_names = bench.measure();
    REQUIRE(with_names.has_value());
    CHECK(with_names->bytes >= bytes);
    CHECK(with_names->bytes <= bytes + 4096);  // the folder may have grown
}

TEST_CASE("tree meter: what is reserved and not yet written counts") {
    Bench bench;
    const int fd = ::open((bench.tree() / "file").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (::posix_fallocate(fd, 0, 8'000'000) != 0) {
        ::close(fd);
        SKIP("this file system has no fallocate");
    }
    ::close(fd);
    CHECK(bench.measure()->bytes >= 8'000'000);
}

TEST_CASE("tree meter: thousands of levels and of names") {
    Bench bench(test::folder_for_many_files());
    int at = ::open(bench.tree().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int level = 0; level < 2000; ++level) {
        REQUIRE(::mkdirat(at, "d", 0700) == 0);
        REQUIRE(::mkdirat(at, "e", 0700) == 0);
        const int next = ::openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ::close(at);
        at = next;
    }
    ::close(at);
    for (int i = 0; i < 20'000; ++i)
        REQUIRE(::mknod((bench.tree() / ("f" + std::to_string(i))).c_str(), S_IFREG | 0600, 0) == 0);
    const auto size = bench.measure();
    REQUIRE(size.has_value());
    CHECK(size->inodes == 1 + 4000 + 20'000);
    CHECK(size->is_complete);
    bench.remove_tree();
}

TEST_CASE("tree meter: a tree beyond a bound is told, and its walk ends there") {
    Bench bench;
    for (const char* name : {"1", "1/2", "1/2/3"})
        fs::create_directory(bench.tree() / name);
    write_file(bench.tree() / "1/2/3/file", 10);
    const auto is_too_large = [&](helper::TreeBounds bounds) {
        helper::begin_progress("1");
        helper::TreeMeter meter(bounds);
        const fs::path before = fs::current_path();
        fs::current_path(bench.data.path());
        REQUIRE(meter.measure("t"));
        fs::current_path(before);
        CHECK(meter.is_complete() != meter.is_too_large());
        return meter.is_too_large();
    };
    CHECK_FALSE(is_too_large({}));
    CHECK_FALSE(is_too_large({.entries = 5, .levels = 4}));
    CHECK(is_too_large({.entries = 4}));
    CHECK(is_too_large({.levels = 3}));
    CHECK(is_too_large({.processor_time = std::chrono::nanoseconds(0)}));
}

TEST_CASE("tree meter: more levels than the bound are told by the helper, without a walk to their end") {
    Bench bench;
    int at = ::open(bench.tree().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int level = 0; level < 3000; ++level) {
        REQUIRE(::mkdirat(at, "d", 0700) == 0);
        const int next = ::openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ::close(at);
        at = next;
    }
    ::close(at);
    const auto size = bench.measure();
    REQUIRE(size.has_value());
    CHECK(size->is_too_large);
    CHECK_FALSE(size->is_complete);
    CHECK(size->inodes == 2049);
    bench.remove_tree();
}

TEST_CASE("tree meter: a tree that changes is measured to an end") {
    Bench bench;
    std::atomic<bool> stop = false;
    std::thread stranger([&] {
        const std::string tree = bench.tree().string();
        for (int round = 0; !stop; ++round) {
            const std::string name = tree + "/" + std::to_string(round % 50);
            std::error_code ignored;
            fs::create_directories(name + "/a/b/c/d", ignored);
            fs::rename(name + "/a/b", tree + "/moved" + std::to_string(round % 7), ignored);
            fs::create_symlink("/", name + "/link", ignored);
            if (round % 3 == 0)
                fs::remove_all(name, ignored);
        }
    });
    for (int i = 0; i < 50; ++i)
        CHECK(bench.measure().has_value());
    stop = true;
    stranger.join();
}

TEST_CASE("tree meter: a folder that nobody may read is measured all the same") {
    Bench bench;
    write_file(bench.tree() / "locked/file", 100'000);
    fs::permissions(bench.tree() / "locked", fs::perms::none);
    CHECK(bench.measure()->bytes >= 100'000);
    fs::permissions(bench.tree() / "locked", fs::perms::owner_all);
}

TEST_CASE("tree meter: no symlink and no mount leads out, and no path") {
    Bench bench;
    write_file(bench.data / "outside/file", 1'000'000);
    fs::create_directory_symlink(bench.data / "outside", bench.tree() / "link");
    CHECK(bench.measure()->bytes < 100'000);
    CHECK_FALSE(bench.measure("t/link").has_value());
    CHECK_FALSE(bench.measure("../" + bench.data.path().filename().string() + "/outside").has_value());
    CHECK_FALSE(bench.measure((bench.data / "outside").string()).has_value());
    CHECK(bench.measure("outside")->bytes >= 1'000'000);
    fs::create_directory(bench.tree() / "m");
    if (::mount((bench.data / "outside").c_str(), (bench.tree() / "m").c_str(), nullptr, MS_BIND, nullptr) !=
        0)
        return;
    const auto beside = bench.measure();
    REQUIRE(::umount((bench.tree() / "m").c_str()) == 0);
    CHECK(beside->bytes < 100'000);
}

TEST_CASE("tree meter: what is not there cannot be measured") {
    Bench bench;
    const auto missing = bench.measure("nothing");
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().detail().find("No such file") != std::string::npos);
}

}  // namespace tree_meter_test
