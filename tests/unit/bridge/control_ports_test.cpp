// Lists of ports on the control stream, of a scripted guest.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cerrno>
#include <cstring>
#include <optional>

#include "bridge/protocol.hpp"
#include "bridge/unix_channel.hpp"
#include "fake_guest.hpp"

namespace atl::test::control_ports_test {
namespace {

using Reply = std::optional<base::Result<void>>;

/// A loop driven by hand, a channel on it, a scripted guest.
struct Bench {
    boost::asio::io_context loop{1};
    HandTimers timers{loop};
    bridge::UnixChannels channels{loop.get_executor(), timers};
    FakeGuest guest;
    std::unique_ptr<sandbox::Channel> channel = channels.open("sandbox", guest);

    void settle() {
        loop.restart();
        while (loop.poll() != 0) {
        }
    }
};

/// Sends `text` with a descriptor (unix(7), SCM_RIGHTS).
bool send_with(int socket, std::string text, int fd) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_DONTWAIT) == static_cast<ssize_t>(text.size());
}

}  // namespace

TEST_CASE("The control stream tells the ports that were asked for, a few times a second at most") {
    Bench bench;
    Reply ready;
    std::vector<std::string> exits;
    std::vector<std::vector<std::uint16_t>> told;
    sandbox::AgentSpec agent;
    agent.kind = sandbox::AgentSpec::Kind::shell;
    const bool is_asked = GENERATE(true, false);
    if (is_asked)
        bench.channel->watch_ports(
            [&](std::vector<std::uint16_t> ports) { told.push_back(std::move(ports)); });
    bench.channel->start(
        agent, [&](base::Result<void> result) { ready.emplace(std::move(result)); },
        [&](std::string detail) { exits.push_back(std::move(detail)); });
    FakePeer peer = bench.guest.accept();
    CHECK((peer.received().find(R"("ports":true})") != std::string::npos) == is_asked);
    CHECK(peer.send("{\"ok\":true}\n"));
    bench.settle();
    bench.timers.advance(base::Millis{100});
    bench.settle();
    REQUIRE(ready.has_value());
    const std::string line = bridge::encode_ports({80, 5173});
    const std::vector<std::string> broken{"broke the protocol of its control stream"};
    if (!is_asked) {
        CHECK(peer.send(line));
        bench.settle();
        CHECK(exits == broken);
        return;
    }
    SECTION("one") {
        CHECK(peer.send(line));
        bench.settle();
        CHECK(told == std::vector<std::vector<std::uint16_t>>{{80, 5173}});
    }
    SECTION("one with a descriptor beside it, which is closed unread") {
        int ends[2];
        REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
        const base::UniqueFd reader(ends[0]);
        base::UniqueFd writer(ends[1]);
        REQUIRE(send_with(peer.fd(), line, writer.get()));
        writer.reset();
        char byte = 0;
        CHECK((read(reader.get(), &byte, 1) < 0 && errno == EAGAIN));  // it is on its way
        bench.settle();
        CHECK(told.size() == 1);
        CHECK(read(reader.get(), &byte, 1) == 0);  // nobody has it
    }
    SECTION("one that may not be sent") {
        CHECK(peer.send("{\"ev\":\"ports\",\"listening\":[0]}\n"));
        bench.settle();
        CHECK(told.empty());
        CHECK(exits == broken);
        CHECK(peer.at_end());
    }
    SECTION("a flood, and the agent's end behind it") {
        std::size_t sent = 0;
        for (int second = 0; second < 100; ++second) {
            while (sent < 100'000 && peer.send(line))
                ++sent;
            bench.settle();
            bench.timers.advance(base::Millis{1'000});
            bench.settle();
        }
        CHECK(sent > 100);
        // All lines of one read are taken in, then nothing is read for a time that depends on their number.
        CHECK(told.size() < base::k_bridge_read_bytes / line.size() + 500);
        CHECK(exits.empty());
    }
}

TEST_CASE(
    "The loss of a control stream is that of the guest where this is asked for, with an agent or without") {
    Bench bench;
    std::vector<std::string> lost;
    std::vector<std::string> exits;
    sandbox::AgentSpec agent;
    agent.kind = GENERATE(sandbox::AgentSpec::Kind::shell, sandbox::AgentSpec::Kind::none);
    bench.channel->on_lost([&](std::string detail) { lost.push_back(std::move(detail)); });
    bench.channel->start(
        agent, [](const base::Result<void>&) {},
        [&](std::string detail) { exits.push_back(std::move(detail)); });
    FakePeer peer = bench.guest.accept();
    SECTION("before it was ready it has failed to start") {
        peer.close();
        bench.settle();
        CHECK(lost.empty());
    }
    SECTION("it ends") {
        CHECK(peer.send("{\"ok\":true}\n"));
        bench.settle();
        peer.close();
        bench.settle();
        CHECK(lost == std::vector<std::string>{"lost its control stream"});
    }
    SECTION("it says what no guest says") {
        CHECK(peer.send("{\"ok\":true}\n[]\n"));
        bench.settle();
        CHECK(lost == std::vector<std::string>{"broke the protocol of its control stream"});
    }
    CHECK(exits.empty());
}

}  // namespace atl::test::control_ports_test
