#include "core/conversation/preview_ports.hpp"

#include <algorithm>

#include "core/conversation/journal.hpp"

namespace atl::conversation {
namespace {

/// The holder: a user, or a sandbox that has no owner.
base::ShareHolder number_holder(const sandbox::Record& sandbox) {
    return sandbox.holder && sandbox.holder->is_user()
               ? *sandbox.holder
               : base::ShareHolder::owner(sandbox.user_id, sandbox.id);
}

}  // namespace

PreviewPorts::PreviewPorts(base::Timers& timers, const base::Clock& clock, Journal& journal,
                           unsigned user_share_percent, Changed changed)
    : timers_(timers),
      clock_(clock),
      journal_(journal),
      changed_(std::move(changed)),
      shared_({"preview_ports",
               "ports",
               "A conversation or sandbox that is deleted gives its port back.",
               base::k_preview_numbers,
               base::k_preview_numbers_user_floor,
               {}},
              user_share_percent) {}

PreviewPorts::~PreviewPorts() {
    *self_ = nullptr;
    timers_.cancel(timer_);
    timers_.cancel(retry_timer_);
}

void PreviewPorts::restore(const std::vector<PreviewNumber>& rows, std::vector<RestingPreview> resting) {
    for (const PreviewNumber& row : rows) {
        numbers_.restore(row);
        if (numbers_.find(row.sandbox_id) == nullptr)
            continue;
        const auto holder = base::ShareHolder::owner(row.user_id, row.sandbox_id);
        // Beyond the share of its user a sandbox keeps the number that it had.
        if (!take_share(row.sandbox_id, holder))
            owned_.insert_or_assign(row.sandbox_id, Owned{holder, {}});
    }
    resting_ = std::move(resting);
}

void PreviewPorts::enable(PreviewDoors& doors, PreviewPortSettings settings) {
    listens_ = &doors;
    settings_ = settings;
    const base::WallTime now = clock_.wall_now();
    for (const RestingPreview& each : std::exchange(resting_, {})) {
        if (open_.size() >= settings_.max_doors)
            break;
        // A clock that was set back makes nothing younger than this run.
        const base::WallTime since = each.was_up ? now : std::clamp(each.since, now - settings_.linger, now);
        const base::Millis left = settings_.linger - (now - since);
        const PreviewNumber* const row = numbers_.at(each.number);
        if (left <= base::Millis{0} || row == nullptr)
            continue;
        open(each.number, row->sandbox_id);
        if (open_.contains(each.number))
            linger(each.number, clock_.steady_now() + left);
    }
    arm();
}

void PreviewPorts::disable() {
    listens_ = nullptr;
    timers_.cancel(std::exchange(timer_, 0));
    timers_.cancel(std::exchange(retry_timer_, 0));
    refused_.clear();
}

bool PreviewPorts::reserve(const sandbox::Record& sandbox) {
    return listens_ == nullptr || !sandbox::has_own_net(sandbox.network) ||
           (take_share(sandbox.id, number_holder(sandbox)) && give(sandbox.id));
}

/// Takes a share for the sandbox. Returns false where its user has all that one may have.
bool PreviewPorts::take_share(const std::string& sandbox_id, const base::ShareHolder& holder) {
    auto share = shared_.take(holder, 1);
    if (share)
        owned_.insert_or_assign(sandbox_id, Owned{holder, std::move(*share)});
    return share.has_value();
}

bool PreviewPorts::give(const std::string& sandbox_id) {
    const PreviewNumber* const given =
        numbers_.give(sandbox_id, [&](std::uint16_t number) { return open(number, sandbox_id); });
    if (given != nullptr)
        unstored_.insert(given->number);
    else
        owned_.erase(sandbox_id);
    return given != nullptr;
}

void PreviewPorts::store(const std::string& sandbox_id) {
    const PreviewNumber* const row = unstored_.empty() ? nullptr : numbers_.find(sandbox_id);
    if (row != nullptr && unstored_.erase(row->number) > 0)
        journal_.add(PutPreviewNumber{*row});
}

void PreviewPorts::on_up(const sandbox::Record& sandbox) {
    if (listens_ == nullptr || !sandbox::has_own_net(sandbox.network))
        return;
    const PreviewNumber* const row = numbers_.find(sandbox.id);
    if (row == nullptr) {
        if (take_share(sandbox.id, number_holder(sandbox)))
            replace(sandbox.id);
        return;
    }
    stop_lingering(row->number);
    open_or_retry(*row);
}

void PreviewPorts::open_or_retry(const PreviewNumber& row) {
    closed_for_others_.erase(row.sandbox_id);
    if (open(row.number, row.sandbox_id))
        return;
    refused_[row.sandbox_id] = clock_.steady_now() + base::k_preview_number_patience;
    arm_retry();
}

void PreviewPorts::arm_retry() {
    if (retry_timer_ != 0 || refused_.empty())
        return;
    retry_timer_ = timers_.arm(base::k_preview_number_retry, [this] {
        retry_timer_ = 0;
        retry();
        arm_retry();
    });
}

void PreviewPorts::retry() {
    const base::SteadyTime now = clock_.steady_now();
    for (auto at = refused_.begin(); at != refused_.end();) {
        const PreviewNumber* const row = numbers_.find(at->first);
        const bool is_open = row != nullptr && open(row->number, at->first);
        if (!is_open && now < at->second) {
            ++at;
            continue;
        }
        const std::string id = at->first;
        at = refused_.erase(at);
        if (!is_open)
            replace(id);
    }
}

/// Gives another number to a sandbox. Another program listens on its number, or it has none.
void PreviewPorts::replace(const std::string& sandbox_id) {
    const auto old = numbers_.take_back(sandbox_id);
    if (old && unstored_.erase(old->number) == 0)
        journal_.add(PutPreviewNumber{*old});
    if (give(sandbox_id))
        store(sandbox_id);
    else if (!old)
        return;
    timers_.defer([self = self_, id = sandbox_id] {
        if (*self != nullptr)
            (*self)->changed_(id, (*self)->url(id));
    });
}

void PreviewPorts::on_down(const std::string& sandbox_id) {
    refused_.erase(sandbox_id);
    closed_for_others_.erase(sandbox_id);
    const PreviewNumber* const row = numbers_.find(sandbox_id);
    const auto door = row == nullptr ? open_.end() : open_.find(row->number);
    if (door == open_.end() || door->second.until)
        return;
    linger(row->number, clock_.steady_now() + settings_.linger);
    arm();
}

void PreviewPorts::linger(std::uint16_t number, base::SteadyTime until) {
    stop_lingering(number);
    open_.at(number).until = until;
    lingering_.insert({until, number});
}

void PreviewPorts::on_removed(const std::string& sandbox_id) {
    refused_.erase(sandbox_id);
    closed_for_others_.erase(sandbox_id);
    owned_.erase(sandbox_id);
    const auto old = numbers_.take_back(sandbox_id);
    if (!old)
        return;
    close(old->number);
    // The store knows nothing of one whose sandbox it never had.
    if (unstored_.erase(old->number) == 0)
        journal_.add(PutPreviewNumber{*old});
    reopen();
}

/// Returns true if the number can be shown, although perhaps nobody listens on it for want of room.
bool PreviewPorts::open(std::uint16_t number, const std::string& sandbox_id) {
    if (open_.contains(number))
        return true;
    const auto owned = owned_.find(sandbox_id);
    const std::string holder =
        (owned != owned_.end() ? owned->second.holder : base::ShareHolder::thing(sandbox_id)).name();
    if (open_.size() >= settings_.max_doors) {
        const auto spare = spare_door(holder);
        if (!spare)
            return true;
        const PreviewNumber* const row = numbers_.at(*spare);
        if (row != nullptr && !open_.at(*spare).until)
            closed_for_others_.insert(row->sandbox_id);
        close(*spare);
    }
    const PreviewDoors::Opening opened = listens_->open(number);
    if (opened == PreviewDoors::Opening::open) {
        open_[number] = {holder, std::nullopt};
        ++doors_of_[holder];
    }
    return opened != PreviewDoors::Opening::taken;
}

/// The one that is closed for another one of `holder`: of the user who has most, the first that would be
/// closed, or one of a sandbox that lives; else one that lingers of somebody who has no fewer.
std::optional<std::uint16_t> PreviewPorts::spare_door(const std::string& holder) const {
    const auto most = std::max_element(doors_of_.begin(), doors_of_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == doors_of_.end())
        return std::nullopt;
    const auto lingers_of = [this](std::size_t doors) -> std::optional<std::uint16_t> {
        for (const auto& [until, number] : lingering_) {
            if (doors_of_.at(open_.at(number).holder) >= doors)
                return number;
        }
        return std::nullopt;
    };
    if (const auto number = lingers_of(most->second))
        return number;
    const auto own = doors_of_.find(holder);
    const std::size_t owns = own == doors_of_.end() ? 0 : own->second;
    if (most->second <= owns + 1)
        return lingers_of(owns);
    return std::find_if(open_.begin(), open_.end(),
                        [&](const auto& door) { return door.second.holder == most->first; })
        ->first;
}

void PreviewPorts::close(std::uint16_t number) {
    stop_lingering(number);
    const auto door = open_.find(number);
    if (door == open_.end())
        return;
    if (const auto of = doors_of_.find(door->second.holder); --of->second == 0)
        doors_of_.erase(of);
    open_.erase(door);
    if (listens_ != nullptr)
        listens_->close(number);
}

void PreviewPorts::stop_lingering(std::uint16_t number) {
    const auto door = open_.find(number);
    if (door == open_.end() || !door->second.until)
        return;
    lingering_.erase({*door->second.until, number});
    door->second.until.reset();
}

void PreviewPorts::arm() {
    if (timer_ != 0 || lingering_.empty() || listens_ == nullptr)
        return;
    const auto wait = std::chrono::ceil<base::Millis>(lingering_.begin()->first - clock_.steady_now());
    timer_ = timers_.arm(std::max(wait, base::Millis{0}), [this] {
        timer_ = 0;
        close_lingering();
        arm();
    });
}

void PreviewPorts::close_lingering() {
    const base::SteadyTime now = clock_.steady_now();
    while (!lingering_.empty() && lingering_.begin()->first <= now)
        close(lingering_.begin()->second);
    reopen();
}

/// Listens again for sandboxes whose ports were closed for those of others, while there is room.
void PreviewPorts::reopen() {
    while (listens_ != nullptr && !closed_for_others_.empty() && open_.size() < settings_.max_doors) {
        const std::string id = *closed_for_others_.begin();
        closed_for_others_.erase(id);
        if (const PreviewNumber* const row = numbers_.find(id))
            open_or_retry(*row);
    }
}

std::string PreviewPorts::url(const std::string& sandbox_id) const {
    const PreviewNumber* const row = listens_ == nullptr ? nullptr : numbers_.find(sandbox_id);
    return row == nullptr ? "" : "http://localhost:" + std::to_string(row->number) + "/";
}

std::string PreviewPorts::owner(std::uint16_t number) const {
    const PreviewNumber* const row = numbers_.at(number);
    return row == nullptr ? "" : row->sandbox_id;
}

bool PreviewPorts::is_stale(std::uint16_t number) const {
    const PreviewNumber* const row = numbers_.at(number);
    return row != nullptr && row->is_stale;
}

void PreviewPorts::end_stale(std::uint16_t number) {
    if (numbers_.at(number) == nullptr || !numbers_.freshen(number))
        return;
    if (!unstored_.contains(number))
        journal_.add(PutPreviewNumber{*numbers_.at(number)});
}

}  // namespace atl::conversation
