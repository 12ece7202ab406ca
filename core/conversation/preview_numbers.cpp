#include "core/conversation/preview_numbers.hpp"

#include <algorithm>
#include <utility>

#include "core/plain/preview_limits.hpp"

namespace atl::conversation {
namespace {

using base::k_first_preview_number;
using base::k_preview_number_tries;
using base::k_preview_numbers;

std::uint16_t after(std::uint16_t number) noexcept {
    const bool is_last = number == k_first_preview_number + k_preview_numbers - 1;
    return is_last ? k_first_preview_number : static_cast<std::uint16_t>(number + 1);
}

}  // namespace

std::uint16_t PreviewNumbers::first_choice(std::string_view sandbox_id) noexcept {
    std::uint32_t sum = 0;
    for (const char c : sandbox_id)
        sum += static_cast<unsigned char>(c);
    return static_cast<std::uint16_t>(k_first_preview_number + sum % k_preview_numbers);
}

void PreviewNumbers::restore(PreviewNumber row) {
    const bool is_one =
        row.number >= k_first_preview_number && row.number - k_first_preview_number < k_preview_numbers;
    if (!is_one || known_.contains(row.number) || by_sandbox_.contains(row.sandbox_id))
        return;
    PreviewNumber& kept = known_[row.number] = std::move(row);
    if (!kept.sandbox_id.empty()) {
        by_sandbox_[kept.sandbox_id] = kept.number;
        return;
    }
    last_freed_ = std::max(last_freed_, kept.freed);
    // Two numbers have the same place only where the store had forgotten when the sandbox went.
    while (free_.contains(kept.freed))
        kept.freed = ++last_freed_;
    free_[kept.freed] = kept.number;
}

const PreviewNumber* PreviewNumbers::give(const std::string& sandbox_id, const Usable& is_free) {
    std::size_t tries = k_preview_number_tries;
    const PreviewNumber* const fresh = give_fresh(sandbox_id, is_free, tries);
    return fresh != nullptr ? fresh : give_again(sandbox_id, is_free, tries);
}

const PreviewNumber* PreviewNumbers::give_fresh(const std::string& sandbox_id, const Usable& is_free,
                                                std::size_t& tries) {
    std::uint16_t number = first_choice(sandbox_id);
    auto next = known_.lower_bound(number);
    for (std::size_t seen = 0; seen < k_preview_numbers && tries > 0; ++seen, number = after(number)) {
        if (number == k_first_preview_number)
            next = known_.begin();
        if (next != known_.end() && next->first == number) {
            ++next;
            continue;
        }
        PreviewNumber& row = known_.emplace_hint(next, number, PreviewNumber{})->second;
        row.number = number;
        if (is_free(number))
            return give(row, sandbox_id);
        free(row);
        --tries;
    }
    return nullptr;
}

const PreviewNumber* PreviewNumbers::give_again(const std::string& sandbox_id, const Usable& is_free,
                                                std::size_t& tries) {
    for (std::size_t left = free_.size(); left > 0 && tries > 0; --left, --tries) {
        PreviewNumber& row = known_.at(free_.extract(free_.begin()).mapped());
        row.is_stale = true;
        if (is_free(row.number))
            return give(row, sandbox_id);
        free(row);
    }
    return nullptr;
}

const PreviewNumber* PreviewNumbers::give(PreviewNumber& row, const std::string& sandbox_id) {
    row.sandbox_id = sandbox_id;
    row.freed = 0;
    by_sandbox_[sandbox_id] = row.number;
    return &row;
}

void PreviewNumbers::free(PreviewNumber& row) {
    row.sandbox_id.clear();
    row.freed = ++last_freed_;
    free_[row.freed] = row.number;
}

std::optional<PreviewNumber> PreviewNumbers::take_back(const std::string& sandbox_id) {
    const auto had = by_sandbox_.extract(sandbox_id);
    if (had.empty())
        return std::nullopt;
    PreviewNumber& row = known_.at(had.mapped());
    free(row);
    return row;
}

bool PreviewNumbers::freshen(std::uint16_t number) {
    return std::exchange(known_.at(number).is_stale, false);
}

const PreviewNumber* PreviewNumbers::find(const std::string& sandbox_id) const {
    const auto found = by_sandbox_.find(sandbox_id);
    return found == by_sandbox_.end() ? nullptr : &known_.at(found->second);
}

const PreviewNumber* PreviewNumbers::at(std::uint16_t number) const {
    const auto found = known_.find(number);
    return found == known_.end() || found->second.sandbox_id.empty() ? nullptr : &found->second;
}

}  // namespace atl::conversation
