// Memory that sockets and their like take from the host outside the memory limit of a sandbox.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <thread>

#include "tests/isolation/redteam/attack_run.hpp"
#include "tests/isolation/redteam/host_meter.hpp"
#include "tests/isolation/redteam/neighbour.hpp"

namespace sockets_test {

using namespace atl::test;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::int64_t k_limit_mb = 256;
constexpr std::int64_t k_allowed_mb = 512;  // beyond the limit, and for no longer than k_allowed_time
constexpr std::int64_t k_slack_mb = 192;    // the server, the neighbour and the tests use less meanwhile
constexpr std::chrono::seconds k_allowed_time{1};
constexpr int k_tries = 3;  // other programs of the host use memory, too

std::int64_t available_mb() {
    std::ifstream file("/proc/meminfo");
    for (std::string word; file >> word;) {
        if (word == "MemAvailable:") {
            std::int64_t kb = 0;
            file >> kb;
            return kb / 1024;
        }
    }
    throw std::runtime_error("no MemAvailable");
}

/// Watches the host's memory from a thread of its own, as long as it lives.
class MemoryDip {
  public:
    MemoryDip() : start_(available_mb()), end_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}
    ~MemoryDip() { stop(); }
    MemoryDip(const MemoryDip&) = delete;
    MemoryDip& operator=(const MemoryDip&) = delete;

    void stop() {
        if (!thread_.joinable())
            return;
        const std::uint64_t one = 1;
        (void)!::write(end_.get(), &one, sizeof one);
        thread_.join();
    }
    /// After stop(): the most that was missing, and how long more than the limit and the slack were.
    std::int64_t deepest_mb() const { return deepest_; }
    std::chrono::milliseconds time_below() const {
        return std::chrono::duration_cast<std::chrono::milliseconds>(below_);
    }

  private:
    void run() {
        auto last = Clock::now();
        pollfd entry{end_.get(), POLLIN, 0};
        while (::poll(&entry, 1, 10) == 0) {
            const std::int64_t missing = start_ - available_mb();
            const auto now = Clock::now();
            deepest_ = std::max(deepest_, missing);
            if (missing > k_limit_mb + k_slack_mb)
                below_ += now - last;
            last = now;
        }
    }

    std::int64_t start_;
    atl::base::UniqueFd end_;
    std::int64_t deepest_ = 0;
    Clock::duration below_{};
    std::thread thread_;
};

Words attack_of(const Words& kinds, const std::string& max_mb) {
    Words words{"buffers"};
    words.insert(words.end(), kinds.begin(), kinds.end());
    words.insert(words.end(), {"--max-mb", max_mb, "--max-count", "500000", "--seconds", "40"});
    return words;
}

const Json& request() {
    static const Json asks = {{"limits", {{"memoryMb", k_limit_mb}}}};
    return asks;
}

/// Says if the attack ends its sandbox: some kinds are bounded without that.
enum class Ends : std::uint8_t { surely, perhaps };

/// Why a sandbox ended, or empty if it has not: the end of its own log.
std::string end_of(Lab& lab, Sandbox& sandbox, Ends ends) {
    const auto until = Clock::now() + k_client_deadline;
    do {
        const Json log =
            lab.api.call(200, "GET", "/v1/sandboxes/" + sandbox.sandbox_id() + "/logs?stream=system");
        for (const Json& entry : log["entries"]) {
            const std::string text = entry["text"];
            if (text.starts_with("ended: "))
                return text;
        }
        ::poll(nullptr, 0, 50);
    } while (ends == Ends::surely && Clock::now() < until);
    return {};
}

