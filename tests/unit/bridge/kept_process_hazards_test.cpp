// Processes of a real guest that outlive a connection, where something is in their way: jobs of a shell,
// readers that are slow, input that nobody reads, many who follow, a terminal that nobody holds.
#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <vector>

#include "bridge/guest/background_process.hpp"
#include "kept_lab.hpp"

namespace atl::test::kept_process_hazards_test {
namespace {

using bridge::ExitStatus;
using bridge::FrameType;

constexpr std::string_view k_shell =
    R"("argv":["/bin/bash","--norc","--noprofile","-i"],"env":{"PS1":"$ ","TERM":"dumb"},)"
    R"("terminal":{"columns":80,"rows":24})";

/// The number that a script in a terminal shows behind `name=`, with a dot at its end; empty if its process
/// ends first. The terminal shows the script, too.
std::string read_number(ExecClient& client, const std::string& name) {
    for (;;) {
        const std::string& text = client.output;
        for (std::size_t at = text.find(name + "="); at != std::string::npos;
             at = text.find(name + "=", at + 1)) {
            const std::size_t begin = at + name.size() + 1;
            const std::size_t end = text.find_first_not_of("0123456789", begin);
            if (end != std::string::npos && end > begin && text[end] == '.')
                return text.substr(begin, end - begin);
        }
        if (!client.step())
            return {};
    }
}

bool is_alive(const GuestProcess& guest, const std::string& pid) {
    return ExecClient(guest, "\"command\":\"kill -0 " + pid + "\"").finish().exit == ExitStatus{0, 0, false};
}

bool dies(const GuestProcess& guest, const std::string& pid) {
    return eventually([&] { return !is_alive(guest, pid); });
}

ExecClient feed(const GuestProcess& guest, std::string_view id) {
    return ExecClient(guest, named(id) + ",\"input\":true", "attach");
}

/// A shell with a job in the background, which has a group of its own, and one that forks on and on.
struct ShellWithJobs {
    ShellWithJobs(const GuestProcess& guest, const std::string& more) {
        guest.ask("{\"cmd\":\"process\",\"id\":\"sh\"," + std::string(k_shell) + more + "}");
        ExecClient client = attach(guest, "sh");
        if (!client.read_until("$ "))
            return;
        client.write("(trap '' HUP TERM; echo one=$BASHPID.; while :; do /bin/sleep 1000; done) &\n");
        job = read_number(client, "one");
        client.write("(trap '' HUP TERM; echo two=$BASHPID.; while :; do /bin/true; done) &\n");
        forker = read_number(client, "two");
    }

