// A connection that a guest makes, which the test plays.
#include "http/proxy/dialed_stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "core/plain/preview_limits.hpp"
#include "tests/support/resident_memory.hpp"

namespace dialed_stream_test {

using namespace atl;
namespace asio = boost::asio;

namespace {

struct Inside {
    sandbox::DialObserver* observer = nullptr;
    std::string got;
    std::size_t room = 1'000'000;
    bool write_ended = false;
    bool destroyed = false;
    int resumed = 0;
};

class FakeDial final : public sandbox::Dial {
  public:
    explicit FakeDial(Inside& inside) : inside_(inside) {}
    ~FakeDial() override { inside_.destroyed = true; }
    std::size_t write(std::string_view bytes) override {
        const std::size_t taken = std::min(bytes.size(), inside_.room);
        inside_.got += bytes.substr(0, taken);
        inside_.room -= taken;
        return taken;
    }
    void close_write() override { inside_.write_ended = true; }
    void resume() override { ++inside_.resumed; }

  private:
    Inside& inside_;
};

struct Bench {
    Bench() {
        stream = std::make_unique<http::DialedStream>(
            loop.get_executor(),
            [this](sandbox::DialObserver& observer) {
                inside.observer = &observer;
                return std::make_unique<FakeDial>(inside);
            },
            held);
    }
    void run() {
        loop.restart();
        loop.poll();
    }
    void begin_read(std::size_t most = 4096) {
        room.resize(most);
        read.reset();
        stream->async_read_some(room, [this](boost::system::error_code error, std::size_t count) {
            read = {error, std::string(room.data(), count)};
        });
        run();
    }
    void begin_wait() {
        waited.reset();
        stream->async_wait(http::Socket::wait_write,
                           [this](boost::system::error_code error) { waited = error; });
        run();
    }
    std::size_t write(std::string_view bytes) {
        write_error = {};
        return stream->write_some(bytes, write_error);
    }

    asio::io_context loop{1};
    Inside inside;
    std::shared_ptr<int> held = std::make_shared<int>(0);
    std::vector<char> room;
    std::optional<std::pair<boost::system::error_code, std::string>> read;
    std::optional<boost::system::error_code> waited;
    boost::system::error_code write_error;
    std::unique_ptr<http::DialedStream> stream;
};

}  // namespace

TEST_CASE("dialed stream: nothing is taken before it is open, and then what the guest has room for") {
    Bench bench;
    CHECK(bench.write("hello") == 0);
    CHECK(bench.write_error == asio::error::would_block);
    bench.begin_wait();
    CHECK_FALSE(bench.waited);
    bench.inside.room = 3;
    bench.inside.observer->on_open();
    bench.run();
    REQUIRE(bench.waited);
    CHECK_FALSE(*bench.waited);
    CHECK(bench.write("hello") == 3);
    CHECK_FALSE(bench.write_error);
    CHECK(bench.write("lo") == 0);
    CHECK(bench.write_error == asio::error::would_block);
    bench.begin_wait();
    CHECK_FALSE(bench.waited);
    bench.inside.room = 10;
    bench.inside.observer->on_writable();
    bench.run();
    CHECK(bench.waited);
    CHECK(bench.write("lo") == 2);
    CHECK(bench.inside.got == "hello");
}

TEST_CASE("dialed stream: who reads slowly holds the guest back, and loses nothing") {
    Bench bench;
    bench.inside.observer->on_open();
    const std::string piece(base::k_relay_piece_bytes, 'x');
    CHECK_FALSE(bench.inside.observer->is_full());
    bench.inside.observer->on_bytes(piece);
    CHECK(bench.inside.observer->is_full());
    bench.inside.observer->on_eof();
    std::string all;
    while (all.size() < piece.size()) {
        bench.begin_read();
        REQUIRE(bench.read);
        REQUIRE_FALSE(bench.read->first);
        all += bench.read->second;
    }
    CHECK(all == piece);
    CHECK(bench.inside.resumed == 1);
    bench.begin_read();
    REQUIRE(bench.read);
    CHECK(bench.read->first == asio::error::eof);
}

TEST_CASE("dialed stream: a reader that never catches up costs no memory") {
    constexpr long k_most_growth_kb = 16L * 1024;
    constexpr int k_pieces = 1000;  // several times as much
    Bench bench;
    bench.inside.observer->on_open();
    std::string piece(base::k_relay_piece_bytes, 'x');
    std::string rest = "rest";
    std::string expected(piece.size(), ' ');
    bench.room.resize(piece.size());
    bench.inside.observer->on_bytes(rest);
    long before = 0;
    for (int number = 0; number < k_pieces; ++number) {
        piece.replace(piece.size() - rest.size(), rest.size(), std::to_string(1000 + number));
        bench.inside.observer->on_bytes(piece);
        std::size_t count = 0;
        bench.stream->async_read_some(bench.room,
                                      [&](boost::system::error_code, std::size_t size) { count = size; });
        bench.run();
        // The bytes that the last read left over come first, then the beginning of this piece.
        expected.replace(0, rest.size(), rest);
        expected.replace(rest.size(), piece.size() - rest.size(), piece, 0, piece.size() - rest.size());
        rest.assign(piece, piece.size() - rest.size(), rest.size());
        REQUIRE(count == piece.size());
        REQUIRE(std::equal(expected.begin(), expected.end(), bench.room.begin()));
        if (number == 10)
            before = atl::test::resident_kb(::getpid());
    }
    CHECK(atl::test::resident_kb(::getpid()) < before + k_most_growth_kb);
}

TEST_CASE("dialed stream: each direction ends by itself") {
    Bench bench;
    SECTION("asked for while it opens") {
        bench.stream->shutdown_send();
        CHECK_FALSE(bench.inside.write_ended);
        bench.inside.observer->on_open();
    }
    SECTION("asked for later") {
        bench.inside.observer->on_open();
        bench.stream->shutdown_send();
    }
    CHECK(bench.inside.write_ended);
    bench.begin_read();
    CHECK_FALSE(bench.read);
    bench.inside.observer->on_bytes("still there");
    bench.run();
    REQUIRE(bench.read);
    CHECK(bench.read->second == "still there");
}

TEST_CASE("dialed stream: one that cannot be made, or breaks, says so behind what came before") {
    Bench bench;
    SECTION("never open") {
        bench.begin_read();
    }
    SECTION("broken") {
        bench.inside.observer->on_open();
        bench.inside.observer->on_bytes("first");
        bench.begin_read();
        REQUIRE(bench.read);
        CHECK(bench.read->second == "first");
        bench.begin_read();
    }
    CHECK_FALSE(bench.read);
    bench.inside.observer->on_end(base::Error(base::Errc::sandbox_failed));
    bench.run();
    REQUIRE(bench.read);
    CHECK(bench.read->first == asio::error::connection_reset);
    CHECK(bench.write("x") == 0);
    CHECK(bench.write_error == asio::error::broken_pipe);
}

TEST_CASE("dialed stream: close ends what is under way, and lets go of what it holds") {
    Bench bench;
    bench.begin_read();
    bench.begin_wait();
    bench.stream->close();
    bench.run();
    REQUIRE((bench.read && bench.waited));
    CHECK(bench.read->first == asio::error::operation_aborted);
    CHECK(*bench.waited == asio::error::operation_aborted);
    CHECK(bench.inside.destroyed);
    CHECK(bench.held.use_count() == 2);
    bench.stream.reset();
    CHECK(bench.held.use_count() == 1);
}

}  // namespace dialed_stream_test
