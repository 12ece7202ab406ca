#include "http/egress/resolver.hpp"

#include <ares.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>

namespace atl::http {
namespace {

using Outcome = Resolution::Status;

// A server is asked so often, and waited for so long, twice as long the second time.
constexpr int k_tries = 2;
constexpr base::Millis k_first_try{1500};

ResolutionPtr resolution_of(Outcome status) {
    return std::make_shared<Resolution>(Resolution{status, {}});
}

bool reads_as_number(std::string_view label) {
    const bool is_hex = label.starts_with("0x");
    return label.find_first_not_of(is_hex ? "0123456789abcdef" : "0123456789", is_hex ? 2 : 0) ==
           std::string_view::npos;
}

// The name in small letters and without a dot at its end. If the last label reads as a number, it is a
// literal.
std::optional<std::string> dns_name(std::string_view text) {
    constexpr std::size_t k_max_name_bytes = 253;
    constexpr std::size_t k_max_label_bytes = 63;
    if (text.ends_with('.'))
        text.remove_suffix(1);
    if (text.size() > k_max_name_bytes)
        return std::nullopt;
    std::string name;
    std::size_t label_start = 0;
    for (const char c : text) {
        const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        const bool is_valid =
            (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9') || lower == '-' || lower == '_';
        if (lower == '.' ? name.size() == label_start
                         : !is_valid || name.size() - label_start == k_max_label_bytes)
            return std::nullopt;
        name.push_back(lower);
        if (lower == '.')
            label_start = name.size();
    }
    const auto last_label = std::string_view(name).substr(label_start);
    return last_label.empty() || reads_as_number(last_label) ? std::nullopt : std::optional(name);
}

// IPv4 and IPv6 alternate: a host that has but one of them meets the other's failure only once in a row.
ResolutionPtr found_addresses(const std::vector<IpAddress>& v4, const std::vector<IpAddress>& v6) {
    auto resolution = std::make_shared<Resolution>();
    resolution->status = Outcome::found;
    auto& all = resolution->addresses;
    all.reserve(std::min(v4.size() + v6.size(), Resolver::k_max_addresses));
    for (std::size_t at = 0; at < std::max(v4.size(), v6.size()); ++at) {
        for (const auto* list : {&v4, &v6}) {
            if (at < list->size() && all.size() < Resolver::k_max_addresses)
                all.push_back((*list)[at]);
        }
    }
    return resolution;
}

Outcome outcome_of(int ares_status) noexcept {
    switch (ares_status) {
        case ARES_SUCCESS:
        case ARES_ENODATA:
        case ARES_ENOTFOUND:
            return Outcome::no_addresses;
        case ARES_ETIMEOUT:
            return Outcome::timed_out;
        default:
            return Outcome::server_failed;
    }
}

}  // namespace

struct Resolver::Lookup {
    Lookup(std::string name_, Shares shares_) : name(std::move(name_)), shares(std::move(shares_)) {}

    bool has_addresses() const noexcept { return !v4.empty() || !v6.empty(); }

