// Host names to addresses, by DNS, with c-ares in the loop of the server: nothing here waits. The servers are
// those of resolv.conf, which is read again when it has changed, as /etc/hosts is: its names come before DNS.
//
// Invariants: a name is absolute, so no search domain is tried; an address literal is asked for nowhere; a
// resolution has at most k_max_addresses addresses, whatever servers send; equal look-ups at the same time
// are one; what a look-up costs is covered by the shares that its caller took, until c-ares is done with it.
// Names and answers are hostile. Single-threaded.
// Not here: which names may be asked for, which addresses may be dialled, how many look-ups a second.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/fd_watch.hpp"
#include "core/base/shares.hpp"
#include "core/base/task.hpp"
#include "http/egress/address_cache.hpp"
#include "http/egress/hosts_file.hpp"

struct ares_addrinfo;
struct ares_channeldata;

namespace atl::http {

class Resolver {
  public:
    static constexpr std::size_t k_max_addresses = 64;
    /// An answer is kept no longer than this, whatever its TTL says.
    static constexpr std::chrono::seconds k_longest_ttl{3600};
    /// DNS has a TTL for the absence of addresses, too, which c-ares does not tell; a name of /etc/hosts has
    /// none.
    static constexpr std::chrono::seconds k_own_ttl{5};
    /// How long IPv6 addresses are waited for once there are IPv4 addresses: some servers never answer an
    /// AAAA question.
    static constexpr base::Millis k_other_family_wait{500};

    struct Options {
        std::string resolv_conf = "/etc/resolv.conf";
        std::uint16_t port = 53;  // of all servers
        AddressCache::Bounds cache;
        std::string hosts = "/etc/hosts";
    };
    /// The places that a caller took for a look-up, in the budgets that it keeps to.
    using Shares = std::vector<base::Share>;
    class Query;

    /// The timers and the clock outlive it. Throws std::runtime_error if resolv.conf cannot be read, which
    /// may be absent, or memory is short.
    Resolver(const base::Executor& executor, base::Timers& timers, const base::Clock& clock, Options options);
    /// Its queries are gone.
    ~Resolver();
    Resolver(const Resolver&) = delete;
    Resolver& operator=(const Resolver&) = delete;

    /// Looks `name` up, which may end in one dot. The query may have its answer when this returns; `ready` is
    /// then not called. Otherwise it is called once, from the loop, after at most `deadline`. `shares` are
    /// given back when they cover nothing more: at once for an answer that is known, with the query for a
    /// look-up that others began, and when c-ares is done for one that this begins, which may be seconds
    /// after the query has ended.
    std::unique_ptr<Query> start(std::string_view name, Shares shares, base::Millis deadline,
                                 std::function<void()> ready);

    /// Names that are looked up now.
    std::size_t open_lookups() const noexcept { return open_.size(); }
    /// Keeps the loop no longer: what is under way gets no answer from a name server.
    void let_go() noexcept { watches_.clear(); }

  private:
    struct Lookup;
    using LookupPtr = std::shared_ptr<Lookup>;
    struct Part;  // a question of a look-up: for the addresses of one family
    using Event = base::FdWatch::Event;
    using SocketEvent = std::pair<int, Event>;

    static void on_socket_state(void* self, int socket, int readable, int writable);
    static void on_answer(void* part, int status, int timeouts, ares_addrinfo* found);
    int open_channel(ares_channeldata*& channel);
    void read_servers_again();
    ResolutionPtr find_in_hosts(const std::string& name);
    void ask(const LookupPtr& lookup, int family);
    void take(Part& part, int status, const ares_addrinfo* found);
    void finish(const LookupPtr& lookup);
    void deliver();
    void set_watched(const SocketEvent& which, bool is_wanted);
    void wait_for(const SocketEvent& which, const std::shared_ptr<base::FdWatch>& watch);
    void process(int readable, int writable);
    void arm_retries();

    base::Executor executor_;
    base::Timers& timers_;
    const base::Clock& clock_;
    const Options options_;
    HostsFile hosts_;
    AddressCache cache_;
    ares_channeldata* channel_ = nullptr;
    std::string resolv_conf_version_;
    std::map<SocketEvent, std::shared_ptr<base::FdWatch>> watches_;
    base::TimerId retries_ = 0;
    std::map<std::string, LookupPtr, std::less<>> open_;  // those without an answer
    std::vector<LookupPtr> finished_;                     // their queries do not know it yet
    std::vector<Part> interrupted_;                       // by the end of their channel
    std::shared_ptr<char> alive_ = std::make_shared<char>();
};

/// A caller's interest in a look-up. Destroying it ends the interest: `ready` is not called any more. The
/// look-up itself goes on, and the next one finds its answer.
class Resolver::Query {
  public:
    ~Query();
    Query(const Query&) = delete;
    Query& operator=(const Query&) = delete;

    /// Nothing while it waits. Stays valid after the query.
    const ResolutionPtr& answer() const noexcept { return answer_; }

  private:
    friend class Resolver;
    Query(base::Timers& timers, std::function<void()> ready) : timers_(timers), ready_(std::move(ready)) {}
    void settle(ResolutionPtr answer);
    void leave() noexcept;

    base::Timers& timers_;
    std::function<void()> ready_;
    ResolutionPtr answer_;
    LookupPtr lookup_;  // while it waits
    Shares shares_;     // of one that joined a look-up
    base::TimerId deadline_ = 0;
};

}  // namespace atl::http
