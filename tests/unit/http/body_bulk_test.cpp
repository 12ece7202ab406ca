// Bodies far longer than the memory that a server may take for them.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>

#include "tests/support/deadline.hpp"
#include "tests/support/resident_memory.hpp"
#include "tests/unit/http/streaming_server.hpp"
#include "tests/unit/http/test_tls.hpp"

namespace body_bulk_test {

using namespace atl;
using namespace atl::test;

namespace {

constexpr std::size_t k_block_bytes = 64UL * 1024;

void send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        pollfd entry{fd, POLLOUT, 0};
        const auto count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && (errno != EAGAIN || ::poll(&entry, 1, k_client_deadline_ms) != 1))
            throw std::runtime_error("send");
        bytes.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
    }
}

// Each block is another one, so that a block that is lost, repeated or misplaced is seen.
void stamp(std::string& block, std::uint64_t number) {
    std::memcpy(block.data(), &number, sizeof number);
}

}  // namespace

TEST_CASE("a body of any length is echoed at constant memory") {
    const std::size_t megabytes = checks_bounds() ? 1024 : 64;
    const std::size_t blocks = megabytes * 1024 * 1024 / k_block_bytes;
    StreamingServer server;
    auto client = server.client();
    client.send_raw("POST /echo HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\nContent-Length: " +
                    std::to_string(blocks * k_block_bytes) + "\r\n\r\n");
    std::string failure;
    std::thread sender([&, fd = client.fd()] {
        try {
            std::string block(k_block_bytes, 'x');
            for (std::uint64_t i = 0; i < blocks; ++i) {
                stamp(block, i);
                send_all(fd, block);
            }
        } catch (const std::exception& error) {
            failure = error.what();
        }
    });
    const auto response = client.read_response(HttpClient::Body::none);
    CHECK(response.header("content-length") == std::to_string(blocks * k_block_bytes));
    std::string expected(k_block_bytes, 'x');
    long before = 0;
    long most = 0;
    bool same = true;
    for (std::uint64_t i = 0; i < blocks && same; ++i) {
        stamp(expected, i);
        same = client.read_raw(k_block_bytes) == expected;
        if (i == 16)
            before = resident_kb(::getpid());
        if (i % 64 == 0)
            most = std::max(most, resident_kb(::getpid()));
    }
    sender.join();
    CHECK(failure.empty());
    CHECK(same);
#if !defined(__SANITIZE_ADDRESS__)  // which keeps what is freed
    if (checks_bounds())
        CHECK(most < before + k_growth_kb);
#endif
    CHECK(client.request("POST", "/echo", "next").body == "next");
}

TEST_CASE("over TLS a body streams in both directions, too") {
    StreamingServer server;
    server.use_tls(tls_for("a.example"));
    auto client = server.tls_client();
    constexpr std::size_t k_blocks = 64;
    client.send_raw("POST /echo HTTP/1.1\r\nHost: localhost\r\nX-API-Key: test-key\r\nContent-Length: " +
                    std::to_string(k_blocks * k_block_bytes) + "\r\n\r\n");
    std::string block(k_block_bytes, 'x');
    for (std::uint64_t i = 0; i < k_blocks; ++i) {
        stamp(block, i);
        client.send_raw(block);
        if (i == 0)
            client.read_response(HttpClient::Body::none);
        REQUIRE(client.read_raw(k_block_bytes) == block);
    }
    CHECK(client.request("POST", "/count", std::string(1'000'000, 'x')).body == "1000000");
    CHECK(server.connections() == 1);
}

}  // namespace body_bulk_test
