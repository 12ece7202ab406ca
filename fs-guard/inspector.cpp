#include "fs-guard/inspector.hpp"

#include <utility>

namespace atl::fs_guard {

Inspector::~Inspector() {
    stop_waiting();
    if (hold_ != Hold::none)
        (void)ports_.end_hold(id_);
}

void Inspector::inspect(const std::string& id, Done done) {
    id_ = id;
    done_ = std::move(done);
    hold_ = Hold::asked;
    const std::uint64_t number = ++number_;
    // A sandbox that ends meanwhile may give no answer.
    timer_ = ports_.timers.arm(base::k_freeze_deadline + base::k_freeze_deadline / 2, [this, id] {
        timer_ = 0;
        (void)ports_.end_hold(id);
        hold_ = Hold::none;
        look(id);
    });
    ports_.hold(id, [this, alive = std::weak_ptr<int>(alive_), id, number](const base::Result<void>& held) {
        if (alive.expired() || number != number_ || hold_ != Hold::asked)
            return;
        stop_waiting();
        hold_ = held ? Hold::standing : Hold::none;
        look(id);
    });
}

void Inspector::look(const std::string& id) {
    if (hold_ == Hold::standing) {
        timer_ = ports_.timers.arm(k_longest_standstill, [this, id] {
            timer_ = 0;
            hold_ = Hold::none;
            (void)ports_.end_hold(id);
        });
    }
    auto found = [this, alive = std::weak_ptr<int>(alive_), id](const base::Result<Inspection>& inspection) {
        if (!alive.expired())
            finish(id, inspection);
    };
    if (const auto members = ports_.members(id))
        return ports_.look(id, *members, std::move(found));
    ports_.timers.defer([found = std::move(found)] {
        found(base::Error(base::Errc::sandbox_gone, "its processes are gone"));
    });
}

// To be called last: the callback may ask for the next inspection.
void Inspector::finish(const std::string& id, const base::Result<Inspection>& found) {
    stop_waiting();
    const bool stood_still = std::exchange(hold_, Hold::none) == Hold::standing && ports_.end_hold(id);
    const Done done = std::exchange(done_, nullptr);
    if (!found)
        return done(found.error());
    Inspection inspection = *found;
    inspection.stood_still = stood_still;
    done(inspection);
}

void Inspector::stop_waiting() {
    ports_.timers.cancel(std::exchange(timer_, 0));
}

}  // namespace atl::fs_guard