    const std::string name;
    const Shares shares;
    std::vector<Query*> waiting;  // who came first is first
    std::vector<IpAddress> v4;    // at most k_max_addresses, as v6
    std::vector<IpAddress> v6;
    std::chrono::seconds ttl = k_longest_ttl;
    Outcome failure = Outcome::no_addresses;  // the worst of the parts
    int parts_left = 2;
    base::TimerId other_family = 0;
    ResolutionPtr answer;
};

struct Resolver::Part {
    Resolver* resolver;
    LookupPtr lookup;
    int family;
};

Resolver::Resolver(const base::Executor& executor, base::Timers& timers, const base::Clock& clock,
                   Options options)
    : executor_(executor),
      timers_(timers),
      clock_(clock),
      options_(std::move(options)),
      hosts_(options_.hosts),
      cache_(options_.cache),
      resolv_conf_version_(file_version(options_.resolv_conf)) {
    int status = ares_library_init(ARES_LIB_INIT_ALL);
    if (status == ARES_SUCCESS)
        status = open_channel(channel_);
    if (status != ARES_SUCCESS)
        throw std::runtime_error(fmt::format("The resolver cannot begin with the servers of {}: {}.",
                                             options_.resolv_conf, ares_strerror(status)));
}

Resolver::~Resolver() {
    alive_.reset();
    timers_.cancel(retries_);
    ares_destroy(channel_);
    for (const auto& [name, lookup] : open_) {
        assert(lookup->waiting.empty());
        timers_.cancel(lookup->other_family);
    }
    ares_library_cleanup();
}

int Resolver::open_channel(ares_channeldata*& channel) {
    std::string path = options_.resolv_conf;
    char dns_alone[] = "b";
    ares_options options{};
    options.flags = ARES_FLAG_EDNS | ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES;
    options.timeout = static_cast<int>(k_first_try.count());
    options.tries = k_tries;
    options.udp_port = options_.port;
    options.tcp_port = options_.port;
    options.lookups = dns_alone;
    options.sock_state_cb = &Resolver::on_socket_state;
    options.sock_state_cb_data = this;
    options.resolvconf_path = path.data();
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_UDP_PORT | ARES_OPT_TCP_PORT |
               ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB | ARES_OPT_RESOLVCONF;
#ifdef ARES_OPT_QUERY_CACHE
    // c-ares 1.31 and later have a cache, too, which nothing bounds: `qcache_max_ttl` 0 switches it off.
    mask |= ARES_OPT_QUERY_CACHE;
#endif
    return ares_init_options(&channel, &options, mask);
}

std::unique_ptr<Resolver::Query> Resolver::start(std::string_view name, Shares shares, base::Millis deadline,
                                                 std::function<void()> ready) {
    std::unique_ptr<Query> query(new Query(timers_, std::move(ready)));
    const auto asked = dns_name(name);
    if (!asked) {
        query->answer_ = resolution_of(Outcome::not_a_name);
        return query;
    }
    read_servers_again();
    query->answer_ = cache_.find(*asked, clock_.steady_now());
    if (query->answer_)
        return query;
    LookupPtr lookup;
    if (const auto found = open_.find(*asked); found != open_.end()) {
        lookup = found->second;
        query->shares_ = std::move(shares);
    } else {
        query->answer_ = find_in_hosts(*asked);
        if (query->answer_)
            return query;
        lookup = std::make_shared<Lookup>(*asked, std::move(shares));
        open_.emplace(*asked, lookup);
        ask(lookup, AF_INET);
        ask(lookup, AF_INET6);
        arm_retries();
        query->answer_ = lookup->answer;  // c-ares may refuse a question at once
        if (query->answer_)
            return query;
    }
    query->lookup_ = lookup;
    lookup->waiting.push_back(query.get());
    query->deadline_ = timers_.arm(deadline, [late = query.get()] {
        const Lookup& unfinished = *late->lookup_;
        late->settle(unfinished.has_addresses() ? found_addresses(unfinished.v4, unfinished.v6)
                                                : resolution_of(Outcome::timed_out));
    });
    return query;
}

// c-ares 1.18 reads resolv.conf only when a channel is made.
void Resolver::read_servers_again() {
    auto version = file_version(options_.resolv_conf);
    ares_channeldata* fresh = nullptr;
    if (version == resolv_conf_version_ || open_channel(fresh) != ARES_SUCCESS)
        return;
    resolv_conf_version_ = std::move(version);
    cache_.clear();
    ares_destroy(std::exchange(channel_, fresh));
    for (const Part& part : std::exchange(interrupted_, {})) {
        if (!part.lookup->answer)
            ask(part.lookup, part.family);
    }
    arm_retries();
}

ResolutionPtr Resolver::find_in_hosts(const std::string& name) {
    std::vector<IpAddress> v4;
    std::vector<IpAddress> v6;
    for (const IpAddress& address : hosts_.find(name))
        (address.is_v4() ? v4 : v6).push_back(address);
    if (v4.empty() && v6.empty())
        return nullptr;
    const auto answer = found_addresses(v4, v6);
    cache_.put(name, answer, clock_.steady_now() + k_own_ttl);
    return answer;
}

void Resolver::ask(const LookupPtr& lookup, int family) {
    ares_addrinfo_hints hints{};
    hints.ai_flags = ARES_AI_NOSORT;  // sorting makes sockets
    hints.ai_family = family;
    hints.ai_socktype = SOCK_STREAM;
    // The dot keeps search domains away.
    const std::string absolute = lookup->name + '.';
    ares_getaddrinfo(channel_, absolute.c_str(), nullptr, &hints, &Resolver::on_answer,
                     new Part{this, lookup, family});
}

// Called once for each question, perhaps from inside ares_getaddrinfo() or ares_destroy().
void Resolver::on_answer(void* part, int status, int /*timeouts*/, ares_addrinfo* found) {
    const std::unique_ptr<Part> owned_part(static_cast<Part*>(part));
    const std::unique_ptr<ares_addrinfo, decltype(&ares_freeaddrinfo)> owned(found, &ares_freeaddrinfo);
    owned_part->resolver->take(*owned_part, status, found);
}

void Resolver::take(Part& part, int status, const ares_addrinfo* found) {
    if (status == ARES_EDESTRUCTION) {
        interrupted_.push_back(std::move(part));
        return;
    }
    Lookup& lookup = *part.lookup;
    --lookup.parts_left;
    if (lookup.answer)
        return;
    auto& addresses = part.family == AF_INET ? lookup.v4 : lookup.v6;
    const auto bound_ttl = [&lookup](int seconds) {
        lookup.ttl = std::min(lookup.ttl, std::chrono::seconds(std::max(seconds, 0)));
    };
    if (status == ARES_SUCCESS && found != nullptr) {
        for (const auto* node = found->nodes; node != nullptr; node = node->ai_next) {
            sockaddr_storage address{};
            std::memcpy(&address, node->ai_addr,
                        std::min<std::size_t>(sizeof address, static_cast<std::size_t>(node->ai_addrlen)));
            const auto usable = address_of(address);
            if (!usable || addresses.size() == k_max_addresses)
                continue;
            addresses.push_back(*usable);
            bound_ttl(node->ai_ttl);
        }
        for (const auto* alias = found->cnames; alias != nullptr; alias = alias->next)
            bound_ttl(alias->ttl);
    }
    if (addresses.empty())
        lookup.failure = std::max(lookup.failure, outcome_of(status));
    if (lookup.parts_left == 0)
        finish(part.lookup);
    else if (!lookup.v4.empty())
        lookup.other_family =
            timers_.arm(k_other_family_wait, [this, unfinished = part.lookup] { finish(unfinished); });
}

void Resolver::finish(const LookupPtr& lookup) {
    timers_.cancel(lookup->other_family);
    lookup->answer =
        lookup->has_addresses() ? found_addresses(lookup->v4, lookup->v6) : resolution_of(lookup->failure);
    std::chrono::seconds ttl{0};
    if (lookup->answer->status == Outcome::found)
        ttl = lookup->ttl;
    else if (lookup->answer->status == Outcome::no_addresses)
        ttl = k_own_ttl;
    if (ttl.count() > 0)
        cache_.put(lookup->name, lookup->answer, clock_.steady_now() + ttl);
    finished_.push_back(lookup);
    open_.erase(lookup->name);
    // c-ares may be on the stack, and whoever is told may start the next query.
    if (finished_.size() == 1)
        timers_.defer([this, alive = std::weak_ptr<char>(alive_)] {
            if (!alive.expired())
                deliver();
        });
}

void Resolver::deliver() {
    for (const LookupPtr& lookup : std::exchange(finished_, {})) {
        while (!lookup->waiting.empty())
            lookup->waiting.front()->settle(lookup->answer);
    }
}

// From inside c-ares, through which no exception may pass: a socket that cannot be watched is silent, and the
// deadlines end what waits for it.
void Resolver::on_socket_state(void* self, int socket, int readable, int writable) {
    try {
        auto& resolver = *static_cast<Resolver*>(self);
        resolver.set_watched({socket, Event::readable}, readable != 0);
        resolver.set_watched({socket, Event::writable}, writable != 0);
    } catch (const std::exception&) {
    }
}

void Resolver::set_watched(const SocketEvent& which, bool is_wanted) {
    if (!is_wanted) {
        watches_.erase(which);
        return;
    }
    if (watches_.contains(which))
        return;
    // A copy for the watch, which closes it: the socket is c-ares's.
    base::UniqueFd copy(::fcntl(which.first, F_DUPFD_CLOEXEC, 0));
    if (!copy)
        return;
    const auto watch = std::make_shared<base::FdWatch>(executor_, std::move(copy));
    watches_.emplace(which, watch);
    wait_for(which, watch);
}

void Resolver::wait_for(const SocketEvent& which, const std::shared_ptr<base::FdWatch>& watch) {
    const auto ready = [this, which, weak = std::weak_ptr<base::FdWatch>(watch)] {
        const auto [socket, event] = which;
        process(event == Event::readable ? socket : ARES_SOCKET_BAD,
                event == Event::writable ? socket : ARES_SOCKET_BAD);
        if (const auto same = weak.lock())
            wait_for(which, same);
    };
    watch->wait(which.second, ready);
}

void Resolver::process(int readable, int writable) {
    ares_process_fd(channel_, readable, writable);
    arm_retries();
}

void Resolver::arm_retries() {
    timers_.cancel(std::exchange(retries_, 0));
    timeval left{};
    if (ares_timeout(channel_, nullptr, &left) == nullptr)
        return;
    const auto wait = std::chrono::seconds(left.tv_sec) + std::chrono::microseconds(left.tv_usec);
    retries_ = timers_.arm(std::chrono::floor<base::Millis>(wait) + base::Millis{1}, [this] {
        retries_ = 0;
        process(ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    });
}

Resolver::Query::~Query() {
    leave();
}

void Resolver::Query::leave() noexcept {
    if (!lookup_)
        return;
    timers_.cancel(deadline_);
    std::erase(lookup_->waiting, this);
    lookup_.reset();
    shares_.clear();
}

void Resolver::Query::settle(ResolutionPtr answer) {
    leave();
    answer_ = std::move(answer);
    // It may destroy this object.
    const auto ready = std::move(ready_);
    ready();
}

}  // namespace atl::http
