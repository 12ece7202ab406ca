#include "core/base/defer_queue.hpp"

#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <string>

namespace defer_queue_test {

using atl::base::DeferQueue;
namespace asio = boost::asio;

TEST_CASE("deferred: runs after the present handler, in order, what it adds before what was posted later") {
    asio::io_context loop;
    auto& queue = asio::use_service<DeferQueue>(loop);
    std::string ran;
    asio::post(loop, [&] {
        queue.add([&] {
            ran += 'a';
            queue.add([&] { ran += 'c'; });
            asio::post(loop, [&] { ran += 'd'; });
        });
        queue.add([&] { ran += 'b'; });
        CHECK(ran.empty());
    });
    loop.run();
    CHECK(ran == "abcd");
    loop.restart();
    queue.add([&] { ran += 'e'; });
    CHECK(ran == "abcd");
    loop.run();
    CHECK(ran == "abcde");
}

TEST_CASE("deferred: what goes on adding lets others have their turn") {
    asio::io_context loop;
    auto& queue = asio::use_service<DeferQueue>(loop);
    bool other = false;
    std::function<void()> again = [&] {
        if (!other)
            queue.add(again);
    };
    queue.add(again);
    asio::post(loop, [&] { other = true; });
    loop.run();
    CHECK(other);
}

TEST_CASE("deferred: what never ran is dropped with its loop") {
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> watched = held;
    {
        asio::io_context loop;
        asio::use_service<DeferQueue>(loop).add([held] { FAIL("it ran"); });
        held.reset();
        CHECK_FALSE(watched.expired());
    }
    CHECK(watched.expired());
}

}  // namespace defer_queue_test
