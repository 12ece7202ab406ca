// Numbers of JSON as the decimal fractions that they are written as: 19.99 is 1999 hundredths, which no
// double is. Exact for integers of 64 bits; a double counts as the shortest text that reads as it, and so
// does an integer beyond 2^63 that valijson has checked.
#pragma once

#include <cstdint>
#include <string>

namespace atl::execution {

/// `digits` times 10 to the power of `exponent`; `digits` does not end in 0, but that 0 has an exponent of 0.
struct Decimal {
    bool is_negative = false;
    std::uint64_t digits = 0;
    int exponent = 0;

    static Decimal of(double value);  // finite
    static Decimal of(std::int64_t value);
    static Decimal of(std::uint64_t value);

    std::string text() const;  // as JavaScript writes it, at most
    /// Below 0, 0 or above 0, as it is less than, equal to or greater than `other`.
    int compare(const Decimal& other) const;
    /// `divisor` is greater than 0.
    bool is_multiple_of(const Decimal& divisor) const;
};

}  // namespace atl::execution
