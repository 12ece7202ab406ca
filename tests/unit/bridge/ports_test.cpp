// The ports that are listened on inside: what the kernel's tables mean, how often they are looked at, what a
// real guest tells of them. What the server makes of it: tests/unit/core/port_events_test.cpp.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <numeric>

#include "bridge/guest/port_watch.hpp"
#include "bridge/protocol.hpp"
#include "bridge/reply_line.hpp"
#include "exec_client.hpp"
#include "guest_process.hpp"

namespace atl::test::ports_test {
namespace {

using Ports = std::vector<std::uint16_t>;
using guest::PortBudget;
using std::chrono::nanoseconds;

std::string row(std::string_view local, std::string_view state = "0A") {
    return "   0: " + std::string(local) + " 00000000:0000 " + std::string(state) +
           " 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0000000000000000 100 0 0 10 0\n";
}

Ports in_table(const std::string& rows) {
    Ports ports;
    guest::add_listening_ports("  sl  local_address rem_address   st tx_queue\n" + rows, ports);
    return ports;
}

std::optional<Ports> told(const std::string& list) {
    return bridge::parse_ports_line("{\"ev\":\"ports\",\"listening\":" + list + "}");
}

std::string many(std::size_t count) {
    nlohmann::json list = nlohmann::json::array();
    for (std::size_t i = 1; i <= count; ++i)
        list.push_back(i);
    return list.dump();
}

nanoseconds processor_time() {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + nanoseconds(used.tv_nsec);
}

/// Listens on a free port of 127.0.0.1 while it lives.
struct Listener {
    Listener() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof here;
        auto* address = reinterpret_cast<sockaddr*>(&here);
        REQUIRE(bind(socket.get(), address, size) == 0);
        REQUIRE(listen(socket.get(), 4) == 0);
        REQUIRE(getsockname(socket.get(), address, &size) == 0);
        port = ntohs(here.sin_port);
    }
    base::UniqueFd socket;
    std::uint16_t port = 0;
};

/// Waits until the control stream tells whether `port` is listened on.
bool comes(Client& control, std::uint16_t port, bool listening) {
    while (const auto line = control.line()) {
        const auto ports = bridge::parse_ports_line(*line);
        REQUIRE(ports.has_value());
        if ((std::find(ports->begin(), ports->end(), port) != ports->end()) == listening)
            return true;
    }
    return false;
}

constexpr const char* k_start = R"({"cmd":"start","agent":{"kind":"none","argv":[]},"ports":true})";

}  // namespace

TEST_CASE("Of the kernel's tables the listening sockets count that the loopback reaches") {
    CHECK(in_table(row("0100007F:1435") + row("00000000:1F90")) == Ports{5173, 8080});
    CHECK(in_table(row("00000000000000000000000000000000:0050") +
                   row("00000000000000000000000001000000:0051") +
                   row("0000000000000000FFFF00000100007F:0052")) == Ports{80, 81, 82});
    CHECK(in_table(row("0200007F:1435") + row("0101A8C0:1435") + row("000080FE00000000000000000100007F:1435"))
              .empty());
    // Behind the first that does not listen there are connections alone.
    CHECK(in_table(row("0100007F:1435") + row("0100007F:1436", "01") + row("0100007F:1437")) == Ports{5173});
    CHECK(in_table("").empty());
    CHECK(in_table(row("0100007F:1435") + "   1: 0100007F:14").size() == 1);
    CHECK(in_table("no table\n").empty());
    CHECK(in_table(row("0100007F:")).empty());
    CHECK(in_table(row("0100007F:10000")).empty());
    CHECK(in_table(row("0100007F")).empty());
}

