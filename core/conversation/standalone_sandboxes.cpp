#include "core/conversation/standalone_sandboxes.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "core/base/ids.hpp"
#include "core/conversation/committed_reply.hpp"
#include "core/conversation/end_cause.hpp"
#include "core/conversation/journal.hpp"
#include "core/conversation/preview_ports.hpp"
#include "core/conversation/store.hpp"
#include "core/conversation/view.hpp"
#include "core/sandbox/env_policy.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;

namespace {

base::ShareHolder holder_of(const SandboxRequest& request) {
    return request.user_id ? base::ShareHolder::user(*request.user_id)
                           : base::ShareHolder::key(request.made_by);
}

Error no_sandbox() {
    return {Errc::not_found, "there is no such sandbox"};
}

/// A sandbox without a conversation starts once, so it keeps the limits that a start sets. Errors:
/// invalid_field.
base::Result<void> can_change(const sandbox::Limits& from, const sandbox::Limits& to,
                              const sandbox::Enforcement& enforcement) {
    const auto is_set_by_start = [&](const sandbox::LimitEntry& limit) {
        return limit.changes == sandbox::LimitEntry::Change::at_start ||
               (limit.value == &sandbox::Limits::max_processes && enforcement.processes == "rlimit");
    };
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
        if (to.*limit.value == from.*limit.value || !is_set_by_start(limit))
            continue;
        const std::string name(limit.api);
        return Error(Errc::invalid_field,
                     "`limits." + name +
                         "` is set by a start, and a sandbox without a conversation has one "
                         "start alone; make another sandbox with this limit")
            .at("/limits/" + name);
    }
    return {};
}

}  // namespace

void StandaloneSandboxes::create(SandboxRequest request, Reply<SandboxView> reply) {
    const auto refuse = [&](Error error) {
        context_.timers.defer([reply, error = std::move(error)] { reply(error); });
    };
    if (auto checked = check(request); !checked)
        return refuse(checked.error());
    sandbox::Record wanted;
    wanted.user_id = request.user_id;
    wanted.holder = holder_of(request);
    wanted.network = request.network.mode;
    wanted.egress = std::move(request.network.egress);
    wanted.limits = request.limits;
    wanted.preview = std::move(request.preview);
    wanted.tools = request.tools;
    wanted.env = std::move(request.env);
    wanted.metadata = std::move(request.metadata);
    wanted.ttl_seconds = context_.settings.default_ttl_seconds;
    base::change_fields(sandbox::k_client_fields, wanted, request);
    auto made = context_.sandboxes.create(std::move(wanted));
    if (!made)
        return refuse(made.error());
    count(request.user_id);
    context_.preview_ports->reserve(*made);
    const std::string id = made->id;
    starting_[id] = request.user_id;
    auto ready = [this, id, user_id = request.user_id, reply](const base::Result<void>& started) {
        const sandbox::Record* record = context_.sandboxes.find(id);
        const bool is_deleted = !starting_.contains(id);
        if (!started || record == nullptr || is_deleted) {
            starting_.erase(id);
            uncount(user_id);
            if (user_id)
                context_.sandboxes.leave_log(id, *user_id);
            const Error error = started || is_deleted ? Error(Errc::sandbox_gone, "the sandbox was removed")
                                                      : started.error();
            context_.sandboxes.remove(id, [reply, error] { reply(error); });
            return;
        }
        enlist(*record);
        context_.journal.add(PutSandbox{*record});
        context_.preview_ports->store(id);
        show_after_commit(
            id, reply,
            [this, id] {
                starting_.erase(id);
                context_.sandboxes.claim(id);
            },
            [this, id] {
                starting_.erase(id);
                // A create that is refused leaves nothing.
                remove(id, [](const base::Result<void>&) {});
                return Error(Errc::storage_failed,
                             "the database does not take the new sandbox; it is removed");
            });
    };
    admission_.admit(id, {request.limits, holder_of(request)},
                     [this, id, ready](const base::Result<void>& admitted) {
                         if (admitted)
                             return context_.sandboxes.start(id, sandbox::AgentSpec{}, ready);
                         context_.timers.defer([ready, error = admitted.error()] { ready(error); });
                     });
}

