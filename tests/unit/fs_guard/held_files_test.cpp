// The deleted files that the helper finds in this process, as it would in a sandbox.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <optional>
#include <thread>

#include "../isolation/fixture.hpp"
#include "fs-guard/helper_client.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/server_process.hpp"

namespace held_files_test {

namespace {

using namespace atl;
namespace fs = std::filesystem;

constexpr std::size_t k_mb = 1024UL * 1024;

class Bench {
  public:
    Bench() {
        auto started = fs_guard::HelperClient::start(loop_.context.get_executor(), loop_.timers,
                                                     {test::build_path("bin/atoll-helper"), data.path()});
        REQUIRE(started.has_value());
        helper_ = std::move(*started);
        fs::create_directory(data / "t");
    }
    fs_guard::Inspection inspect(const fs_guard::Members& members = {::getpid(), {::getpid()}}) {
        std::optional<base::Result<fs_guard::Inspection>> outcome;
        helper_->inspect("t", members, [&outcome](const auto& result) { outcome = result; });
        REQUIRE(loop_.run_until([&outcome] { return outcome.has_value(); }, std::chrono::seconds(60)));
        REQUIRE(outcome->has_value());
        return **outcome;
    }
    /// A file of a megabyte, open and already deleted.
    base::UniqueFd deleted_file() const {
        const fs::path path = data / "t/file";
        base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        REQUIRE(file);
        const std::string text(k_mb, 'x');
        REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(k_mb));
        REQUIRE(::unlink(path.c_str()) == 0);
        return file;
    }

    test::TempFolder data;

  private:
    test::Loop loop_;
    std::unique_ptr<fs_guard::HelperClient> helper_;
};

void send(int socket, int file) {
    char byte = 'x';
    iovec content{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
    REQUIRE(::sendmsg(socket, &message, 0) == 1);
}

}  // namespace

TEST_CASE("held files: a deleted file counts once, however many descriptors lead to it, until it is closed") {
    Bench bench;
    CHECK(bench.inspect().held.bytes == 0);
    {
        const base::UniqueFd file = bench.deleted_file();
        const base::UniqueFd again(::dup(file.get()));
        const auto found = bench.inspect();
        CHECK(found.held.bytes >= k_mb);
        CHECK(found.held.bytes < 2 * k_mb);
        CHECK(found.held.inodes == 1);
        CHECK(found.tree.bytes < k_mb);
        CHECK(found.out_of_sight == 0);
    }
    CHECK(bench.inspect().held.inodes == 0);
}

TEST_CASE("held files: a file that has a name, or is on another file system, is none") {
    Bench bench;
    test::write_text(bench.data / "t/named", std::string(k_mb, 'x'));
    const base::UniqueFd named(::open((bench.data / "t/named").c_str(), O_RDONLY | O_CLOEXEC));
    const base::UniqueFd elsewhere(::memfd_create("elsewhere", MFD_CLOEXEC));
    REQUIRE(::ftruncate(elsewhere.get(), k_mb) == 0);
    const auto found = bench.inspect();
    CHECK(found.held.inodes == 0);
    CHECK(found.tree.bytes >= k_mb);
}

TEST_CASE("held files: a mapping holds a deleted file without a descriptor") {
    if (::geteuid() != 0)
        SKIP("only root may follow map_files");
    Bench bench;
    base::UniqueFd file = bench.deleted_file();
    void* const mapping = ::mmap(nullptr, k_mb, PROT_READ, MAP_SHARED, file.get(), 0);
    REQUIRE(mapping != MAP_FAILED);
    file.reset();
    const auto found = bench.inspect();
    CHECK(found.held.bytes >= k_mb);
    CHECK(found.held.inodes == 1);
    ::munmap(mapping, k_mb);
    CHECK(bench.inspect().held.inodes == 0);
}

TEST_CASE("held files: descriptors in flight are seen, and their files are not") {
    Bench bench;
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const base::UniqueFd sender(ends[0]);
    base::UniqueFd receiver(ends[1]);
    base::UniqueFd file = bench.deleted_file();
    send(sender.get(), file.get());
    file.reset();
    const auto found = bench.inspect();
    CHECK(found.held.inodes == 0);
    CHECK(found.out_of_sight == 1);
    receiver.reset();
    CHECK(bench.inspect().out_of_sight == 0);
}

TEST_CASE("held files: a thread with a table of its own holds what is in it") {
    Bench bench;
    std::atomic<bool> holds = false;
    std::atomic<bool> ends = false;
    std::thread other([&] {
        if (::unshare(CLONE_FILES) != 0)
            return holds.store(true);
        const base::UniqueFd file = bench.deleted_file();
        holds = true;
        ends.wait(false);
    });
    while (!holds)
        std::this_thread::yield();
    CHECK(bench.inspect().held.inodes == 1);
    ends = true;
    ends.notify_all();
    other.join();
    CHECK(bench.inspect().held.inodes == 0);
}

TEST_CASE(
    "held files: without a group's list all below the first process are looked at, and what they wrote") {
    Bench bench;
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const base::UniqueFd told(ends[0]);
    base::UniqueFd teller(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        const pid_t grandchild = ::fork();
        if (grandchild == 0) {
            const std::string text(k_mb, 'x');
            const fs::path path = bench.data / "t/of-grandchild";
            const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            const bool done = ::write(file, text.data(), text.size()) > 0 && ::unlink(path.c_str()) == 0;
            (void)!::write(teller.get(), done ? "y" : "n", 1);
            ::pause();
        }
        ::waitpid(grandchild, nullptr, 0);
        ::_exit(0);
    }
    char done = 'n';
    REQUIRE(::read(told.get(), &done, 1) == 1);
    REQUIRE(done == 'y');
    const auto found = bench.inspect({child, {}});
    CHECK(found.held.inodes == 1);
    CHECK(found.held.bytes >= k_mb);
    // Only its own table is looked at where the group names one.
    CHECK(bench.inspect({child, {child}}).held.inodes == 0);
    for (const auto& pid : test::descendants(child))
        ::kill(pid, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(bench.inspect({child, {child}}).held.inodes == 0);
}

}  // namespace held_files_test
