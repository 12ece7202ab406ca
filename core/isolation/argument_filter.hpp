// A seccomp filter as a classic BPF program (seccomp(2)): it allows every call unless a rule refuses its
// arguments. Assembled here and not by libseccomp: that library needs a rule for each bit to say "none of
// these values" of 32 bits, and the kernel compiles the program anew for each launch.
// Invariant: call numbers are those of the native ABI; a call of another ABI kills the process.
// Not here: the rules (seccomp.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

struct sock_filter;

namespace atl::isolation {

enum class Half : std::uint8_t { low, high };
enum class Match : std::uint8_t { any_of, none_of };

/// The condition of a rule on one argument of a call.
struct Condition {
    unsigned argument;  // 0 to 5
    Match match;
    std::vector<std::uint32_t> values;  // at least one
    std::uint32_t mask = ~0U;
    Half half = Half::low;
};

/// For arguments that the kernel takes as 32 bits: the upper half is not looked at.
Condition is_any_of(unsigned argument, std::vector<std::uint32_t> values);
Condition is_none_of(unsigned argument, std::vector<std::uint32_t> values);
Condition has_any_bit(unsigned argument, std::uint32_t bits);
/// Holds if, of the bits of `mask`, exactly those of `value` are set.
Condition has_exactly(unsigned argument, std::uint32_t mask, std::uint32_t value);

class ArgumentFilter {
  public:
    /// The call returns -`error_number`, or 0 without having any effect if that is 0, where all conditions
    /// hold. Of several rules for a call the first that holds counts.
    void refuse(long call, int error_number, std::vector<Condition> when);
    /// Adds such a rule with a further condition: argument `pointer` is not null, in all its 64 bits.
    void refuse_with_pointer(long call, int error_number, unsigned pointer,
                             const std::vector<Condition>& when);

    std::vector<sock_filter> program() const;

  private:
    struct Rule {
        int error_number;
        std::vector<Condition> when;
    };
    static void append(std::vector<sock_filter>& code, const Rule& rule);

    std::map<long, std::vector<Rule>> rules_;
};

}  // namespace atl::isolation
