#include "bridge/guest/tools/tool_run.hpp"

#include <time.h>

#include <algorithm>
#include <cstdio>

namespace atl::guest {
namespace {

// The years that RFC 3339 can write.
constexpr std::int64_t k_first_second = -62'167'219'200;
constexpr std::int64_t k_last_second = 253'402'300'799;

}  // namespace

std::string rfc3339(const timespec& time) {
    const time_t seconds = std::clamp<std::int64_t>(time.tv_sec, k_first_second, k_last_second);
    struct tm parts {};
    gmtime_r(&seconds, &parts);
    char text[64];
    const int size = snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                              parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                              static_cast<int>(time.tv_nsec / 1'000'000));
    return std::string(text, static_cast<std::size_t>(size));
}

std::string counted(std::uint64_t count, std::string_view noun) {
    std::string text = std::to_string(count) + " " + std::string(noun);
    if (count == 1)
        return text;
    if (noun.ends_with("ch"))
        return text + "es";
    if (!noun.ends_with("ry"))
        return text + "s";
    text.pop_back();
    return text + "ies";
}

std::string counted_so_far(std::uint64_t count, std::string_view noun) {
    JsonObject word;
    word.text("message", counted(count, noun) + " so far");
    return std::move(word).close();
}

std::string_view first_characters(std::string_view text, std::size_t most) {
    if (text.size() <= most)
        return text;
    std::size_t at = 0;
    for (std::size_t count = 0; at < text.size() && count < most; ++count) {
        ++at;
        while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
            ++at;
    }
    return text.substr(0, at);
}

}  // namespace atl::guest
