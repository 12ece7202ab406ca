// The coroutine forms that this project allows itself with GCC 12, run and counted: every argument is
// destroyed exactly once, nothing hangs. core/base/README.md names the forms that are not allowed.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "tests/support/result_printer.hpp"

namespace coroutine_probe_test {

namespace {

using atl::base::Executor;
using atl::base::Result;
using atl::base::Task;

int g_alive = 0;

struct Counted {
    Counted() { ++g_alive; }
    Counted(const Counted&) { ++g_alive; }
    Counted(Counted&&) noexcept { ++g_alive; }
    Counted& operator=(const Counted&) = default;
    Counted& operator=(Counted&&) noexcept = default;
    ~Counted() { --g_alive; }
    std::string text = std::string(100, 'x');
};

Task<Result<Counted>> async_take(Counted counted) {
    co_await boost::asio::post(boost::asio::use_awaitable_t<Executor>());
    co_return counted;
}

Task<> async_named_arguments() {
    Counted named;
    auto taken = co_await async_take(named);
    REQUIRE(taken);
    auto moved = co_await async_take(std::move(named));
    REQUIRE(moved->text.size() == 100);
}

}  // namespace

TEST_CASE("Named arguments of a co_await are destroyed exactly once") {
    g_alive = 0;
    boost::asio::io_context loop;
    std::exception_ptr failure;
    boost::asio::co_spawn(loop.get_executor(), async_named_arguments(),
                          [&](const std::exception_ptr& thrown) { failure = thrown; });
    loop.run();
    CHECK_FALSE(failure);
    CHECK(g_alive == 0);
}

}  // namespace coroutine_probe_test
