#include "core/conversation/standalone_sandboxes.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/ids.hpp"
#include "core/conversation/journal.hpp"
#include "core/sandbox/env_policy.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;

namespace {

/// What is told of a sandbox; its environment is not, and may be large.
sandbox::Record without_env(const sandbox::Record& record) {
    sandbox::Record told;
    told.id = record.id;
    told.conversation_id = record.conversation_id;
    told.generation = record.generation;
    told.network = record.network;
    told.limits = record.limits;
    told.metadata = record.metadata;
    told.created_at = record.created_at;
    told.ttl_seconds = record.ttl_seconds;
    told.gone = record.gone;
    return told;
}

}  // namespace

void StandaloneSandboxes::create(SandboxRequest request, Reply<SandboxView> reply) {
    const auto refuse = [&](Error error) {
        context_.timers.defer([reply, error = std::move(error)] { reply(error); });
    };
    if (auto usable = context_.journal.usable(); !usable)
        return refuse(usable.error());
    if (auto room = room_(); !room)
        return refuse(room.error());
    if (request.network == sandbox::NetworkMode::host && !context_.settings.allow_host_network)
        return refuse(Error(Errc::network_not_allowed,
                            "network \"host\" is off; the operator allows it with "
                            "--allow-host-network"));
    if (auto checked = sandbox::check_env(request.env); !checked)
        return refuse(checked.error());
    if (auto place = admission_.has_place(request.limits); !place)
        return refuse(place.error());
    sandbox::Record wanted;
    wanted.network = request.network;
    wanted.limits = request.limits;
    wanted.env = std::move(request.env);
    wanted.metadata = std::move(request.metadata);
    wanted.ttl_seconds = request.ttl_seconds.value_or(0);
    auto made = context_.sandboxes.create(std::move(wanted));
    if (!made)
        return refuse(made.error());
    ++count_;
    const std::string id = made->id;
    auto ready = [this, id, reply](const base::Result<void>& started) {
        const sandbox::Record* record = context_.sandboxes.find(id);
        if (!started || record == nullptr) {
            --count_;
            const Error error =
                started ? Error(Errc::sandbox_gone, "the sandbox was removed") : started.error();
            context_.sandboxes.remove(id, [reply, error] { reply(error); });
            return;
        }
        enlist(*record);
        context_.journal.add(PutSandbox{*record});
        context_.journal.after_commit([this, id, reply] {
            reply(get(id));
            context_.sandboxes.claim(id);
        });
    };
    admission_.admit(id, request.limits, [this, id, ready](const base::Result<void>& admitted) {
        if (admitted)
            return context_.sandboxes.start(id, sandbox::AgentSpec{}, ready);
        context_.timers.defer([ready, error = admitted.error()] { ready(error); });
    });
}

void StandaloneSandboxes::adopt(const sandbox::Record& record) {
    if (record.conversation_id.empty())
        ++count_;
    enlist(record);
}

void StandaloneSandboxes::enlist(const sandbox::Record& record) {
    order_.emplace(Order{record.created_at, record.id}, record.id);
    if (record.conversation_id.empty() && record.ttl_seconds > 0)
        arm_time_to_live(record);
}

void StandaloneSandboxes::delist(const sandbox::Record& record) {
    order_.erase(Order{record.created_at, record.id});
    if (const auto timer = timers_of_.extract(record.id))
        context_.timers.cancel(timer.mapped());
}

void StandaloneSandboxes::arm_time_to_live(const sandbox::Record& record) {
    // Timers go by a clock that never jumps; the wall clock counts only here, for what an earlier run made.
    const base::Millis whole = std::chrono::seconds(record.ttl_seconds);
    const auto left =
        std::clamp(record.created_at + whole - context_.clock.wall_now(), base::Millis{0}, whole);
    timers_of_[record.id] =
        context_.timers.arm(left, [this, id = record.id] { remove(id, [](const base::Result<void>&) {}); });
}

SandboxView StandaloneSandboxes::view(const sandbox::Record& record) const {
    SandboxView view;
    view.record = without_env(record);
    view.status = context_.sandboxes.status(record.id);
    view.enforcement = context_.sandboxes.enforcement(record.network, record.id);
    return view;
}

base::Result<SandboxView> StandaloneSandboxes::get(const std::string& id) const {
    const sandbox::Record* record = context_.sandboxes.find(id);
    if (record == nullptr || !order_.contains(Order{record->created_at, id}))
        return Error(Errc::not_found, "there is no such sandbox");
    return view(*record);
}

