#include "bridge/guest/port_watch.hpp"

#include <time.h>

#include <algorithm>
#include <utility>

namespace atl::guest {
namespace {

std::chrono::nanoseconds processor_time() {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace

Millis PortBudget::wait(Time now) {
    const std::chrono::nanoseconds most = base::k_port_watch_burst;
    left_ = std::min(most, left_ + (now - counted_) / base::k_port_watch_share);
    counted_ = now;
    return left_.count() > 0 ? Millis{0}
                             : std::chrono::ceil<Millis>(-left_ * base::k_port_watch_share) + Millis{1};
}

PortWatch::PortWatch(Loop& loop, const Children& children, PortSources sources)
    : loop_(loop),
      children_(children),
      sources_(std::move(sources)),
      budget_(std::chrono::steady_clock::now()),
      delay_(base::k_first_port_look) {}

void PortWatch::begin(Tell tell) {
    tell_ = std::move(tell);
    stir();
}

void PortWatch::stir() {
    if (!tell_ || (timer_ != 0 && delay_ == base::k_first_port_look))
        return;
    loop_.cancel(timer_);
    arm(base::k_first_port_look);
}

void PortWatch::arm(Millis delay) {
    delay_ = delay;
    const Millis wait = budget_.wait(std::chrono::steady_clock::now());
    timer_ = loop_.arm(std::max(delay, wait), [this] {
        timer_ = 0;
        look();
    });
}

void PortWatch::look() {
    const std::chrono::nanoseconds before = processor_time();
    const auto now = std::chrono::steady_clock::now();
    // Asked first: who began to listen and ended since then is told once more, and not left open.
    const bool is_alone = !children_.any();
    const std::optional<TcpCounts> counts = sources_.counts();
    const bool is_due = !counts || counts != counts_ || now - read_ >= base::k_port_table_interval;
    counts_ = counts;
    if (counts == TcpCounts{}) {
        seen_.clear();
    } else if (is_due) {
        seen_ = sources_.ports();
        read_ = now;
    }
    const bool is_new = seen_ != reported_;
    if (is_new && tell_(seen_))
        reported_ = seen_;
    budget_.spend(processor_time() - before);
    if (is_alone && reported_.empty() && seen_.empty())
        return;  // until somebody is started
    arm(is_new ? base::k_first_port_look : std::min(delay_ * 3 / 2, base::k_last_port_look));
}

}  // namespace atl::guest
