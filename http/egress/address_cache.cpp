#include "http/egress/address_cache.hpp"

#include <utility>

namespace atl::http {

ResolutionPtr AddressCache::find(std::string_view name, base::SteadyTime now) {
    const auto found = index_.find(name);
    if (found == index_.end())
        return nullptr;
    const auto entry = found->second;
    if (entry->until <= now) {
        remove(entry);
        return nullptr;
    }
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->resolution;
}

void AddressCache::put(const std::string& name, ResolutionPtr resolution, base::SteadyTime until) {
    constexpr std::size_t k_node_bytes = 96;  // of the list, the tree and the shared pointer
    if (const auto found = index_.find(name); found != index_.end())
        remove(found->second);
    const std::size_t bytes = sizeof(Entry) + sizeof(Resolution) + k_node_bytes + name.size() +
                              resolution->addresses.capacity() * sizeof(IpAddress);
    if (bytes > bounds_.bytes || bounds_.entries == 0)
        return;
    while (bytes_ + bytes > bounds_.bytes || index_.size() == bounds_.entries)
        remove(std::prev(entries_.end()));
    entries_.push_front(Entry{name, std::move(resolution), until, bytes});
    index_.emplace(entries_.front().name, entries_.begin());
    bytes_ += bytes;
}

void AddressCache::clear() noexcept {
    index_.clear();
    entries_.clear();
    bytes_ = 0;
}

void AddressCache::remove(Entries::iterator entry) noexcept {
    bytes_ -= entry->bytes;
    index_.erase(entry->name);
    entries_.erase(entry);
}

}  // namespace atl::http