base::Result<Page<SandboxView>> StandaloneSandboxes::list(std::size_t limit,
                                                          const std::string& cursor) const {
    auto from = order_.begin();
    if (!cursor.empty()) {
        // "milliseconds.id" of the last one seen.
        const auto dot = cursor.find('.');
        std::int64_t millis = 0;
        const auto parsed =
            std::from_chars(cursor.data(), cursor.data() + std::min(dot, cursor.size()), millis);
        if (dot == std::string::npos || parsed.ec != std::errc() || parsed.ptr != cursor.data() + dot ||
            !base::is_id(std::string_view(cursor).substr(dot + 1)))
            return Error(Errc::invalid_request, "cursor is not one that this route gave out");
        from = order_.upper_bound(Order{base::WallTime{base::Millis{millis}}, cursor.substr(dot + 1)});
    }
    Page<SandboxView> page;
    std::size_t bytes = 0;
    const Order* last = nullptr;
    for (std::size_t seen = 0; from != order_.end() && page.items.size() < limit &&
                               bytes <= base::k_list_page_bytes && seen < base::k_list_scan_items;
         ++from, ++seen) {
        last = &from->first;
        if (const sandbox::Record* record = context_.sandboxes.find(from->second)) {
            page.items.push_back(view(*record));
            bytes += record->metadata.size() + base::k_list_item_bytes;
        }
    }
    if (from != order_.end() && last != nullptr)
        page.next = std::to_string(last->first.time_since_epoch().count()) + "." + last->second;
    return page;
}

base::Result<SandboxUsage> StandaloneSandboxes::usage(const std::string& id) const {
    auto found = get(id);
    if (!found)
        return found.error();
    SandboxUsage report;
    report.view = std::move(*found);
    report.at = context_.clock.wall_now();
    report.memory_limit_mb =
        context_.sandboxes.memory_limit_mb(id).value_or(report.view.record.limits.memory_mb);
    report.usage = context_.sandboxes.usage(id);
    report.disk = context_.sandboxes.disk_usage(id);
    return report;
}

base::Result<sandbox::LogPage> StandaloneSandboxes::log(const std::string& id, std::uint64_t after,
                                                        std::optional<sandbox::LogStream> only) const {
    if (auto page = context_.sandboxes.logs().read(id, after, only))
        return std::move(*page);
    // One that nothing was started of in this run of the server has no log yet.
    if (const auto found = get(id); !found)
        return found.error();
    sandbox::LogPage none;
    none.next = after;
    return none;
}

void StandaloneSandboxes::remove(const std::string& id, Reply<void> reply) {
    const auto found = get(id);
    if (!found) {
        context_.timers.defer([reply, error = found.error()] { reply(error); });
        return;
    }
    if (!found->record.conversation_id.empty()) {
        context_.timers.defer([reply, conversation = found->record.conversation_id] {
            reply(Error(Errc::sandbox_in_use, "this sandbox belongs to conversation " + conversation +
                                                  "; delete the conversation instead"));
        });
        return;
    }
    delist(found->record);
    end_leases(id, Error(Errc::sandbox_gone, "the sandbox was deleted"));
    --count_;
    auto is_gone = std::make_shared<bool>(false);
    auto answered = [this, record = found->record, reply, is_gone]() mutable {
        // Not to come back with the next start, which ends what a conversation left that is no more.
        if (!*is_gone) {
            record.conversation_id = base::new_id();
            context_.journal.add(PutSandbox{record});
        }
        context_.journal.after_commit([reply] { reply(base::Result<void>()); });
    };
    context_.sandboxes.remove(id, std::move(answered), [this, id, is_gone] {
        *is_gone = true;
        context_.journal.add(EraseSandbox{id});
    });
}

void StandaloneSandboxes::lease(const std::string& id, LeaseUse use, LeaseReply reply) {
    const auto refuse = [&](Error error) {
        context_.timers.defer([reply, error = std::move(error)] { reply(error); });
    };
    if (const auto found = get(id); !found)
        return refuse(found.error());
    if (context_.sandboxes.channel(id) == nullptr)
        return refuse(Error(Errc::sandbox_gone, "the sandbox has ended"));
    auto& book = leases_.try_emplace(id, context_.timers, [](LeaseUse) {}).first->second;
    book.add(id, use, std::move(reply));
    book.grant();
}

void StandaloneSandboxes::end_leases(const std::string& id, const Error& why) {
    const auto book = leases_.extract(id);
    if (!book.empty())
        book.mapped().end(action::LeaseScope::all, why);
}

void StandaloneSandboxes::on_exit(const std::string& id, const sandbox::Exit& exit) {
    end_leases(id, Error(Errc::sandbox_gone, exit.detail));
}

void StandaloneSandboxes::server_stops() {
    for (auto& [id, book] : std::exchange(leases_, {}))
        book.end(action::LeaseScope::all, Error(Errc::shutting_down, "the server is stopping"));
}

}  // namespace atl::conversation