TEST_CASE("Ports are told sorted, each once, bounded, and never those of the server") {
    CHECK(guest::told_ports({9000, 80, 9000, 3128, 0, 3129}) == Ports{80, 9000});
    Ports all(5'000);
    std::iota(all.begin(), all.end(), std::uint16_t{1});
    const Ports some = guest::told_ports(all);
    CHECK(some.size() == base::k_max_told_ports);
    CHECK(some.back() == base::k_max_told_ports);
    CHECK(bridge::parse_ports_line(bridge::encode_ports(some)) == some);
    CHECK(bridge::parse_ports_line(bridge::encode_ports({})) == Ports{});
}

TEST_CASE("A list of ports that a guest may not send is refused as a whole") {
    CHECK(told("[80,65535]") == Ports{80, 65535});
    for (const char* list :
         {"[0]", "[65536]", "[80,80]", "[81,80]", "[-1]", "[80.0]", "[\"80\"]", "[80,]", "[[80]]", "[null]",
          "[3128]", "[3129]", "[80,3128]", "80", "{}", "[1e2]", "[ 80]", "[80 ]"}) {
        INFO(list);
        CHECK_FALSE(told(list).has_value());
    }
    CHECK(told(many(base::k_max_told_ports)).has_value());
    CHECK_FALSE(told(many(base::k_max_told_ports + 1)).has_value());
    CHECK_FALSE(bridge::parse_ports_line("{\"ev\":\"ports\"}").has_value());
    CHECK_FALSE(bridge::parse_ports_line("{\"listening\":[80]}").has_value());
}

TEST_CASE("The search for ports spends a thousandth of the time, and a little at once") {
    const PortBudget::Time start{};
    PortBudget budget(start);
    nanoseconds spent{0};
    nanoseconds passed{0};
    const nanoseconds cost = base::Millis{3};
    while (passed < std::chrono::hours(1)) {
        const auto wait = budget.wait(start + passed);
        if (wait.count() == 0) {
            budget.spend(cost);
            spent += cost;
        } else {
            passed += wait;
        }
    }
    CHECK(spent <= base::k_port_watch_burst + cost + passed / base::k_port_watch_share);
    CHECK(spent > passed / base::k_port_watch_share / 2);
    // Rest saves up no more than that again.
    CHECK(budget.wait(start + passed + std::chrono::hours(100)).count() == 0);
    budget.spend(base::k_port_watch_burst);
    CHECK(budget.wait(start + passed + std::chrono::hours(100)).count() > 0);
}

// [serial]: processor time beside passed time.
TEST_CASE("Ports that change all the time cost a thousandth of a processor, dear as each look may be",
          "[serial]") {
    guest::Loop loop;
    guest::Children children;
    nanoseconds spent{0};
    std::uint64_t looks = 0;
    guest::PortSources sources;
    sources.counts = [&looks] { return guest::TcpCounts{++looks, 0}; };
    sources.ports = [&] {
        const nanoseconds before = processor_time();
        while (processor_time() - before < base::Millis{8}) {
        }
        spent += processor_time() - before;
        return Ports{static_cast<std::uint16_t>(looks)};
    };
    guest::PortWatch watch(loop, children, sources);
    std::uint64_t tells = 0;
    watch.begin([&tells](const Ports&) { return ++tells > 0; });
    const auto start = std::chrono::steady_clock::now();
    loop.arm(base::Millis{2'000}, [&loop] { loop.stop(0); });
    loop.run();
    const nanoseconds passed = std::chrono::steady_clock::now() - start;
    CHECK(tells >= 1);
    CHECK(tells <= looks);
    // The last look may begin when little of the budget is left, and may take long itself.
    CHECK(looks <= 4 + static_cast<std::uint64_t>(passed / base::k_port_watch_share / base::Millis{8}));
    CHECK(spent > nanoseconds{0});
}

TEST_CASE("Nobody looks for ports while the guest is alone") {
    // In a process without children.
    const pid_t pid = fork();
    if (pid == 0) {
        guest::Loop loop;
        guest::Children children;
        int looks = 0;
        guest::PortSources sources;
        sources.counts = [&looks] {
            ++looks;
            return guest::TcpCounts{};
        };
        guest::PortWatch watch(loop, children, sources);
        const auto run = [&loop] {
            loop.arm(8 * base::k_first_port_look, [&loop] { loop.stop(0); });
            return loop.run();
        };
        watch.stir();  // not asked for yet
        watch.begin([](const Ports&) { return true; });
        run();
        _exit(looks);
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 1);
}

// [serial]: another process could take the port that was given up.
TEST_CASE("A guest that is asked to tells each port as it is opened and closed", "[serial]") {
    const GuestProcess guest;
    Client control = guest.send(k_start);
    CHECK(control.line() == "{\"ok\":true}");
    ExecClient busy(guest, R"("argv":["sleep","1000"])");
    REQUIRE(busy.reply["ok"] == true);
    std::uint16_t port = 0;
    {
        const Listener listener;
        port = listener.port;
        CHECK(comes(control, port, true));
    }
    CHECK(comes(control, port, false));
    const Listener later;
    CHECK(comes(control, later.port, true));
}

TEST_CASE("A guest that is not asked to tells no port") {
    const GuestProcess guest;
    Client control = guest.start(R"({"kind":"none","argv":[]})");
    const Listener listener;
    ExecClient busy(guest, R"("argv":["sleep","1"])");
    while (busy.step()) {
    }
    guest.ask(R"({"cmd":"shutdown"})");
    for (const std::string& line : control.rest())
        CHECK(line.find("ports") == std::string::npos);
}

}  // namespace atl::test::ports_test
