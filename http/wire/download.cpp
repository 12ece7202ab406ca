#include "http/wire/download.hpp"

#include <algorithm>
#include <array>

#include "http/wire/text.hpp"

namespace atl::http {
namespace {

constexpr std::string_view k_bytes = "application/octet-stream";
constexpr std::string_view k_text = "text/plain; charset=utf-8";

struct Kind {
    std::string_view end;
    std::string_view type;
};

constexpr std::array k_kinds = std::to_array<Kind>({
    {"png", "image/png"}, {"jpg", "image/jpeg"},  {"jpeg", "image/jpeg"},
    {"gif", "image/gif"}, {"webp", "image/webp"}, {"pdf", "application/pdf"},
    {"txt", k_text},      {"md", k_text},         {"log", k_text},
    {"csv", k_text},      {"tsv", k_text},        {"json", k_text},
    {"jsonl", k_text},    {"yaml", k_text},       {"yml", k_text},
    {"toml", k_text},     {"ini", k_text},        {"py", k_text},
    {"js", k_text},       {"mjs", k_text},        {"ts", k_text},
    {"tsx", k_text},      {"jsx", k_text},        {"c", k_text},
    {"h", k_text},        {"cpp", k_text},        {"hpp", k_text},
    {"rs", k_text},       {"go", k_text},         {"java", k_text},
    {"rb", k_text},       {"sh", k_text},         {"sql", k_text},
    {"css", k_text},
});

bool is_control(unsigned char byte) {
    return byte < 0x20 || byte == 0x7F;
}

/// For clients that know no filename*: ASCII, and nothing that they take for an escape.
std::string plain_name(std::string_view name) {
    std::string out;
    for (const char c : name) {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_kept =
            !is_control(byte) && byte < 0x80 && c != '"' && c != '\\' && c != '/' && c != '%';
        // A character that is not kept becomes one `_`, however many bytes it has.
        if (is_kept)
            out.push_back(c);
        else if ((byte & 0xC0) != 0x80)
            out.push_back('_');
    }
    return out;
}

/// RFC 8187: all but the characters that stand for themselves is percent-encoded.
std::string encoded_name(std::string_view name) {
    static constexpr char k_hex[] = "0123456789ABCDEF";
    constexpr std::string_view k_plain = "!#$&+-.^_`|~";
    std::string out;
    for (const char c : name) {
        const auto byte =
            static_cast<unsigned char>(is_control(static_cast<unsigned char>(c)) || c == '/' ? '_' : c);
        const bool is_plain = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
                              (byte >= 'a' && byte <= 'z') ||
                              k_plain.find(static_cast<char>(byte)) != std::string_view::npos;
        if (is_plain)
            out.push_back(static_cast<char>(byte));
        else
            out.append({'%', k_hex[byte >> 4], k_hex[byte & 15]});
    }
    return out;
}

}  // namespace

std::string content_disposition(std::string_view kind, std::string_view name) {
    const std::string plain = plain_name(name);
    std::string out(kind);
    out.append("; filename=\"").append(plain).append("\"");
    if (plain != name)
        out.append("; filename*=UTF-8''").append(encoded_name(name));
    return out;
}

std::string_view harmless_type(std::string_view name) noexcept {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos)
        return k_bytes;
    const std::string_view end = name.substr(dot + 1);
    const auto found = std::find_if(k_kinds.begin(), k_kinds.end(),
                                    [end](const Kind& kind) { return iequals(kind.end, end); });
    return found == k_kinds.end() ? k_bytes : found->type;
}

void forbid_scripts(Response& response) {
    response.headers.emplace_back("Content-Security-Policy", "sandbox; default-src 'none'");
    response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
}

void set_download(Response& response, std::string_view name, Showing showing) {
    forbid_scripts(response);
    response.content_type = harmless_type(name);
    const bool is_shown = showing == Showing::if_harmless && response.content_type != k_bytes;
    response.headers.emplace_back("Content-Disposition",
                                  content_disposition(is_shown ? "inline" : "attachment", name));
}

}  // namespace atl::http
