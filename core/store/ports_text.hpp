// The ports of a preview as one column: decimal numbers with commas. Internal to core/store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace atl::store {

std::string ports_text(const std::vector<std::uint16_t>& ports);
/// What is no port is skipped; the default port if none is left.
std::vector<std::uint16_t> ports_in(std::string_view text);

}  // namespace atl::store
