#include "core/execution/decimal.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace atl::execution {
namespace {

__extension__ using Wide = unsigned __int128;

Decimal normal(bool is_negative, std::uint64_t digits, int exponent) {
    for (; digits != 0 && digits % 10 == 0; digits /= 10)
        ++exponent;
    return digits == 0 ? Decimal{} : Decimal{is_negative, digits, exponent};
}

std::uint64_t product_modulo(std::uint64_t one, std::uint64_t other, std::uint64_t modulus) {
    return static_cast<std::uint64_t>(static_cast<Wide>(one) * other % modulus);
}

}  // namespace

Decimal Decimal::of(std::uint64_t value) {
    return normal(false, value, 0);
}

Decimal Decimal::of(std::int64_t value) {
    return normal(value < 0,
                  value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value), 0);
}

Decimal Decimal::of(double value) {
    std::array<char, 32> shortest{};
    // Its form is a digit, a fraction and an exponent: "-1.999e+01".
    const auto end =
        std::to_chars(shortest.begin(), shortest.end(), value, std::chars_format::scientific).ptr;
    const std::string_view text(shortest.data(), static_cast<std::size_t>(end - shortest.data()));
    const std::size_t e = std::min(text.find('e'), text.size());
    std::uint64_t digits = 0;
    int exponent = 0;
    bool is_fraction = false;
    for (const char each : text.substr(0, e)) {
        is_fraction = is_fraction || each == '.';
        if (each < '0' || each > '9')
            continue;
        digits = 10 * digits + static_cast<std::uint64_t>(each - '0');
        exponent -= is_fraction ? 1 : 0;
    }
    int power = 0;
    const std::size_t from = e + (e + 1 < text.size() && text[e + 1] == '+' ? 2 : 1);
    if (from < text.size())
        std::from_chars(text.data() + from, text.data() + text.size(), power);
    return normal(text.starts_with('-'), digits, exponent + power);
}

std::string Decimal::text() const {
    constexpr int k_plain_places = 21;  // as JavaScript: below, no exponent
    std::string out = std::to_string(digits);
    const int places = static_cast<int>(out.size()) + exponent;  // before the point
    if (places > k_plain_places || places <= -6) {
        if (out.size() > 1)
            out.insert(1, ".");
        out.append(places > 0 ? "e+" : "e").append(std::to_string(places - 1));
    } else if (exponent >= 0) {
        out.append(static_cast<std::size_t>(exponent), '0');
    } else if (places > 0) {
        out.insert(static_cast<std::size_t>(places), ".");
    } else {
        out.insert(0, "0." + std::string(static_cast<std::size_t>(-places), '0'));
    }
    return (is_negative ? "-" : "") + out;
}

int Decimal::compare(const Decimal& other) const {
    const int sign = digits == 0 ? 0 : is_negative ? -1 : 1;
    const int other_sign = other.digits == 0 ? 0 : other.is_negative ? -1 : 1;
    if (sign != other_sign || sign == 0)
        return sign - other_sign;
    std::string mine = std::to_string(digits);
    std::string others = std::to_string(other.digits);
    const int places = static_cast<int>(mine.size()) + exponent;
    const int other_places = static_cast<int>(others.size()) + other.exponent;
    if (places != other_places)
        return places < other_places ? -sign : sign;
    const std::size_t size = std::max(mine.size(), others.size());
    mine.resize(size, '0');
    others.resize(size, '0');
    return sign * mine.compare(others);
}

bool Decimal::is_multiple_of(const Decimal& divisor) const {
    if (digits == 0)
        return true;
    // Digits do not end in 0, so a power of 10 divides none of them.
    if (exponent < divisor.exponent)
        return false;
    std::uint64_t rest = digits % divisor.digits;
    for (int i = divisor.exponent; i < exponent && rest != 0; ++i)
        rest = product_modulo(rest, 10, divisor.digits);
    return rest == 0;
}

}  // namespace atl::execution