    // Empty: its time was over before they began.
    std::string job;
    std::string forker;
};

}  // namespace

TEST_CASE("a KILL of a shell in a terminal ends its jobs in the background, and no other session") {
    const GuestProcess guest;
    const ShellWithJobs shell(guest, "");
    const auto other = start(guest, "other", "exec sleep 1000").at("pid").get<int>();
    REQUIRE(is_alive(guest, shell.job));
    REQUIRE(is_alive(guest, shell.forker));
    CHECK(control(guest, "sh", "\"signal\":9").at("ok") == true);
    REQUIRE(has_ended(guest, "sh"));
    CHECK(dies(guest, shell.job));
    CHECK(dies(guest, shell.forker));
    CHECK(is_alive(guest, std::to_string(other)));
}

TEST_CASE("a timeout of a shell in a terminal ends its jobs in the background") {
    bool is_begun = false;
    // A timeout that comes before the jobs have begun is tried again with a longer one.
    for (int timeout_ms = 500; timeout_ms <= 50'000 && !is_begun; timeout_ms *= 10) {
        const GuestProcess guest;
        const ShellWithJobs shell(guest, ",\"timeoutMs\":" + std::to_string(timeout_ms));
        is_begun = !shell.forker.empty() && is_alive(guest, shell.job);
        REQUIRE(has_ended(guest, "sh"));
        CHECK(find(guest, "sh").at("timedOut") == true);
        CHECK((shell.job.empty() || dies(guest, shell.job)));
        CHECK((shell.forker.empty() || dies(guest, shell.forker)));
    }
    CHECK(is_begun);
}

TEST_CASE("a shell that exits by itself leaves its jobs running") {
    const GuestProcess guest;
    const ShellWithJobs shell(guest, "");
    attach(guest, "sh").write("exit\nexit\n");
    REQUIRE(has_ended(guest, "sh"));
    CHECK(is_alive(guest, shell.job));
}

TEST_CASE("the exit of a process is not held back by a writer in the background and a slow reader") {
    const GuestProcess guest;
    start(guest, "a", "read go; trap '' PIPE; yes & sleep 0.1", k_stdin);
    ExecClient client = attach(guest, "a");
    client.write("\n");
    // The reader takes what lets the guest go on, just before its patience is over.
    const auto ended = [&guest] { return find(guest, "a").contains("exitCode"); };
    bool is_held = true;
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (is_held && std::chrono::steady_clock::now() < deadline) {
        const auto until = std::chrono::steady_clock::now() + guest::k_reader_patience / 2;
        while (is_held && std::chrono::steady_clock::now() < until)
            is_held = !ended();
        client.read_output(is_held ? client.output.size() + 600'000 : 0);
    }
    CHECK_FALSE(is_held);
    client.finish();
    CHECK(client.exit == ExitStatus{0, 0, false});
}

TEST_CASE("the end of stdin comes behind all that was written before, whoever wrote it") {
    const GuestProcess guest;
    const Gate gate(guest);
    start(guest, "a", "trap 'echo heard' USR1; echo ready; " + gate.script() + "wc -c", k_stdin);
    ExecClient writer = attach(guest, "a");
    REQUIRE(writer.read_until("ready\n"));
    // More than a pipe takes.
    constexpr std::size_t many = 3 * base::k_input_window_bytes / 2;
    writer.write(std::string(many, 'x'));
    writer.signal(SIGUSR1);
    REQUIRE(writer.read_until("heard\n"));
    ExecClient ender = attach(guest, "a");
    ender.send(FrameType::input_end);
    REQUIRE(eventually([&] { return feed(guest, "a").reply.at("ok") == false; }));
    gate.open();
    writer.finish();
    CHECK(writer.output == "ready\nheard\n" + std::to_string(many) + "\n");
    // All was granted again.
    CHECK(writer.granted == base::k_input_window_bytes);
}

TEST_CASE("those who have gone hold no place among those who follow, and a bounded part of stdin") {
    const GuestProcess guest;
    const Gate gate(guest);
    start(guest, "a", gate.script() + "wc -c", k_stdin);
    constexpr std::size_t piece = 32UL * 1024;
    for (std::size_t i = 0; i < base::k_max_process_followers + 8; ++i) {
        ExecClient client = attach(guest, "a");
        REQUIRE(client.reply.at("ok") == true);
        client.write(std::string(piece, 'x'));
        client.close();
    }
    control(guest, "a", "\"inputEnd\":true");
    gate.open();
    const std::size_t read = std::stoul(attach(guest, "a").finish().output);
    CHECK(read > base::k_left_input_bytes);
    CHECK(read <= base::k_left_input_bytes + base::k_input_window_bytes);
}

TEST_CASE("the number of those who follow processes is bounded, of one and of a sandbox") {
    const GuestProcess guest;
    std::vector<ExecClient> clients;
    const std::size_t processes = base::k_max_sandbox_followers / base::k_max_process_followers;
    for (std::size_t i = 0; i < processes; ++i) {
        const std::string id = "p" + std::to_string(i);
        start(guest, id, "exec sleep 1000");
        for (std::size_t k = 0; k < base::k_max_process_followers; ++k) {
            clients.push_back(attach(guest, id));
            REQUIRE(clients.back().reply.at("ok") == true);
        }
        CHECK(attach(guest, id).reply.at("code") == "busy");
    }
    start(guest, "last", "exec sleep 1000");
    CHECK(attach(guest, "last").reply.at("code") == "busy");
    clients.pop_back();
    CHECK(eventually([&] { return attach(guest, "last").reply.at("ok") == true; }));
}

TEST_CASE("a terminal that nobody holds for a moment goes on") {
    const GuestProcess guest;
    const Gate gate(guest);
    start(guest, "a", "echo before; exec 0<&- 1>&- 2>&-; " + gate.script() + "echo after > /dev/tty",
          k_terminal);
    ExecClient client = attach(guest, "a");
    REQUIRE(client.read_until("before\r\n"));
    const auto pid = std::to_string(find(guest, "a").at("pid").get<int>());
    REQUIRE(eventually([&] {
        return ExecClient(guest, "\"command\":\"test ! -e /proc/" + pid + "/fd/1\"").finish().exit ==
               ExitStatus{0, 0, false};
    }));
    gate.open();
    client.finish();
    CHECK(client.output == "before\r\nafter\r\n");
    CHECK(client.exit == ExitStatus{0, 0, false});
}

TEST_CASE("a connection that feeds a process gets its exit and no output, and is refused without a stdin") {
    const GuestProcess guest;
    start(guest, "a", "read line; echo \"got $line\"", k_stdin);
    ExecClient feeder = feed(guest, "a");
    CHECK(feeder.reply.at("ok") == true);
    feeder.write("it\n");
    feeder.finish();
    CHECK(feeder.output.empty());
    CHECK(feeder.exit == ExitStatus{0, 0, false});
    CHECK(attach(guest, "a").finish().output == "got it\n");
    CHECK(feed(guest, "a").reply.at("code") == "ended");
    start(guest, "null", "exec sleep 1000");
    CHECK(feed(guest, "null").reply.at("code") == "invalid");
    start(guest, "closed", "cat > /dev/null; exec sleep 1000", k_stdin);
    CHECK(feed(guest, "closed").reply.at("ok") == true);
    control(guest, "closed", "\"inputEnd\":true");
    CHECK(feed(guest, "closed").reply.at("code") == "invalid");
    start(guest, "terminal", "exec sleep 1000", k_terminal);
    CHECK(feed(guest, "terminal").reply.at("ok") == true);
}

}  // namespace atl::test::kept_process_hazards_test