base::Result<void> StandaloneSandboxes::check(const SandboxRequest& request) const {
    if (auto usable = context_.journal.usable(); !usable)
        return usable;
    if (auto room = room_(); !room)
        return room;
    if (auto room = context_.sandboxes.room_for_files(request.user_id); !room)
        return room;
    const std::size_t most = context_.settings.conversation_bounds.of_user;
    const auto own = request.user_id ? of_user_.find(*request.user_id) : of_user_.end();
    if (own != of_user_.end() && own->second >= most)
        return Error(Errc::too_many_conversations,
                     "this user has " + std::to_string(most) +
                         " sandboxes without a conversation already; delete some");
    if (auto may = check_network(context_, request.network); !may)
        return may;
    if (auto checked = sandbox::check_env(request.env); !checked)
        return checked;
    return admission_.check_capacity({request.limits, holder_of(request)});
}

void StandaloneSandboxes::count(const std::optional<std::string>& user_id) {
    ++count_;
    if (user_id)
        ++of_user_[*user_id];
}

void StandaloneSandboxes::uncount(const std::optional<std::string>& user_id) {
    --count_;
    if (user_id && --of_user_.at(*user_id) == 0)
        of_user_.erase(*user_id);
}

void StandaloneSandboxes::adopt(const sandbox::Record& record) {
    count(record.user_id);
    context_.sandboxes.adopt(record);
    enlist(record);
}

void StandaloneSandboxes::enlist(const sandbox::Record& record) {
    own_[record.id] = 0;
    if (record.ttl_seconds > 0)
        arm_time_to_live(record);
}

const sandbox::Record* StandaloneSandboxes::find(const std::string& id) const {
    return own_.contains(id) ? context_.sandboxes.find(id) : nullptr;
}

void StandaloneSandboxes::arm_time_to_live(const sandbox::Record& record) {
    const base::Millis left =
        std::chrono::seconds(record.ttl_seconds) - context_.ages.age_of(record.created_at);
    own_[record.id] = context_.timers.arm(std::max(left, base::Millis{0}), [this, id = record.id] {
        remove(
            id, [](const base::Result<void>&) {}, "the sandbox's time to live is over");
    });
}

void StandaloneSandboxes::get(const std::string& id, Reply<SandboxView> reply) const {
    // Memory is newer than the store. Sandboxes of the pool have no owner yet.
    const sandbox::Record* const known = context_.sandboxes.find(id);
    if (known != nullptr && known->conversation_id.empty()) {
        if (own_.contains(id))
            return reply(view_of(context_, *known));
        return reply(no_sandbox());
    }
    context_.store.find_sandbox(
        id, [self = self_, id, reply](base::Result<std::optional<sandbox::Record>> found) {
            if (*self == nullptr)
                return;
            const Context& context = (*self)->context_;
            if (!found)
                return reply(found.error());
            if (!*found || (*found)->gone || context.sandboxes.is_being_removed(id))
                return reply(no_sandbox());
            const sandbox::Record* const now = context.sandboxes.find(id);
            reply(view_of(context, now != nullptr ? *now : **found));
        });
}

// Each request of a preview asks this, so a living sandbox is answered without the store.
void StandaloneSandboxes::preview(const std::string& id, Reply<PreviewView> reply) const {
    const sandbox::Record* const known = context_.sandboxes.find(id);
    if (known != nullptr && known->conversation_id.empty() && !own_.contains(id))
        return reply(no_sandbox());
    if (known != nullptr && context_.sandboxes.channel(id) != nullptr)
        return reply(preview_of(context_, *known));
    context_.store.find_sandbox(
        id, [self = self_, id, reply](base::Result<std::optional<sandbox::Record>> found) {
            if (*self == nullptr)
                return;
            const Context& context = (*self)->context_;
            if (!found)
                return reply(found.error());
            if (!*found)
                return reply(no_sandbox());
            const sandbox::Record* const now = context.sandboxes.find(id);
            reply(preview_of(context, now != nullptr ? *now : **found));
        });
}

