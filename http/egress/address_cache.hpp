// Answers of the resolver, kept until they expire, in bounded memory: when an entry or its bytes no longer
// fit, the least recently used ones go. Pure: the caller passes the time. Names are hostile, so the index is
// a tree: no choice of names makes it slow. Not here: how long an answer may be kept (resolver.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.hpp"
#include "http/access/ip_address.hpp"

namespace atl::http {

/// The outcome of a look-up.
struct Resolution {
    enum class Status : std::uint8_t {
        found,
        no_addresses,   // the servers say that there are none
        not_a_name,     // an address literal, or no name that DNS could have: nobody was asked
        server_failed,  // no server gave an answer that can be used
        timed_out,
    };

    Status status = Status::server_failed;
    std::vector<IpAddress> addresses;  // not empty exactly if found
};
using ResolutionPtr = std::shared_ptr<const Resolution>;

class AddressCache {
  public:
    struct Bounds {
        std::size_t entries = 4096;
        std::size_t bytes = 2UL * 1024 * 1024;  // counted with what the tables themselves take, roughly
    };
    explicit AddressCache(Bounds bounds) noexcept : bounds_(bounds) {}

    /// Nothing if there is no entry that lasts beyond `now`.
    ResolutionPtr find(std::string_view name, base::SteadyTime now);
    /// Replaces the entry of that name. One that is larger than all bytes is not kept.
    void put(const std::string& name, ResolutionPtr resolution, base::SteadyTime until);
    void clear() noexcept;

    std::size_t entries() const noexcept { return index_.size(); }
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    struct Entry {
        std::string name;
        ResolutionPtr resolution;
        base::SteadyTime until;
        std::size_t bytes;
    };
    using Entries = std::list<Entry>;

    void remove(Entries::iterator entry) noexcept;

    const Bounds bounds_;
    Entries entries_;                                      // the most recently used in front
    std::map<std::string_view, Entries::iterator> index_;  // its keys are views of the entries' names
    std::size_t bytes_ = 0;
};

}  // namespace atl::http
