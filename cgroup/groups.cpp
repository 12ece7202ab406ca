#include "cgroup/groups.hpp"

#include <algorithm>
#include <utility>

#include "cgroup/files.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/isolation/zygote.hpp"

namespace atl::cgroup {
namespace {

// After the create that took one, and between two.
constexpr base::Millis k_refill_pause{2};
constexpr base::Millis k_refill_pause_after_failure{1000};

const Place* place_of(const Places& places, Controller controller) {
    for (const Place& place : places.all) {
        if (place.controllers.contains(controller))
            return &place;
    }
    return nullptr;
}

std::string_view frozen_by(const Places& places) {
    for (const Place& place : places.all) {
        if (place.version == 2 && exists_at(place.folder->get(), "cgroup.freeze"))
            return "cgroup2";
    }
    return place_of(places, Controller::freezer) != nullptr ? "cgroup1" : "none";
}

std::string enforced_by(const Places& places, Controller controller) {
    const Place* place = place_of(places, controller);
    return place == nullptr ? "none" : place->version == 2 ? "cgroup2" : "cgroup1";
}

}  // namespace

base::Result<std::unique_ptr<Groups>> Groups::open(base::Executor executor, base::Timers& timers,
                                                   GroupsConfig config, const Layout& layout) {
    auto places = open_places(config.instance_id, layout);
    if (!places)
        return places.error();
    return std::unique_ptr<Groups>(new Groups(executor, timers, std::move(config), std::move(*places)));
}

Groups::Groups(base::Executor executor, base::Timers& timers, GroupsConfig config, Places places)
    : executor_(executor),
      timers_(timers),
      config_(std::move(config)),
      places_(std::move(places)),
      freezer_(frozen_by(places_)) {}

Groups::~Groups() {
    timers_.cancel(refill_);
    ahead_.clear();
    close_places(places_);
}

bool Groups::needs_zygotes() const {
    return std::ranges::any_of(places_.all, [](const Place& place) { return place.version == 1; });
}

base::Result<std::unique_ptr<Group>> Groups::make_with_zygote() {
    auto group = Group::make(executor_, timers_, places_, std::to_string(++last_number_));
    if (!group)
        return group.error();
    const auto procs = (*group)->open_procs();
    if (!procs)
        return procs.error();
    std::vector<int> join;
    for (const auto& file : *procs)
        join.push_back(file.get());
    auto zygote = isolation::Zygote::start(executor_, config_.zygote, (*group)->clone_into_fd(), join);
    if (!zygote)
        return zygote.error();
    (*group)->hold(std::make_shared<isolation::Zygote>(std::move(*zygote)));
    return group;
}

/// Null where no memory is limited by v1.
EventArmer* Groups::armer() {
    const Place* place = place_of(places_, Controller::memory);
    if (armer_ || armer_failed_ || place == nullptr || place->version != 1)
        return armer_ ? &*armer_ : nullptr;
    auto started = EventArmer::start(executor_, config_.zygote);
    if (started)
        return &armer_.emplace(std::move(*started));
    armer_failed_ = true;
    base::LogLine(base::evt::memory_unwatched).quoted("err", started.error().detail()).warn();
    return nullptr;
}

void Groups::make_ahead() {
    if (refill_ != 0 || !needs_zygotes() || ahead_.size() >= config_.made_ahead)
        return;
    refill_ = timers_.arm(k_refill_pause, [this] {
        refill_ = 0;
        auto group = make_with_zygote();
        if (group) {
            ahead_.push_back(std::move(*group));
            make_ahead();
            return;
        }
        base::LogLine(base::evt::task_failed).field("err", group.error().detail()).warn();
        refill_ = timers_.arm(k_refill_pause_after_failure, [this] {
            refill_ = 0;
            make_ahead();
        });
    });
}

base::Result<std::unique_ptr<sandbox::ResourceGroup>> Groups::create(const std::string& name,
                                                                     const sandbox::Limits& limits) {
    if (places_.all.empty())
        return std::unique_ptr<sandbox::ResourceGroup>();
    std::unique_ptr<Group> group;
    if (!ahead_.empty()) {
        group = std::move(ahead_.front());
        ahead_.pop_front();
    } else {
        auto made = needs_zygotes() ? make_with_zygote() : Group::make(executor_, timers_, places_, name);
        if (!made)
            return made.error();
        group = std::move(*made);
    }
    make_ahead();
    group->set_armer(armer());
    if (auto limited = group->set_limits(limits); !limited)
        return limited.error();
    return std::unique_ptr<sandbox::ResourceGroup>(std::move(group));
}

void Groups::describe(sandbox::Enforcement& enforcement) const {
    enforcement.memory = enforced_by(places_, Controller::memory);
    enforcement.cpu = enforced_by(places_, Controller::cpu);
    // Without a group the launcher may have a limit of its own.
    if (place_of(places_, Controller::pids) != nullptr)
        enforcement.processes = enforced_by(places_, Controller::pids);
}

}  // namespace atl::cgroup
