#include "core/base/error.hpp"

#include <array>
#include <cstring>

namespace atl::base {

std::string_view code_name(Errc code) noexcept {
    static constexpr std::string_view k_names[] = {
#define ATL_ERROR(code, ...) #code,
#include "core/base/errors.def"
    };
    return k_names[static_cast<std::size_t>(code)];
}

std::string errno_text(std::string_view what, int error_number) {
    std::array<char, 128> buffer{};
    // The GNU strerror_r returns the text, which may or may not live in the buffer (strerror_r(3)).
    const char* text = ::strerror_r(error_number, buffer.data(), buffer.size());
    std::string out(what);
    out += ": ";
    out += text;
    if (const char* name = ::strerrorname_np(error_number)) {
        out += " (";
        out += name;
        out += ')';
    }
    return out;
}

}  // namespace atl::base