void StandaloneSandboxes::list(const SandboxQuery& query, Reply<Page<SandboxView>> reply) const {
    SandboxRange range{query.user_id, 0, query.limit};
    if (!query.cursor.empty()) {
        const char* end = query.cursor.data() + query.cursor.size();
        const auto parsed = std::from_chars(query.cursor.data(), end, range.from_key);
        if (parsed.ec != std::errc() || parsed.ptr != end || range.from_key <= 0)
            return reply(Error(Errc::invalid_request, "cursor is not one that this route gave out"));
    }
    context_.store.list_sandboxes(range, [self = self_, reply](base::Result<Listed<sandbox::Record>> listed) {
        if (*self == nullptr)
            return;
        const Context& context = (*self)->context_;
        if (!listed)
            return reply(listed.error());
        Page<SandboxView> page;
        for (const sandbox::Record& record : listed->items) {
            if (context.sandboxes.is_being_removed(record.id))
                continue;
            const sandbox::Record* const now = context.sandboxes.find(record.id);
            page.items.push_back(view_of(context, now != nullptr ? *now : record));
        }
        if (listed->next_key != 0)
            page.next = std::to_string(listed->next_key);
        reply(std::move(page));
    });
}

void StandaloneSandboxes::usage(const std::string& id, Reply<SandboxUsage> reply) const {
    get(id, [&context = context_, id, reply](base::Result<SandboxView> found) {
        if (!found)
            return reply(found.error());
        SandboxUsage report;
        report.view = std::move(*found);
        report.at = context.clock.wall_now();
        report.memory_limit_mb =
            context.sandboxes.memory_limit_mb(id).value_or(report.view.record.limits.memory_mb);
        report.usage = context.sandboxes.usage(id);
        report.disk = context.sandboxes.disk_usage(id);
        reply(std::move(report));
    });
}

void StandaloneSandboxes::log(const std::string& id, std::uint64_t after,
                              std::optional<sandbox::LogStream> only, Reply<sandbox::LogPage> reply) const {
    if (auto page = context_.sandboxes.logs().read(id, after, only))
        return reply(std::move(*page));
    // A sandbox without a start in this run of the server has no log yet.
    get(id, [after, reply](const base::Result<SandboxView>& found) {
        if (!found)
            return reply(found.error());
        sandbox::LogPage none;
        none.next = after;
        reply(std::move(none));
    });
}

void StandaloneSandboxes::refuse_foreign(const std::string& id,
                                         std::function<void(base::Error)> reply) const {
    get(id, [reply = std::move(reply), &timers = context_.timers](const base::Result<SandboxView>& found) {
        Error error = !found ? found.error()
                             : Error(Errc::sandbox_in_use, "this sandbox belongs to conversation " +
                                                               found->record.conversation_id +
                                                               "; change or delete the conversation instead");
        timers.defer([reply, error = std::move(error)] { reply(error); });
    });
}

void StandaloneSandboxes::patch(const std::string& id, const SandboxPatch& patch, Reply<SandboxView> reply) {
    const sandbox::Record* const own = find(id);
    if (own == nullptr)
        return refuse_foreign(id, [reply](const Error& why) { reply(why); });
    const auto refuse = [&](Error error) {
        context_.timers.defer([reply, error = std::move(error)] { reply(error); });
    };
    if (auto usable = context_.journal.usable(); !usable)
        return refuse(usable.error());
    // There is no later start to have another mode.
    if (patch.network && patch.network->mode != own->network)
        return refuse(
            Error(Errc::invalid_field,
                  "the mode of the network of a sandbox without a conversation stays as it was made")
                .at("/network/mode"));
    const auto network = changed_network(context_, *own, patch.network);
    if (!network)
        return refuse(network.error());
    if (patch.limits) {
        const sandbox::Limits limits = patch.limits->applied_to(own->limits);
        if (auto can = can_change(own->limits, limits, context_.sandboxes.enforcement(own->network, id));
            !can)
            return refuse(can.error());
        if (auto fits = context_.sandboxes.room_to_grow(id, limits); !fits)
            return refuse(fits.error());
        if (auto applied = set_limits(id, own->limits, limits); !applied)
            return refuse(applied.error());
    }
    sandbox::Record record = *own;
    change_sandbox(context_, record, *network, patch.preview);
    record.tools = patch.tools.applied_to(record.tools);
    context_.sandboxes.set_tools(id, record.tools);
    base::change_fields(sandbox::k_client_fields, record, patch);
    context_.sandboxes.set_fields(id, record);
    if (patch.ttl_seconds) {
        context_.timers.cancel(std::exchange(own_[id], 0));
        if (record.ttl_seconds > 0)
            arm_time_to_live(record);
    }
    context_.journal.add(PutSandbox{std::move(record)});
    show_after_commit(
        id, std::move(reply), [] {},
        [] {
            return Error(Errc::storage_failed,
                         "the database does not take the change; it holds, and is kept when the database "
                         "takes writes again");
        });
}

