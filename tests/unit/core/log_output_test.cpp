// A log that nobody reads. A write that waited would hang these tests: they have one thread.
#include "core/base/log_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/logger.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "tests/support/deadline.hpp"

namespace log_output_test {

namespace {

using namespace atl;
using base::UniqueFd;

struct Ends {
    UniqueFd reader;
    UniqueFd writer;

    std::string read_all() const {
        std::string all;
        std::array<char, 4096> buffer{};
        pollfd ready{reader.get(), POLLIN, 0};
        while (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0)
            all.append(buffer.data(),
                       static_cast<std::size_t>(::read(reader.get(), buffer.data(), buffer.size())));
        return all;
    }
};

Ends pipe_ends() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Ends socket_ends() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// A terminal whose other side is never read, as one that is stopped.
Ends terminal_ends() {
    UniqueFd reader(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(::grantpt(reader.get()) == 0);
    REQUIRE(::unlockpt(reader.get()) == 0);
    UniqueFd writer(::open(::ptsname(reader.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(writer);
    return {std::move(reader), std::move(writer)};
}

/// Makes this thread act as another user, who cannot open such a pipe again (setfsuid(2)).
class Stranger {
  public:
    Stranger() { ::setfsuid(65534); }
    ~Stranger() { ::setfsuid(::geteuid()); }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
};

void check_never_waits(const Ends& ends) {
    const int flags = ::fcntl(ends.writer.get(), F_GETFL);
    const std::uint64_t dropped_before = base::dropped_log_lines();
    spdlog::logger logger("test", std::make_shared<base::LogSink>(ends.writer.get()));
    logger.set_pattern("%v");
    constexpr int k_lines = 20'000;
    for (int i = 0; i < k_lines; ++i)
        logger.info("evt=line number={} {}", i, std::string(60, 'x'));
    const std::uint64_t dropped = base::dropped_log_lines() - dropped_before;
    CHECK(dropped > 0);
    CHECK(dropped < k_lines);
    // The flags are unchanged: other programs can share this open file description (open(2)).
    CHECK(::fcntl(ends.writer.get(), F_GETFL) == flags);
    std::string all = ends.read_all();
    CHECK(all.find("evt=line number=0 ") == 0);
    logger.info("evt=line number=last");
    all += ends.read_all();
    // A line of the log tells how many lines are missing, at the place where they are missing.
    std::uint64_t told = 0;
    int next = 0;
    std::istringstream lines(all);
    bool is_last_there = false;
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        CHECK_FALSE(is_last_there);
        std::uint64_t number = 0;
        if (std::sscanf(line.c_str(), "evt=log_dropped lines=%lu", &number) == 1) {
            told += number;
            next += static_cast<int>(number);
        } else if (line.starts_with("evt=line number=last")) {
            is_last_there = true;
        } else {
            REQUIRE(std::sscanf(line.c_str(), "evt=line number=%lu x", &number) == 1);
            CHECK(number == static_cast<std::uint64_t>(next++));
        }
    }
    CHECK(is_last_there);
    CHECK(next == k_lines);
    CHECK(told == dropped);
}

}  // namespace

TEST_CASE("A log that nobody reads makes nobody wait: what does not fit is dropped, counted and told later") {
    SECTION("a pipe") {
        check_never_waits(pipe_ends());
    }
    SECTION("a socket, as of the journal") {
        check_never_waits(socket_ends());
    }
    SECTION("a pipe that cannot be opened again") {
        if (::geteuid() != 0)
            SKIP("needs root to be a stranger to the pipe");
        const Ends ends = pipe_ends();
        const Stranger stranger;
        const std::string path = "/proc/self/fd/" + std::to_string(ends.writer.get());
        REQUIRE_FALSE(UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)));
        check_never_waits(ends);
    }
    SECTION("a terminal") {
        check_never_waits(terminal_ends());
    }
}

TEST_CASE("A pipe that another program fills in any moment makes nobody wait who cannot open it again") {
    if (::geteuid() != 0)
        SKIP("needs root to be a stranger to the pipe");
    const auto before = ::signal(SIGPIPE, SIG_IGN);
    Ends ends = pipe_ends();
    constexpr int k_pipe_bytes = 4096;
    REQUIRE(::fcntl(ends.writer.get(), F_SETPIPE_SZ, k_pipe_bytes) == k_pipe_bytes);
    const std::string path = "/proc/self/fd/" + std::to_string(ends.writer.get());
    const UniqueFd others(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    REQUIRE(others);
    char letter = 'x';
    const iovec part{&letter, 1};
    if (::pwritev2(ends.writer.get(), &part, 1, -1, RWF_NOWAIT) < 0)
        SKIP("this kernel cannot be asked not to wait for a pipe");
    auto output = [&ends] {
        const Stranger stranger;
        return std::make_unique<base::LogOutput>(ends.writer.get());
    }();
    std::atomic<bool> is_over = false;
    std::thread other([&] {
        const std::array<char, k_pipe_bytes> page{};
        while (!is_over)
            static_cast<void>(!::write(others.get(), page.data(), page.size()));
    });
    // Each write is preceded by a moment in which there is room, and only then.
    auto writes = std::async(std::launch::async, [&] {
        std::array<char, k_pipe_bytes> page{};
        constexpr int k_lines = 200'000;
        for (int i = 0; i < k_lines; ++i) {
            pollfd full{ends.reader.get(), POLLIN, 0};
            if (::poll(&full, 1, 0) == 1)
                static_cast<void>(!::read(ends.reader.get(), page.data(), page.size()));
            output->write("a line of the log\n");
        }
    });
    CHECK(writes.wait_for(test::k_client_deadline) == std::future_status::ready);
    is_over = true;
    other.join();
    ends.reader.reset();
    writes.wait();
    ::signal(SIGPIPE, before);
}

TEST_CASE("A log whose reader is gone is dropped, and a regular file takes all") {
    const auto before = ::signal(SIGPIPE, SIG_IGN);
    Ends ends = pipe_ends();
    ends.reader.reset();
    base::LogOutput gone(ends.writer.get());
    CHECK_FALSE(gone.write("line\n"));
    ::signal(SIGPIPE, before);
    const UniqueFd file(::memfd_create("log", MFD_CLOEXEC));
    base::LogOutput plain(file.get());
    for (int i = 0; i < 10'000; ++i)
        REQUIRE(plain.write("a line of the log\n"));
    CHECK(::lseek(file.get(), 0, SEEK_END) == 10'000 * 18);
}

}  // namespace log_output_test
