#include "core/base/ids.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace atl::base {
namespace {
// 32 letters: five bits each; without 0 1 l o, which people misread.
constexpr std::string_view k_alphabet = "abcdefghijkmnpqrstuvwxyz23456789";
static_assert(k_alphabet.size() == 32);
}  // namespace

void fill_random(std::span<unsigned char> bytes) {
    while (!bytes.empty()) {
        const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
        if (got <= 0)
            std::abort();
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

std::string new_id() {
    std::array<unsigned char, k_id_length> random{};
    fill_random(random);
    std::string id(k_id_length, '\0');
    std::transform(random.begin(), random.end(), id.begin(),
                   [](unsigned char byte) { return k_alphabet[byte & 31U]; });
    // A label that starts with a letter is valid everywhere a label is.
    if (id[0] >= '0' && id[0] <= '9')
        id[0] = static_cast<char>('a' + (id[0] - '0'));
    return id;
}

bool is_id(std::string_view text) noexcept {
    return text.size() == k_id_length && std::all_of(text.begin(), text.end(), [](char c) {
               return k_alphabet.find(c) != std::string_view::npos;
           });
}

}  // namespace atl::base