base::Result<void> StandaloneSandboxes::set_limits(const std::string& id, sandbox::Limits from,
                                                   const sandbox::Limits& to) {
    const auto applied = context_.sandboxes.set_limits(id, to);
    if (applied)
        return {};
    // There is no later start to have them.
    (void)context_.sandboxes.set_limits(id, from);
    return Error(Errc::host_unsupported, "the kernel of this host refuses these limits (" +
                                             applied.error().detail() +
                                             "); the sandbox keeps those that it had");
}

void StandaloneSandboxes::show_after_commit(const std::string& id, Reply<SandboxView> reply,
                                            std::function<void()> committed, std::function<Error()> refused) {
    const auto once = std::make_shared<Reply<SandboxView>>(std::move(reply));
    context_.journal.answer_after_commit(
        [this, id, once, committed = std::move(committed)] {
            committed();
            if (const auto answer = std::exchange(*once, nullptr))
                get(id, answer);
        },
        [once, refused = std::move(refused)] {
            const auto answer = std::exchange(*once, nullptr);
            answer(refused());
        });
}

std::vector<std::string> StandaloneSandboxes::starting_of(const std::string& user_id) const {
    std::vector<std::string> ids;
    for (const auto& [id, owner] : starting_) {
        if (owner == user_id)
            ids.push_back(id);
    }
    return ids;
}

// The create request is answered when the start has ended. A sandbox that is up already, and whose record is
// being committed, is removed like any other.
void StandaloneSandboxes::remove_starting(const std::string& id, Reply<void> reply) {
    if (starting_.erase(id) == 0 || own_.contains(id))
        return remove(id, std::move(reply));
    context_.sandboxes.remove(id, [reply] { reply(base::Result<void>()); });
}

void StandaloneSandboxes::remove(const std::string& id, Reply<void> reply, std::string why) {
    const sandbox::Record* const own = find(id);
    if (own == nullptr)
        return refuse_foreign(id, [reply](const Error& error) { reply(error); });
    if (own->user_id)
        context_.sandboxes.leave_log(id, *own->user_id);
    context_.timers.cancel(own_.extract(id).mapped());
    end_leases(id, Error(Errc::sandbox_gone, std::move(why)));
    uncount(own->user_id);
    auto is_gone = std::make_shared<bool>(false);
    auto answered = [this, record = *own, reply, is_gone]() mutable {
        // The sandbox must not come back with the next start, which ends what a deleted conversation left.
        if (!*is_gone) {
            record.conversation_id = base::new_id();
            context_.journal.add(PutSandbox{record});
        }
        reply_after_commit<void>(
            context_.journal, reply, [] { return base::Result<void>(); },
            Error(Errc::storage_failed,
                  "the sandbox and its files are removed; its record goes when the database takes writes "
                  "again"));
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
    if (find(id) == nullptr)
        return refuse(no_sandbox());
    if (context_.sandboxes.channel(id) == nullptr)
        return refuse(end_of_generation(context_.sandboxes, id));
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
    end_leases(id, end_error(error_code_of(exit.exit_class), exit.detail));
}

void StandaloneSandboxes::server_stops() {
    for (auto& [id, book] : std::exchange(leases_, {}))
        book.end(action::LeaseScope::all, Error(Errc::shutting_down, "the server is stopping"));
}

}  // namespace atl::conversation
