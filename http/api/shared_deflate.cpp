#include "http/api/shared_deflate.hpp"

#include <algorithm>
#include <chrono>

#include "core/base/limits.hpp"

namespace atl::http {
namespace {

// Compression that saves less than a tenth is not worth a client's time.
constexpr std::size_t k_worth_tenths = 9;

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

SharedDeflate::Payload SharedDeflate::payload_of(const conversation::Event& event, base::SteadyTime now) {
    if (event.deflated)
        return {*event.deflated, 0};
    const std::size_t size = event.json.size();
    if (size < base::k_least_deflated_bytes || size > base::k_most_deflated_bytes || !budget_.take(size, now))
        return {};
    const bool is_worth_it = deflater_.deflate(event.json, size * k_worth_tenths / 10, scratch_);
    event.deflated = std::make_unique<const std::string>(is_worth_it ? scratch_ : std::string());
    return {*event.deflated, size};
}

}  // namespace atl::http
