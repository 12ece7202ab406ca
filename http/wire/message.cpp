#include "http/wire/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <iterator>

#include "http/wire/text.hpp"

namespace atl::http {

std::string_view to_string(Method method) noexcept {
    switch (method) {
        case Method::get:
            return "GET";
        case Method::head:
            return "HEAD";
        case Method::post:
            return "POST";
        case Method::put:
            return "PUT";
        case Method::patch:
            return "PATCH";
        case Method::delete_:
            return "DELETE";
        case Method::options:
            return "OPTIONS";
        case Method::other:
            return "";
    }
    return "";
}

std::string_view Request::header(std::string_view name) const noexcept {
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const HeaderField& f) { return iequals(f.name, name); });
    return found == fields.end() ? std::string_view{} : found->value;
}

bool Request::has_header(std::string_view name) const noexcept {
    return std::any_of(fields.begin(), fields.end(),
                       [&](const HeaderField& f) { return iequals(f.name, name); });
}

Response json_response(std::string body, unsigned status) {
    Response response;
    response.status = status;
    response.body = std::move(body);
    return response;
}

std::string_view reason_phrase(unsigned status) noexcept {
    // Beast has the names of RFC 7231 for these two.
    if (status == 413)
        return "Content Too Large";
    if (status == 422)
        return "Unprocessable Content";
    const auto phrase = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
    return {phrase.data(), phrase.size()};
}

void write_response(std::string& out, const Response& response, std::string_view request_id,
                    std::string_view date, KeepAlive keep_alive, Framing framing) {
    constexpr std::size_t k_usual_head_bytes = 512;
    const bool with_body = framing == Framing::length;
    out.reserve(out.size() + k_usual_head_bytes + (with_body ? response.body.size() : 0));
    const auto end = std::find_if(response.phrase.begin(), response.phrase.end(),
                                  [](char c) { return c < ' ' || c > '~'; });
    const std::string_view phrase(response.phrase.begin(), end);
    fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\nDate: ", response.status,
                   phrase.empty() ? reason_phrase(response.status) : phrase);
    // RFC 9110 sections 6.4.1 and 8.6: these have neither body nor length.
    const bool bodiless = response.status == 101 || response.status == 204 || response.status == 304;
    out.append(date).append("\r\nX-Request-Id: ").append(request_id);
    out.append("\r\nCache-Control: ").append(response.cache_control);
    out += "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n";
    if (!response.content_type.empty() && !bodiless)
        out.append("Content-Type: ").append(response.content_type).append("\r\n");
    for (const auto& [name, value] : response.headers)
        out.append(name).append(": ").append(value).append("\r\n");
    if (keep_alive == KeepAlive::no)
        out += "Connection: close\r\n";
    else if (keep_alive == KeepAlive::told)
        out += "Connection: keep-alive\r\n";
    if (framing == Framing::chunked)
        out += "Transfer-Encoding: chunked\r\n";
    else if (framing != Framing::until_close && !bodiless)
        fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n",
                       response.length.value_or(response.body.size() + response.lasting_body.size()));
    out += "\r\n";
    if (with_body)
        out += response.body;
    out += response.first_bytes;
}

void write_chunk(std::string& out, std::string_view payload) {
    if (payload.empty())
        return;
    fmt::format_to(std::back_inserter(out), "{:x}\r\n", payload.size());
    out.append(payload).append("\r\n");
}

std::string http_date(std::int64_t unix_seconds) {
    static constexpr std::array<std::string_view, 7> k_days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr std::array<std::string_view, 12> k_months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::time_t seconds = unix_seconds;
    std::tm t{};
    ::gmtime_r(&seconds, &t);
    return fmt::format(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", k_days.at(static_cast<std::size_t>(t.tm_wday)), t.tm_mday,
        k_months.at(static_cast<std::size_t>(t.tm_mon)), t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

}  // namespace atl::http
