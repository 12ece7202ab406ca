#include "core/isolation/argument_filter.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <bit>
#include <cassert>
#include <cstddef>
#include <limits>

namespace atl::isolation {
namespace {

static_assert(std::endian::native == std::endian::little, "the lower half of an argument comes first");
#if defined(__x86_64__)
constexpr std::uint32_t k_native_abi = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t k_native_abi = AUDIT_ARCH_AARCH64;
#else
#error "the filter has to know this processor's ABI"
#endif

constexpr std::size_t k_longest_jump = std::numeric_limits<std::uint8_t>::max();

sock_filter load(std::size_t offset) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
sock_filter jump_if_equal(std::uint32_t value, std::size_t if_equal, std::size_t otherwise) {
    assert(if_equal <= k_longest_jump && otherwise <= k_longest_jump);
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, static_cast<std::uint8_t>(if_equal),
                    static_cast<std::uint8_t>(otherwise));
}
sock_filter answer_call(std::uint32_t action) {
    return BPF_STMT(BPF_RET | BPF_K, action);
}

std::size_t offset_of(const Condition& condition) {
    return offsetof(seccomp_data, args) + condition.argument * sizeof(std::uint64_t) +
           (condition.half == Half::high ? sizeof(std::uint32_t) : 0);
}

std::size_t size_of(const Condition& condition) {
    return 1 + (condition.mask != ~0U ? 1 : 0) + condition.values.size();
}

/// Continues with the next instruction if the condition holds, otherwise jumps over `behind` instructions.
void append_condition(std::vector<sock_filter>& code, const Condition& condition, std::size_t behind) {
    code.push_back(load(offset_of(condition)));
    if (condition.mask != ~0U)
        code.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, condition.mask));
    for (std::size_t left = condition.values.size(); left-- > 0;) {
        const std::uint32_t value = condition.values[condition.values.size() - 1 - left];
        const std::size_t if_last = left == 0 ? behind : 0;
        code.push_back(condition.match == Match::any_of ? jump_if_equal(value, left, if_last)
                                                        : jump_if_equal(value, left + behind, 0));
    }
}

Condition is_not_null(unsigned argument, Half half) {
    return {argument, Match::none_of, {0}, ~0U, half};
}

}  // namespace

Condition is_any_of(unsigned argument, std::vector<std::uint32_t> values) {
    return {argument, Match::any_of, std::move(values)};
}
Condition is_none_of(unsigned argument, std::vector<std::uint32_t> values) {
    return {argument, Match::none_of, std::move(values)};
}
Condition has_any_bit(unsigned argument, std::uint32_t bits) {
    return {argument, Match::none_of, {0}, bits};
}
Condition has_exactly(unsigned argument, std::uint32_t mask, std::uint32_t value) {
    return {argument, Match::any_of, {value}, mask};
}

void ArgumentFilter::refuse(long call, int error_number, std::vector<Condition> when) {
    rules_[call].push_back({error_number, std::move(when)});
}

void ArgumentFilter::refuse_with_pointer(long call, int error_number, unsigned pointer,
                                         const std::vector<Condition>& when) {
    for (const Half half : {Half::low, Half::high}) {
        refuse(call, error_number, when);
        rules_[call].back().when.push_back(is_not_null(pointer, half));
    }
}

void ArgumentFilter::append(std::vector<sock_filter>& code, const Rule& rule) {
    std::size_t behind = 1;  // the answer
    for (const Condition& condition : rule.when)
        behind += size_of(condition);
    for (const Condition& condition : rule.when) {
        behind -= size_of(condition);
        append_condition(code, condition, behind);
    }
    code.push_back(answer_call(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(rule.error_number)));
}

std::vector<sock_filter> ArgumentFilter::program() const {
    std::vector<sock_filter> code = {load(offsetof(seccomp_data, arch)), jump_if_equal(k_native_abi, 1, 0),
                                     answer_call(SECCOMP_RET_KILL_PROCESS), load(offsetof(seccomp_data, nr))};
    for (const auto& [call, rules] : rules_) {
        std::vector<sock_filter> body;
        for (const Rule& rule : rules)
            append(body, rule);
        body.push_back(answer_call(SECCOMP_RET_ALLOW));
        // A body may be longer than the reach of a conditional jump.
        code.push_back(jump_if_equal(static_cast<std::uint32_t>(call), 1, 0));
        code.push_back(BPF_STMT(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(body.size())));
        code.insert(code.end(), body.begin(), body.end());
    }
    code.push_back(answer_call(SECCOMP_RET_ALLOW));
    return code;
}

}  // namespace atl::isolation
