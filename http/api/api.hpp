// The routes of the API and the services that they use. Handlers are free functions over Api and
// RequestContext: they read the form, call the core, write the view. Where to look: conversations.cpp,
// turns.cpp (messages and events), conversation_socket.cpp (the WebSocket), egress_decisions.cpp, tokens.cpp,
// sandboxes.cpp, sandbox_reports.cpp, exec.cpp, processes.cpp, files.cpp, file_changes.cpp, archive.cpp,
// watch.cpp, tools.cpp, executions.cpp, secrets.cpp, system.cpp.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/limits.hpp"
#include "core/base/loop_meter.hpp"
#include "core/base/shares.hpp"
#include "core/conversation/manager.hpp"
#include "core/sandbox/types.hpp"
#include "core/sandbox/unkillable.hpp"
#include "http/access/limit_settings.hpp"
#include "http/access/subscribers.hpp"
#include "http/server/router.hpp"

namespace atl::execution {
class Executions;
class OffloadedChecks;
}  // namespace atl::execution

namespace atl::secrets {
class Secrets;
}  // namespace atl::secrets

namespace atl::http {

/// Living sandboxes and their memory limits together, and how many and how much there may be.
struct Capacity {
    std::size_t living = 0;
    std::size_t max = 0;
    std::uint64_t memory_mb = 0;
    std::uint64_t max_memory_mb = 0;  // 0: no bound
};

/// Facts about the server; set by app. Every function must be set.
struct SystemInfo {
    std::string version;
    std::string bubblewrap;  // its version; empty: it told none
    std::string default_agent;
    std::map<std::string, std::string> gaps;  // limits that this host does not enforce, and why
    LimitSettings limits;                     // of one client
    sandbox::LimitChanges ceilings{};         // of the limits that any request may ask for
    std::vector<std::string> networks;        // modes that a request may ask for: "none" and others
    std::vector<std::string> egress_groups;   // names of --egress-group, without their patterns
    std::function<sandbox::Enforcement()> enforcement;
    std::function<Capacity()> capacity;
    std::function<std::vector<sandbox::Unkillable>()> undying;  // the oldest first
    std::string warm_pause = "none";                            // the mechanism of freezing: cgroup2, cgroup1
    std::size_t orphans = 0;                    // workspaces that no record names, as the start found them
    std::function<base::Result<void>()> ready;  // an error says why no work can be taken now
    std::function<std::string(const std::string& sandbox_id, std::uint16_t first_port)>
        public_url;                // of previews, ends in "/"; empty: there are none
    std::string preview_frames{};  // where they are: sources of a Content-Security-Policy; empty: nowhere
    const base::LoopMeter* loop = nullptr;  // of the server's loop, while it is measured
    base::Millis heartbeat_interval = base::k_heartbeat_interval;  // of silence in a stream
};

class Metrics;
class StreamTokens;
class DetachedCalls;
class SpareBlocks;
class EgressQuestions;

struct Api {
    conversation::Manager& conversations;
    base::Budgets& budgets;
    SystemInfo system;
    const StreamTokens* tokens = nullptr;                // without: no route makes tokens
    const Metrics* metrics = nullptr;                    // without: /metrics is empty
    SubscriberCounts subscribers;                        // now
    std::shared_ptr<DetachedCalls> detached_calls = {};  // made with the routes that need it
    std::shared_ptr<SpareBlocks> spare_blocks = {};      // the same
    execution::Executions* executions = nullptr;         // without: programs are not run
    execution::OffloadedChecks* checks = nullptr;        // without: tools that take long to check are refused
    secrets::Secrets* secrets = nullptr;                 // without: none can be stored
    EgressQuestions* egress_questions = nullptr;         // without: no sandbox has the network `egress`
};

/// All routes, /openapi.json among them. `api` must outlive the router.
Router make_router(Api& api);

std::vector<Route> conversation_routes(Api& api);
std::vector<Route> turn_routes(Api& api);
std::vector<Route> socket_routes(Api& api);
std::vector<Route> egress_decision_routes(Api& api);
std::vector<Route> token_routes(Api& api);
std::vector<Route> sandbox_routes(Api& api);
std::vector<Route> sandbox_report_routes(Api& api);
std::vector<Route> file_routes(Api& api);
std::vector<Route> file_change_routes(Api& api);
std::vector<Route> archive_routes(Api& api);
std::vector<Route> watch_routes(Api& api);
std::vector<Route> tool_routes(Api& api);
std::vector<Route> exec_routes(Api& api);
std::vector<Route> process_routes(Api& api);
std::vector<Route> execution_routes(Api& api);
std::vector<Route> secret_routes(Api& api);
std::vector<Route> system_routes(Api& api);

/// A route's handler, bound to `api`, which must outlive it.
using ApiHandler = base::Task<base::Result<Response>> (*)(Api&, RequestContext&);
Handler bind_handler(Api& api, ApiHandler handler);

/// The `{id}` of the path. Errors: not_found if it does not have the form of an id.
base::Result<std::string> id_param(const RequestContext& context);

}  // namespace atl::http
