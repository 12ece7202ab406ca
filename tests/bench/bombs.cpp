#include <poll.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/bench/good_client.hpp"
#include "tests/bench/measures.hpp"

namespace atl::bench {
namespace {

using nlohmann::json;

constexpr double k_bomb_ms = 2500;
constexpr double k_quiet_ms = 4000;
constexpr double k_end_ms = 30'000;

/// How a bomb ends as designed: it goes on and holds its own sandbox only, or its sandbox is ended.
struct Bomb {
    const char* name;
    const char* limit;  // that has to be enforced here, or it is left out
    const char* command;
    const char* ends;  // the conversation's statusReason, empty: it goes on or just ends; "any": whichever
};

// In a sandbox with 64 MB of memory, 64 processes, one processor and 64 MB of disk.
constexpr Bomb k_bombs[] = {
    {"fork", "processes", "f() { f & f; }; f 2>/dev/null; while :; do (:) 2>/dev/null; done", ""},
    {"memory_one", "memory", "while :; do x=$(yes | head -c 500000000); done", "oom"},
    {"memory_many", "memory", "for i in {1..20}; do (x=$(yes | head -c 8000000); sleep 20) & done; wait",
     "oom"},
    {"memory_tmpfs", "memory", "while :; do head -c 400000000 /dev/zero > /tmp/x; done", "any"},
    {"memory_page_tables", "memory",
     "perl -e 'my @x; while (1) { push @x, \"x\" x 100 }' & "
     "python3 -c 'import mmap\nm = mmap.mmap(-1, 1 << 42, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | "
     "0x4000)\n"
     "for at in range(0, 1 << 42, 1 << 21): m[at] = 1'; wait",
     // Page tables cannot be taken back, programs' own pages can: the kernel may drop and read those again
     // for many seconds before it kills.
     "any"},
    {"spin", "cpu", "for i in {1..8}; do while :; do :; done & done; wait", ""},
    {"disk_one_file", "disk", "while :; do dd if=/dev/zero of=f bs=1M 2>/dev/null; done", "any"},
    {"disk_many_files", "disk",
     "for ((d = 0; ; d++)); do mkdir $d; for ((i = 0; i < 1000; i++)); do : >$d/$i; done; done", "disk"},
    {"disk_sparse", "disk", "for ((i = 0; ; i++)); do truncate -s 60M f$((i % 1000)); done", ""},
    {"disk_fallocate", "disk", "for ((i = 0; ; i++)); do fallocate -l 20M f$i || sleep 1; done", "disk"},
    {"disk_hard_links", "disk", ": >f; for ((i = 0; ; i++)); do ln f l$i; done", "any"},
    {"disk_unlinked", "disk",
     "for i in 3 4; do eval \"exec $i>f\"; rm f; head -c 60M /dev/zero >&$i; done 2>/dev/null; sleep 20",
     "disk"},
};

constexpr const char* k_limits = R"({"memoryMb":64,"maxProcesses":64,"cpuPercent":100,"diskMb":64})";

class Bombs {
  public:
    Bombs()
        : connection_(server_.server().port()),
          good_(server_, server_.server().create_conversation(connection_, "echo")) {}

    P99 quiet_p99() { return good_.talk_for(sized(k_quiet_ms)); }

    /// The neighbour's p99 while it goes off; none where nothing here would stop it. Throws unless it ends as
    /// designed.
    std::optional<P99> set_off(const Bomb& bomb) {
        const json create{{"agent", "shell"}, {"limits", json::parse(k_limits)}};
        const Response made =
            connection_.exchange(server_.server().request("POST", "/v1/conversations", create.dump()));
        const std::string id = Server::created_id(made.status, made.body);
        const std::string target = "/v1/conversations/" + id;
        const std::string enforced = json::parse(made.body).at("enforcement").at(bomb.limit);
        if (enforced == "none") {
            server_.server().remove_conversation(connection_, id);
            return std::nullopt;
        }
        const json message{{"content", bomb.command}};
        const Response sent =
            connection_.exchange(server_.server().request("POST", target + "/messages", message.dump()));
        if (sent.status != 202)
            throw std::runtime_error("a message was answered " + std::to_string(sent.status));
        const P99 p99 = good_.talk_for(sized(k_bomb_ms));
        // Under a quota writing fails and nobody is ended.
        check_end(bomb, target, enforced == "quota" ? "any" : bomb.ends);
        server_.server().remove_conversation(connection_, id);
        return p99;
    }

  private:
    std::string reason_of(const std::string& target) {
        const Response response = connection_.exchange(server_.server().request("GET", target));
        const json view = json::parse(response.body);
        return view.at("statusReason").is_null() ? "" : view.at("statusReason").get<std::string>();
    }
    void check_end(const Bomb& bomb, const std::string& target, const std::string& wanted) {
        if (wanted == "any")
            return;
        const auto began = Clock::now();
        std::string reason;
        while ((reason = reason_of(target)) != wanted) {
            if (wanted.empty() || ms_since(began) > k_end_ms)
                throw std::runtime_error(std::string("the bomb ") + bomb.name + " ended with \"" + reason +
                                         "\", not \"" + wanted + "\"");
            ::poll(nullptr, 0, 50);
        }
    }

    const EventServer server_;
    Connection connection_;
    GoodClients good_;
};

}  // namespace

Result measure_bombs(Scope scope) {
    Result result{.key = "bomb_message_ms", .unit = "ms"};
    Bombs bombs;
    bombs.quiet_p99();
    // For orientation: before, in the middle and after.
    Samples quiet;
    quiet.add(bombs.quiet_p99().ms);
    std::vector<P99> loads;
    for (const Bomb& bomb : k_bombs) {
        if (scope == Scope::paired_run && std::string_view(bomb.limit) == "memory")
            continue;
        if (const auto p99 = bombs.set_off(bomb)) {
            result.more[bomb.name] = p99->ms;
            result.more[std::string(bomb.name) + "_bare"] = p99->bare_ms;
            loads.push_back(*p99);
        }
        if (&bomb == &k_bombs[std::size(k_bombs) / 2])
            quiet.add(bombs.quiet_p99().ms);
    }
    quiet.add(bombs.quiet_p99().ms);
    result.more["quiet_p99"] = quiet.p50();
    if (loads.empty())
        throw std::runtime_error("this host enforces no limit that a bomb could meet");
    judge_p99(result, loads);
    return result;
}

}  // namespace atl::bench