/// The control and then the attack inside, beside a neighbour. How the attacker's sandbox ended. How much the
/// host misses, and for how long, is a matter of speed and of its other programs: ATOLL_TEST_FULL=1 has
/// bounds for them.
std::string attack_memory(Lab& lab, const Words& kinds, Ends ends = Ends::surely) {
    const bool is_full = checks_bounds();
    INFO(lab.name);
    {
        Sandbox model(lab, request());
        AttackOutside control(attack_of(kinds, "300"), rlimits_of(model));
        be_neighbour(lab);
        // It wants 300 MB, and gets half of them within its time on any machine.
        REQUIRE(control.loot()["mb"] >= 150);
    }
    std::string end;
    std::int64_t deepest = 0;
    std::chrono::milliseconds below{};
    for (int i = 0; i < k_tries; ++i) {
        MemoryDip dip;
        AttackInside attack(lab, attack_of(kinds, "30000"), request());
        be_neighbour(lab);
        attack.loot();
        dip.stop();
        end = end_of(lab, attack.sandbox(), ends);
        deepest = dip.deepest_mb();
        below = dip.time_below();
        if (!is_full || (deepest <= k_limit_mb + k_allowed_mb && below <= k_allowed_time))
            break;
    }
    INFO("at most " << deepest << " MB were missing, too many of them for " << below.count() << " ms; "
                    << end);
    if (is_full) {
        CHECK(deepest <= k_limit_mb + k_allowed_mb);
        CHECK(below <= k_allowed_time);
    }
    return end;
}

std::string memory_limiter(Lab& lab) {
    return lab.api.call(200, "GET", "/v1/system")["enforcement"]["memory"];
}

bool limits_memory(Lab& lab) {
    SUCCEED("JUnit's report leaves out a case whose last lab ends it without a check");
    return memory_limiter(lab) != "none";
}

}  // namespace

TEST_CASE("Unread netlink sockets end their sandbox before the host misses their memory",
          "[redteam][kernel]") {
    const std::string end = attack_memory(each_lab(), {"netlink"});
    CHECK(end.find("ended: oom 9; its processes had ") == 0);
    CHECK(end.find("netlink sockets open, more than the limit of 256") != std::string::npos);
}

TEST_CASE("Unread sockets of UDP and TCP take no more than their sandbox may", "[redteam][kernel][vm]") {
    Lab& lab = each_lab();
    if (!limits_memory(lab))
        return;  // their memory is not bounded; SECURITY.md says so
    for (const char* kind : {"udp", "tcp"}) {
        INFO(kind);
        const std::string end = attack_memory(lab, {kind});
        INFO(end);
        CHECK(end.starts_with("ended: oom"));
        // With cgroup v2 these buffers are memory of the sandbox, whose limit is reached first.
        if (memory_limiter(lab) == "cgroup1")
            CHECK(end.find("sockets open, more than the limit of 2048") != std::string::npos);
    }
}

// [full]: only the host's memory is checked.
TEST_CASE("What sockets keep for their options takes no memory beyond the limit", "[redteam][kernel][full]") {
    Lab& lab = each_lab();
    if (!limits_memory(lab))
        return;
    attack_memory(lab, {"option"}, Ends::perhaps);
}

TEST_CASE("Unread Unix sockets and pipes take no more than the memory limit", "[redteam][kernel]") {
    Lab& lab = each_lab();
    if (!limits_memory(lab))
        return;
    CHECK(attack_memory(lab, {"unix"}).find("ended: oom") == 0);
    // Pipes of a uid shrink to a page each before they reach the limit (pipe(7), pipe-user-pages-soft): no
    // sandbox is ended, and only the host's memory is checked.
    if (checks_bounds())
        attack_memory(lab, {"pipe"}, Ends::perhaps);
}

// [full]: only the host's memory is checked.
TEST_CASE("A mix of all that the kernel keeps for a process takes no more than its sandbox may",
          "[redteam][kernel][vm][full]") {
    Lab& lab = each_lab();
    if (!limits_memory(lab))
        return;
    // Some of these are bounded without an end of the sandbox: only the host's memory is checked.
    attack_memory(lab, {"netlink", "udp", "tcp", "unix", "pipe", "pty", "epoll", "timer", "option"},
                  Ends::perhaps);
}

}  // namespace sockets_test
