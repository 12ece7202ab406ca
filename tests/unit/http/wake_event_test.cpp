#include "http/wire/wake_event.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include "core/base/defer_queue.hpp"

namespace wake_event_test {

using namespace atl;
using namespace std::chrono_literals;

namespace {

struct Lab {
    boost::asio::io_context loop;
    std::vector<std::shared_ptr<http::WakeEvent>> events;
    std::vector<std::size_t> woken;
    std::chrono::microseconds work{0};  // of a waiter, each time it is woken

    explicit Lab(std::size_t waiters) {
        for (std::size_t i = 0; i < waiters; ++i) {
            events.push_back(std::make_shared<http::WakeEvent>(loop.get_executor()));
            boost::asio::co_spawn(loop, async_wait(*this, i), [](const std::exception_ptr& failure) {
                if (failure)
                    std::rethrow_exception(failure);
            });
        }
        loop.poll();  // until each waits
        loop.restart();
    }

    static base::Task<> async_wait(Lab& lab, std::size_t index) {
        co_await lab.events[index]->async_wait();
        lab.woken.push_back(index);
        const auto until = std::chrono::steady_clock::now() + lab.work;
        while (std::chrono::steady_clock::now() < until) {
        }
    }
};

}  // namespace

TEST_CASE("Posted wakes come in their order, once each") {
    Lab lab(3);
    for (const std::size_t index : {2U, 0U, 2U, 1U, 0U})
        lab.events[index]->post();
    CHECK(lab.woken.empty());
    CHECK(boost::asio::use_service<base::DeferQueue>(lab.loop).size() == 3);
    lab.loop.run();
    CHECK(lab.woken == std::vector<std::size_t>{2, 0, 1});
}

TEST_CASE("Others have their turn between the wakes of many") {
    Lab lab(20);
    lab.work = 1ms;
    std::size_t woken_before_other = 0;
    for (const auto& event : lab.events)
        event->post();
    boost::asio::post(lab.loop, [&] { woken_before_other = lab.woken.size(); });
    lab.loop.run();
    CHECK(lab.woken.size() == 20);
    CHECK(woken_before_other >= 1);
    CHECK(woken_before_other <= 2);
}

TEST_CASE("A wake that nobody waits for is lost, and a posted one keeps its event alive") {
    Lab lab(1);
    lab.events[0]->post();
    lab.events.clear();
    lab.loop.run();
    CHECK(lab.woken.size() == 1);
    boost::asio::io_context loop;
    std::make_shared<http::WakeEvent>(loop.get_executor())->post();
    CHECK(loop.run() == 1);
}

TEST_CASE("A loop that ends with wakes in its queue lets go of them") {
    std::weak_ptr<http::WakeEvent> event;
    {
        boost::asio::io_context loop;
        const auto made = std::make_shared<http::WakeEvent>(loop.get_executor());
        event = made;
        made->post();
    }
    CHECK(event.expired());
}

}  // namespace wake_event_test
