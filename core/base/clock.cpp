#include "core/base/clock.hpp"

#include <fmt/format.h>

namespace atl::base {

std::string rfc3339(WallTime time) {
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date{day};
    const std::chrono::hh_mm_ss clock{time - day};
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                       clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                       clock.subseconds().count());
}

namespace {

/// Takes a number of exactly `digits` digits from the front.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) noexcept {
    if (text.size() < digits)
        return std::nullopt;
    int value = 0;
    for (const char c : text.substr(0, digits)) {
        if (c < '0' || c > '9')
            return std::nullopt;
        value = value * 10 + (c - '0');
    }
    text.remove_prefix(digits);
    return value;
}

bool take_one_of(std::string_view& text, std::string_view allowed) noexcept {
    if (text.empty() || allowed.find(text.front()) == std::string_view::npos)
        return false;
    text.remove_prefix(1);
    return true;
}

/// The thousandths of a fraction of a second; nothing if there is no digit.
std::optional<Millis> take_fraction(std::string_view& text) noexcept {
    int thousandths = 0;
    std::size_t digits = 0;
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), ++digits) {
        if (digits < 3)
            thousandths = thousandths * 10 + (text.front() - '0');
    }
    if (digits == 0)
        return std::nullopt;
    for (; digits < 3; ++digits)
        thousandths *= 10;
    return Millis{thousandths};
}

/// "Z" or "+hh:mm", to the end of the text.
std::optional<std::chrono::minutes> take_offset(std::string_view& text) noexcept {
    if (take_one_of(text, "Zz"))
        return text.empty() ? std::optional(std::chrono::minutes{0}) : std::nullopt;
    const int sign = text.starts_with('-') ? -1 : 1;
    if (!take_one_of(text, "+-"))
        return std::nullopt;
    const auto hours = take_digits(text, 2);
    const auto minutes =
        hours && take_one_of(text, ":") ? take_digits(text, 2) : std::optional<int>(std::nullopt);
    if (!minutes || *hours > 23 || *minutes > 59 || !text.empty())
        return std::nullopt;
    return std::chrono::minutes{sign * (*hours * 60 + *minutes)};
}

}  // namespace

std::optional<WallTime> parse_rfc3339(std::string_view text) noexcept {
    const auto next = [&text](bool allowed, std::size_t digits) {
        return allowed ? take_digits(text, digits) : std::nullopt;
    };
    const auto year = next(true, 4);
    const auto month = next(year && take_one_of(text, "-"), 2);
    const auto day = next(month && take_one_of(text, "-"), 2);
    const auto hour = next(day && take_one_of(text, "Tt "), 2);
    const auto minute = next(hour && take_one_of(text, ":"), 2);
    const auto second = next(minute && take_one_of(text, ":"), 2);
    if (!second || *hour > 23 || *minute > 59 || *second > 60)
        return std::nullopt;
    const std::chrono::year_month_day date{std::chrono::year{*year},
                                           std::chrono::month{static_cast<unsigned>(*month)},
                                           std::chrono::day{static_cast<unsigned>(*day)}};
    const auto fraction = take_one_of(text, ".") ? take_fraction(text) : std::optional(Millis{0});
    const auto offset = fraction ? take_offset(text) : std::nullopt;
    if (!date.ok() || !offset)
        return std::nullopt;
    const WallTime time =
        WallTime{std::chrono::duration_cast<Millis>(std::chrono::sys_days{date}.time_since_epoch())} +
        std::chrono::hours{*hour} + std::chrono::minutes{*minute} + std::chrono::seconds{*second} +
        *fraction - *offset;
    return time < WallTime{} ? std::nullopt : std::optional(time);
}

}  // namespace atl::base
