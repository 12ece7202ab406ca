#include "cgroup/groups.hpp"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "cgroup/files.hpp"
#include "cgroup/limit_files.hpp"
#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/isolation/zygote.hpp"

namespace atl::cgroup {
namespace {

// The pause after a create has taken a prepared group, and between two preparations.
constexpr base::Millis k_refill_pause{2};
constexpr base::Millis k_refill_pause_after_failure{1000};
// Zygotes die within milliseconds of their signal.
constexpr base::Millis k_end_wait{500};

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
    std::unique_ptr<Groups> groups(
        new Groups(executor, timers, std::move(config), open_places(config.instance_id, layout)));
    groups->find_leftovers();
    return groups;
}

// The name of a group that was made ahead is a number: the uids of its members tell its sandbox.
void Groups::find_leftovers() {
    for (const std::string& name : places_.leftovers) {
        auto group = Group::open(executor_, timers_, places_, name);
        if (!group)
            continue;  // it has gone meanwhile
        sandbox::StaleGroup leftover;
        const std::size_t dash = name.find('-');
        const char* const end = name.data() + name.size();
        if (const std::string id = name.substr(0, dash); dash != std::string::npos && base::is_id(id)) {
            leftover.sandbox_id = id;
            std::from_chars(name.data() + dash + 1, end, leftover.generation);
        } else {
            std::uint64_t number = 0;
            std::from_chars(name.data(), end, number);
            last_number_ = std::max(last_number_, number);
        }
        leftover.host_uids = (*group)->host_uids();
        leftover.group = std::move(*group);
        leftovers_.push_back(std::move(leftover));
    }
}

Groups::Groups(base::Executor executor, base::Timers& timers, GroupsConfig config, Places places)
    : executor_(executor),
      timers_(timers),
      config_(std::move(config)),
      places_(std::move(places)),
      freezer_(frozen_by(places_)) {}

Groups::~Groups() {
    timers_.cancel(refill_);
    for (const auto& group : ahead_)
        group->kill();
    const auto deadline = std::chrono::steady_clock::now() + k_end_wait;
    for (const auto& group : ahead_) {
        while (!group->is_empty() && std::chrono::steady_clock::now() < deadline)
            ::poll(nullptr, 0, 1);
    }
    ahead_.clear();
    given_up_.clear();
    leftovers_.clear();
    close_places(places_);
}

// Kills and removes a group without waiting: it may hold a zygote, whose end takes a moment.
void Groups::give_up(std::unique_ptr<Group> group) {
    for (const std::uint64_t ended : std::exchange(ended_, {}))
        given_up_.erase(ended);
    const std::uint64_t number = ++last_given_up_;
    Group& given_up = *given_up_.emplace(number, std::move(group)).first->second;
    given_up.kill();
    given_up.remove([this, number](const base::Result<void>& removed) {
        if (!removed)
            base::LogLine(base::evt::sandbox_cleanup).quoted("err", removed.error().detail()).error();
        // The group must not be destroyed inside its own callback: it goes with the next one, or at the end.
        ended_.push_back(number);
    });
}

bool Groups::needs_zygotes() const {
    return std::ranges::any_of(places_.all, [](const Place& place) { return place.version == 1; });
}

base::Result<std::unique_ptr<Group>> Groups::make_with_zygote() {
    auto group = Group::make(executor_, timers_, places_, std::to_string(++last_number_));
    if (!group)
        return group.error();
    if (auto started = (*group)->start_zygote(config_.zygote); !started)
        return started.error();
    return group;
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
    if (auto limited = group->set_limits(limits); !limited) {
        give_up(std::move(group));
        return limited.error();
    }
    return std::unique_ptr<sandbox::ResourceGroup>(std::move(group));
}

std::optional<std::uint64_t> Groups::cpu_usec() const {
    ControllerFolders folders;
    for (const Place& place : places_.all) {
        for (const Controller controller : {Controller::cpu, Controller::cpuacct}) {
            if (place.controllers.contains(controller))
                folders.emplace(controller, ControllerFolder{place.folder->get(), place.version});
        }
    }
    return read_cpu_usec(folders);
}

void Groups::describe(sandbox::Enforcement& enforcement) const {
    enforcement.memory = enforced_by(places_, Controller::memory);
    enforcement.cpu = enforced_by(places_, Controller::cpu);
    // Without a group the launcher may have a limit of its own.
    if (place_of(places_, Controller::pids) != nullptr)
        enforcement.processes = enforced_by(places_, Controller::pids);
}

}  // namespace atl::cgroup
