#include "http/api/detached_calls.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>

#include "http/server/context.hpp"
#include "tests/support/fake_world.hpp"

namespace detached_calls_test {

using namespace atl;

TEST_CASE("Calls of one user whose clients have left leave other users places for theirs") {
    test::FakeClock clock;
    test::FakeTimers timers{clock};
    http::Request request;
    const bool aborted = false;
    http::RequestContext context(request, nullptr, aborted);
    http::DetachedCalls calls(timers, 50);
    const auto keep = [&](const char* user) {
        calls.keep(std::make_unique<http::GuestCall>(context, nullptr), base::ShareHolder::user(user));
    };
    for (std::size_t i = 0; i < base::k_max_unattended_calls; ++i)
        keep("ann");
    CHECK(calls.size() == base::k_max_unattended_calls / 2);
    keep("bob");
    CHECK(calls.size() == base::k_max_unattended_calls / 2 + 1);
}

}  // namespace detached_calls_test
