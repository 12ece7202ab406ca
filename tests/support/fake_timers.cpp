// The timers of a FakeWorld, which go as far as the test says.
#include <utility>

#include "tests/support/fake_world.hpp"

namespace atl::test {

base::TimerId FakeTimers::arm(base::Millis delay, std::function<void()> fire) {
    const base::TimerId id = ++last_;
    due_.emplace(std::pair{clock_.steady_now() + delay, id}, std::move(fire));
    return id;
}

void FakeTimers::cancel(base::TimerId id) {
    std::erase_if(due_, [&](const auto& entry) { return entry.first.second == id; });
}

bool FakeTimers::run_deferred() {
    if (deferred_.empty())
        return false;
    const auto run = std::move(deferred_.front());
    deferred_.pop_front();
    run();
    return true;
}

bool FakeTimers::fire_next() {
    if (due_.empty())
        return false;
    auto node = due_.extract(due_.begin());
    const auto wait = node.key().first - clock_.steady_now();
    if (wait.count() > 0)
        clock_.advance(std::chrono::duration_cast<base::Millis>(wait));
    node.mapped()();
    return true;
}

void FakeTimers::advance(base::Millis by, const std::function<void()>& then) {
    const auto until = clock_.steady_now() + by;
    while (!due_.empty() && due_.begin()->first.first <= until) {
        fire_next();
        if (then)
            then();
    }
    clock_.advance(std::chrono::duration_cast<base::Millis>(until - clock_.steady_now()));
}

void FakeTimers::clear() {
    due_.clear();
    deferred_.clear();
}

}  // namespace atl::test
