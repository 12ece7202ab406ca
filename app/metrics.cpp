#include "app/metrics.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <string>

#include "core/base/log_output.hpp"
#include "core/base/process_usage.hpp"
#include "core/execution/executions.hpp"
#include "fs-guard/free_space.hpp"

namespace atl::app {
namespace {

using http::Metrics;
using Emit = Metrics::Emit;

double number(std::uint64_t count) {
    return static_cast<double>(count);
}

double seconds(std::chrono::nanoseconds duration) {
    return std::chrono::duration<double>(duration).count();
}

void add_server(Metrics& to, const MetricParts& from) {
    to.constant("atoll_build_info", "The server's version; always 1.", {{"version", from.api.system.version}},
                1);
    to.gauge("atoll_ready", "Whether new work is accepted (1), as /readyz tells it.",
             [&api = from.api] { return api.system.ready().has_value() ? 1.0 : 0.0; });
    to.counters("atoll_http_responses_total",
                "Responses by status code; a stream counts when it has ended, a WebSocket when it begins.",
                [&server = from.server](const Emit& emit) {
                    const auto& responses = server.responses();
                    for (std::size_t status = 0; status < responses.size(); ++status) {
                        if (responses[status] > 0)
                            emit({{"code", std::to_string(status)}}, number(responses[status]));
                    }
                });
    to.gauge("atoll_http_connections", "Open connections of clients.",
             [&server = from.server] { return number(server.connections()); });
    to.gauge("atoll_http_body_bytes",
             "Memory given to long request bodies and WebSocket messages that are not complete "
             "(--body-memory-mb).",
             [&server = from.server] { return number(server.bodies().used_bytes()); });
    to.gauge("atoll_http_bodies_waiting",
             "Long request bodies and WebSocket messages that wait for such memory.",
             [&server = from.server] { return number(server.bodies().waiting()); });
    to.gauges("atoll_subscribers", "Clients that read a conversation's events now, by how they do.",
              [&readers = from.api.subscribers](const Emit& emit) {
                  using Kind = http::SubscriberKind;
                  emit({{"kind", "sse"}}, number(readers.now(Kind::sse)));
                  emit({{"kind", "turn"}}, number(readers.now(Kind::turn)));
                  emit({{"kind", "websocket"}}, number(readers.now(Kind::websocket)));
              });
    to.histogram("atoll_loop_lateness_seconds",
                 "How late the server's loop ran a timer that is due ten times a second: its stalls.", {},
                 from.meter.stalls());
}

void add_sandboxes(Metrics& to, const MetricParts& from) {
    const sandbox::Stats& stats = from.sandboxes.stats();
    to.gauges("atoll_sandboxes", "Sandboxes by the state of their newest generation.",
              [&stats](const Emit& emit) {
                  for (const auto status : sandbox::k_all_statuses)
                      emit({{"state", std::string(to_string(status))}}, number(stats.by_status[status]));
              });
    to.gauge("atoll_sandboxes_living", "Sandboxes that have processes, or are starting or ending.",
             [&sandboxes = from.sandboxes] { return number(sandboxes.living()); });
    to.gauge("atoll_sandboxes_max", "How many may be living (--max-sandboxes).",
             [&sandboxes = from.sandboxes] { return number(sandboxes.capacity()); });
    to.gauge("atoll_sandboxes_undying",
             "Sandboxes whose processes were killed and do not die; each keeps its place.",
             [&sandboxes = from.sandboxes] { return number(sandboxes.undying_count()); });
    to.gauges("atoll_executions", "Programs of code mode that run, and that wait for their turn.",
              [executions = from.api.executions](const Emit& emit) {
                  emit({{"state", "running"}}, number(executions->running()));
                  emit({{"state", "waiting"}}, number(executions->waiting()));
              });
    to.gauges("atoll_executor_pool_ready", "Runners of code mode that wait for a program (--executor-pool).",
              [executions = from.api.executions](const Emit& emit) {
                  for (const auto& pool : executions->pool().states())
                      emit({{"executor", pool.executor}}, number(pool.ready));
              });
    to.counters("atoll_executions_begun_total",
                "Programs that got a runner of the pool, and those for which one was started.",
                [executions = from.api.executions](const Emit& emit) {
                    emit({{"runner", "pooled"}}, number(executions->begun_pooled()));
                    emit({{"runner", "started"}}, number(executions->begun_cold()));
                });
    to.counters(
        "atoll_sandbox_exits_total",
        "Ends of sandboxes that had been ready; class oom is the memory limit, disk_limit the disk's.",
        [&stats](const Emit& emit) {
            for (const auto exit : sandbox::k_all_exit_classes)
                emit({{"class", std::string(to_string(exit))}}, number(stats.exits[exit]));
        });
    to.counter("atoll_sandbox_start_failures_total", "Starts of sandboxes that never became ready.",
               [&stats] { return number(stats.failed_starts); });
    to.constant(
        "atoll_orphaned_workspaces",
        "Workspaces that no record of the database names, as the start found them (atolld orphans list).", {},
        number(from.api.system.orphans));
    to.counters(
        "atoll_sandboxes_ended_for_host_total",
        "Sandboxes that were ended because of what they took from the host: sockets is their limit of "
        "sockets, memory a host that was short of it.",
        [&stats](const Emit& emit) {
            emit({{"reason", "sockets"}}, number(stats.socket_kills));
            emit({{"reason", "memory"}}, number(stats.host_kills));
        });
    to.counters(
        "atoll_launch_failures_total",
        "Sandboxes whose set-up failed before anything ran in them; reason filters_refused: the kernel's "
        "memory for compiled seccomp filters is used up (sysctl net.core.bpf_jit_limit).",
        [&failures = from.launch_failures](const Emit& emit) {
            emit({{"reason", "filters_refused"}}, number(failures.filters_refused));
            emit({{"reason", "other"}}, number(failures.other));
        });
    to.histogram("atoll_sandbox_start_duration_seconds", "From the start of a sandbox to its being ready.",
                 {}, stats.start_latency);
    // The enforcement of this host is probed once, when the server starts.
    const sandbox::Enforcement found = from.api.system.enforcement();
    const std::map<std::string, std::string>& gaps = from.api.system.gaps;
    const auto add = [&to](std::string_view limit, const std::string& by, double is_enforced) {
        to.constant("atoll_limit_enforced",
                    "Whether this host enforces a limit of sandboxes (1), and by what.",
                    {{"limit", std::string(limit)}, {"by", by}}, is_enforced);
    };
    for (const sandbox::EnforcementEntry& limit : sandbox::k_enforcement_table) {
        const std::string& by = found.*limit.by;
        add(limit.api, by, gaps.contains(std::string(limit.api)) || by == "none" ? 0 : 1);
    }
    // Gaps of the host that are no limit's.
    for (const auto& [gap, why] : gaps)
        if (std::ranges::find(sandbox::k_enforcement_table, gap, &sandbox::EnforcementEntry::api) ==
            sandbox::k_enforcement_table.end())
            add(gap, "none", 0);
}

void add_conversations(Metrics& to, const MetricParts& from) {
    const conversation::Stats& stats = from.conversations.stats();
    to.gauges("atoll_conversations", "Conversations by status.", [&stats](const Emit& emit) {
        for (const auto status : conversation::k_all_statuses)
            emit({{"status", std::string(to_string(status))}}, number(stats.by_status[status]));
    });
    to.gauge("atoll_conversations_counted",
             "Conversations that have not ended, and sandboxes without one: what --max-conversations bounds.",
             [&conversations = from.conversations] { return number(conversations.count()); });
    to.gauge("atoll_conversations_loaded",
             "Conversations in memory: those that live or are followed, and those that were just named.",
             [&conversations = from.conversations] { return number(conversations.loaded()); });
    to.gauge("atoll_conversations_max", "How many there may be (--max-conversations).",
             [&conversations = from.conversations] { return number(conversations.bounds().all); });
    to.histogram("atoll_conversation_create_duration_seconds",
                 "From the request for a conversation to its answer, sandbox ready and committed.", {},
                 stats.create_latency);
    to.counter("atoll_turns_started_total", "Turns that were started.",
               [&stats] { return number(stats.turns_started); });
    to.histogram("atoll_turn_duration_seconds", "Turns that have ended.", {}, stats.turn_duration);
}

void add_store(Metrics& to, const MetricParts& from) {
    const conversation::JournalStats& stats = from.journal.stats();
    to.counters("atoll_events_total", "Events that were committed to logs of conversations, by type.",
                [&stats](const Emit& emit) {
                    for (auto number_of = std::uint8_t{1};
                         number_of <= static_cast<std::uint8_t>(conversation::k_last_event_type);
                         ++number_of) {
                        const auto type = static_cast<conversation::EventType>(number_of);
                        emit({{"type", std::string(to_string(type))}}, number(stats.events[type]));
                    }
                });
    to.counter("atoll_event_bytes_total", "Bytes of the events that were committed, as JSON.",
               [&stats] { return number(stats.event_bytes); });
    to.histogram("atoll_store_commit_duration_seconds",
                 "Commits to the database, each a handler of the loop.", {}, stats.commit_duration);
    to.counter("atoll_store_commit_failures_total",
               "Commits that the database refused; they are tried again.",
               [&stats] { return number(stats.refused_commits); });
    to.gauges(
        "atoll_queue_depth",
        "What waits: writes for a commit (journal), coroutines for the loop (wakes), requests for a helper "
        "(measure, remove, checkpoint, check).",
        [&journal = from.journal, &server = from.server, &checker = from.checker,
         helpers = from.helpers](const Emit& emit) {
            emit({{"queue", "journal"}}, number(journal.pending()));
            emit({{"queue", "wakes"}}, number(server.queued_wakes()));
            emit({{"queue", "check"}}, number(checker.pending()));
            for (const auto& [name, helper] : helpers)
                emit({{"queue", name}}, number(helper->pending()));
        });
}

void add_host(Metrics& to, const MetricParts& from) {
    const auto durations = [&to](const std::string& task, const base::Histogram& of) {
        to.histogram("atoll_helper_task_duration_seconds",
                     "Work of the helper processes: walks over workspaces (measure; inspect while a sandbox "
                     "stands still), removals of trees (remove), "
                     "checkpoints of the database (checkpoint), long calls of code mode (check).",
                     {{"task", task}}, of);
    };
    for (const auto& [name, helper] : from.helpers)
        durations(name, helper->durations());
    durations("check", from.checker.durations());
    to.counters("atoll_helper_timeouts_total",
                "Helper processes that were ended since they gave no answer or made no progress in time.",
                [&checker = from.checker, helpers = from.helpers](const Emit& emit) {
                    for (const auto& [name, helper] : helpers)
                        emit({{"task", name}}, number(helper->timeouts()));
                    emit({{"task", "check"}}, number(checker.timeouts()));
                });
    to.counters("atoll_helper_deaths_total", "Helper processes that ended and were started again.",
                [&checker = from.checker, helpers = from.helpers](const Emit& emit) {
                    for (const auto& [name, helper] : helpers)
                        emit({{"task", name}}, number(helper->deaths()));
                    emit({{"task", "check"}}, number(checker.deaths()));
                });
    to.counter("atoll_log_lines_dropped_total",
               "Lines of the log that were dropped, since nobody read it and waiting would stop the server.",
               [] { return number(base::dropped_log_lines()); });
    to.gauge("atoll_disk_free_bytes", "Free bytes of the file system with the workspaces.",
             [path = from.data_dir] {
                 const auto space = fs_guard::free_space(path);
                 return space ? number(space->free_bytes) : 0;
             });
    to.gauge("atoll_disk_size_bytes", "Bytes of the file system with the workspaces, free and used.",
             [path = from.data_dir] {
                 const auto space = fs_guard::free_space(path);
                 return space ? number(space->total_bytes) : 0;
             });
}

void add_egress(Metrics& to, const http::EgressRecorder& recorder) {
    const http::EgressCounters& all = recorder.counters();
    to.counters(
        "atoll_egress_requests_total",
        "Requests on the way out of sandboxes that have ended, tunnels among them: passed on (allowed), "
        "refused or cut (denied), or without an answer (failed).",
        [&all](const Emit& emit) {
            emit({{"decision", "allowed"}}, number(all.allowed));
            emit({{"decision", "denied"}},
                 number(std::accumulate(all.denied.begin(), all.denied.end(), std::uint64_t{0})));
            emit({{"decision", "failed"}}, number(all.failed));
        });
    to.counters("atoll_egress_denied_total", "Those that were denied, by the reason of egress_denied.",
                [&all](const Emit& emit) {
                    for (std::size_t reason = 0; reason < all.denied.size(); ++reason)
                        emit({{"reason", std::string(to_string(static_cast<http::EgressReason>(reason)))}},
                             number(all.denied[reason]));
                });
    to.counters("atoll_egress_bytes_total",
                "Bytes between the server and the hosts that sandboxes reach, of requests that have ended.",
                [&all](const Emit& emit) {
                    emit({{"direction", "up"}}, number(all.bytes_up));
                    emit({{"direction", "down"}}, number(all.bytes_down));
                });
    to.counters("atoll_egress_lookups_total",
                "Names that were looked up for sandboxes, perhaps in the cache: answered or failed.",
                [&all](const Emit& emit) {
                    emit({{"outcome", "answered"}}, number(all.look_ups_answered));
                    emit({{"outcome", "failed"}}, number(all.look_ups_failed));
                });
    to.gauge("atoll_egress_open", "Requests on the way out that are connected now, tunnels among them.",
             [&all] { return number(all.open); });
    if (const http::EgressLog* const log = recorder.log())
        to.counter("atoll_egress_log_lines_dropped_total",
                   "Lines of --egress-log that were dropped, since they did not fit.",
                   [log] { return number(log->dropped_lines()); });
}

// By the names that all clients of Prometheus use (prometheus.io, "Writing client libraries").
void add_process(Metrics& to) {
    const auto started = std::chrono::system_clock::now().time_since_epoch();
    to.constant("process_start_time_seconds", "Start of the server, since the epoch.", {}, seconds(started));
    to.counter("process_cpu_seconds_total", "User and system time of the server itself.",
               [] { return seconds(base::process_usage().cpu); });
    to.gauge("process_resident_memory_bytes", "Resident memory of the server itself.",
             [] { return number(base::process_usage().resident_bytes); });
    to.gauge("process_virtual_memory_bytes", "Virtual memory of the server itself.",
             [] { return number(base::process_usage().virtual_bytes); });
    to.gauge("process_open_fds", "Open descriptors of the server.",
             [] { return number(base::count_open_fds()); });
    to.gauge("process_max_fds", "Descriptors that the server may have.",
             [] { return number(base::process_usage().max_fds); });
}

}  // namespace

void add_metrics(Metrics& to, const MetricParts& from) {
    add_server(to, from);
    add_sandboxes(to, from);
    add_conversations(to, from);
    add_store(to, from);
    add_host(to, from);
    add_process(to);
    if (from.egress != nullptr)
        add_egress(to, *from.egress);
}

}  // namespace atl::app
