// The target of a client's p99 beside a load: at most 3 times a bare loop's p99 beside the same load at the
// same time, or 5 ms, whichever is more. Below 5 ms no user feels a difference. Pure.
#pragma once

#include <span>

namespace atl::bench {

/// The p99 of two clients that send the same messages at the same time. Milliseconds.
struct P99 {
    double ms = 0;       // of the server's client
    double bare_ms = 0;  // of the bare loop's
};

constexpr char k_p99_target[] = "p99 <= 3 x floor or 5 ms";

/// The most that `p99.ms` may be.
double p99_limit_ms(const P99& p99);
/// The one that is nearest to its limit, or furthest beyond. Precondition: not empty.
const P99& worst_p99(std::span<const P99> all);

}  // namespace atl::bench
