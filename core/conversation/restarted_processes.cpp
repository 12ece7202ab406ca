#include "core/conversation/restarted_processes.hpp"

#include <algorithm>
#include <utility>

#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/conversation/committed_reply.hpp"
#include "core/conversation/end_cause.hpp"
#include "core/conversation/journal.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/sandbox/manager.hpp"

namespace atl::conversation {

using base::Errc;
using base::Error;
using base::Result;

RestartedProcesses::RestartedProcesses(Context& context, const Record& conversation,
                                       std::function<void()> written)
    : context_(context),
      conversation_(conversation),
      written_(std::move(written)),
      self_(std::make_shared<RestartedProcesses*>(this)) {}

void RestartedProcesses::restore(const std::vector<RestartedProcess>& stored) {
    for (const RestartedProcess& process : stored) {
        last_number_ = std::max(last_number_, process.number);
        entries_.push_back({process, nullptr, nullptr});
    }
}

RestartedProcesses::Entry* RestartedProcesses::find(std::uint32_t number) {
    const auto found = std::ranges::find_if(
        entries_, [number](const Entry& entry) { return entry.process.number == number; });
    return found == entries_.end() ? nullptr : &*found;
}

void RestartedProcesses::write(Write write) {
    context_.journal.add(std::move(write));
    written_();
}

template <class T>
void RestartedProcesses::refuse(const T& reply, Error error) {
    context_.timers.defer([reply, error = std::move(error)] { reply(error); });
}

void RestartedProcesses::start(sandbox::ProcessSpec spec, Reply<pid_t> reply) {
    if (entries_.size() >= base::k_max_kept_processes)
        return refuse(reply,
                      Error(Errc::too_many_kept_processes,
                            "the sandbox has " + std::to_string(base::k_max_kept_processes) +
                                " processes with `restart: \"generation\"` already; end one for good with "
                                "SIGTERM or SIGKILL, or start this one without `restart`"));
    entries_.push_back({{++last_number_, std::move(spec)}, nullptr, std::move(reply)});
    launch(entries_.back());
}

void RestartedProcesses::launch(Entry& entry) {
    const std::uint32_t number = entry.process.number;
    sandbox::Operations* const operations = context_.sandboxes.operations(conversation_.sandbox_id);
    if (operations == nullptr) {
        context_.timers.defer([self = self_, number] {
            if (*self != nullptr)
                (*self)->on_launched(number, end_of_generation((*self)->context_.sandboxes,
                                                               (*self)->conversation_.sandbox_id));
        });
        return;
    }
    entry.question =
        operations->start_process(entry.process.spec, [self = self_, number](const Result<pid_t>& started) {
            if (*self != nullptr)
                (*self)->on_launched(number, started);
        });
}

void RestartedProcesses::on_launched(std::uint32_t number, const Result<pid_t>& started) {
    Entry* const entry = find(number);
    if (entry == nullptr)
        return;
    // The question calls this function, so its destruction is deferred.
    context_.timers.defer(
        [question = std::shared_ptr<sandbox::Question>(std::move(entry->question))] { (void)question; });
    auto reply = std::exchange(entry->reply, nullptr);
    if (!reply) {
        if (!started)
            warn(*entry, started.error());
        return;
    }
    if (!started) {
        entries_.erase(entries_.begin() + (entry - entries_.data()));
        return refuse(reply, started.error());
    }
    write(PutKeptProcess{conversation_.key, entry->process});
    reply_after_commit<pid_t>(
        context_.journal, std::move(reply), [pid = *started] { return pid; },
        Error(base::Errc::storage_failed,
              "the process runs, but the database does not take it: it would not be "
              "started again"));
}

void RestartedProcesses::start_all() {
    for (Entry& entry : entries_) {
        // A process whose first start is under way was asked for in this generation.
        if (entry.reply)
            continue;
        entry.process.spec.id = base::new_id();
        write(PutKeptProcess{conversation_.key, entry.process});
        launch(entry);
    }
}

void RestartedProcesses::warn(const Entry& entry, const Error& why) {
    const sandbox::ProcessSpec& spec = entry.process.spec;
    base::LogLine(base::evt::process_not_restarted)
        .field("conv", conversation_.id)
        .field("sbx", conversation_.sandbox_id)
        .field("process", spec.id)
        .quoted("err", why.detail())
        .warn();
    context_.sandboxes.note(conversation_.sandbox_id, "process " + spec.id +
                                                          (spec.tag.empty() ? "" : " (" + spec.tag + ")") +
                                                          " was not started again: " + why.detail());
}

void RestartedProcesses::end_generation() {
    const Error gone(Errc::sandbox_gone, "the sandbox ended while the process was started");
    for (Entry& entry : entries_) {
        entry.question.reset();
        if (entry.reply)
            refuse(entry.reply, gone);
    }
    std::erase_if(entries_, [](const Entry& entry) { return entry.reply != nullptr; });
}

bool RestartedProcesses::forget(const std::string& id) {
    const auto found = std::ranges::find_if(
        entries_, [&id](const Entry& entry) { return entry.process.spec.id == id && !entry.reply; });
    if (found == entries_.end())
        return false;
    write(EraseKeptProcess{conversation_.key, found->process.number});
    entries_.erase(found);
    return true;
}

void RestartedProcesses::forget_all() {
    end_generation();
    for (const Entry& entry : std::exchange(entries_, {}))
        write(EraseKeptProcess{conversation_.key, entry.process.number});
}

std::vector<sandbox::ProcessSpec> RestartedProcesses::list() const {
    std::vector<sandbox::ProcessSpec> specs;
    for (const Entry& entry : entries_)
        if (!entry.reply)
            specs.push_back(entry.process.spec);
    return specs;
}

}  // namespace atl::conversation
