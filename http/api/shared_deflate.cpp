#include "http/api/shared_deflate.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/limits.hpp"

namespace atl::http {
namespace {

// Compression that saves less than a tenth is not worth a client's time.
constexpr std::size_t k_worth_tenths = 9;

// What readers of live events and of the same replay share at a time.
constexpr std::size_t k_most_forms = 256;
constexpr std::size_t k_most_kept_bytes = 1024 * 1024;
static_assert(k_most_kept_bytes >= base::k_most_deflated_bytes);

}  // namespace

bool ByteBudget::take(std::size_t bytes, base::SteadyTime now) noexcept {
    using Seconds = std::chrono::duration<double>;
    const double gained = Seconds(now - filled_at_).count() * static_cast<double>(bytes_per_s_);
    const double room = static_cast<double>(most_bytes_ - left_bytes_);
    left_bytes_ += static_cast<std::size_t>(std::min(gained, room));
    filled_at_ = now;
    if (bytes > left_bytes_)
        return false;
    left_bytes_ -= bytes;
    return true;
}

SharedDeflate::SharedDeflate() : budget_(base::k_deflate_bytes_per_s, base::k_deflate_stored_bytes) {}

SharedDeflate::Payload SharedDeflate::payload_of(const conversation::EventPtr& event, base::SteadyTime now) {
    const std::size_t size = event->json.size();
    if (size < base::k_least_deflated_bytes || size > base::k_most_deflated_bytes)
        return {};
    if (const Form* const kept = find(event))
        return {kept->bytes, 0};
    if (!budget_.take(size, now))
        return {};
    const bool is_worth_it = deflater_.deflate(event->json, size * k_worth_tenths / 10, scratch_);
    return {keep(event, is_worth_it ? scratch_ : std::string()).bytes, size};
}

const SharedDeflate::Form* SharedDeflate::find(const conversation::EventPtr& event) const {
    const auto found = forms_.find(event.get());
    return found == forms_.end() || found->second.event.lock() != event ? nullptr : &found->second;
}

const SharedDeflate::Form& SharedDeflate::keep(const conversation::EventPtr& event, std::string bytes) {
    while (!order_.empty() &&
           (order_.size() >= k_most_forms || kept_bytes_ + bytes.size() > k_most_kept_bytes)) {
        const auto oldest = forms_.find(order_.front());
        order_.pop_front();
        kept_bytes_ -= oldest->second.bytes.size();
        forms_.erase(oldest);
    }
    kept_bytes_ += bytes.size();
    const auto [at, is_new] = forms_.try_emplace(event.get());
    if (is_new)
        order_.push_back(event.get());
    else
        kept_bytes_ -= at->second.bytes.size();
    at->second = {event, std::move(bytes)};
    return at->second;
}

}  // namespace atl::http
