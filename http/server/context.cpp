#include "http/server/context.hpp"

#include <algorithm>
#include <cassert>

#include "http/wire/connection.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

// The weight of a media range in thousandths (RFC 9110 section 12.4.2); a malformed one counts as full.
unsigned weight_of(std::string_view parameters) noexcept {
    constexpr unsigned k_full = 1000;
    while (!parameters.empty()) {
        const auto parameter = take_element(parameters, ';');
        if (parameter.size() < 3 || !iequals(parameter.substr(0, 2), "q="))
            continue;
        const auto digits = parameter.substr(2);
        if (digits.front() != '0')
            return k_full;
        unsigned thousandths = 0;
        unsigned place = 100;
        for (const char c : digits.substr(std::min<std::size_t>(2, digits.size()))) {
            if (c < '0' || c > '9')
                return k_full;
            thousandths += static_cast<unsigned>(c - '0') * place;
            place /= 10;
        }
        return thousandths;
    }
    return k_full;
}

bool is_json_type(std::string_view content_type) noexcept {
    if (!iequals(take_element(content_type, ';'), "application/json"))
        return false;
    const auto parameter = take_element(content_type, ';');
    return parameter.empty() || iequals(parameter, "charset=utf-8") ||
           iequals(parameter, "charset=\"utf-8\"");
}

}  // namespace

MediaType preferred_media(std::string_view accept) noexcept {
    unsigned stream = 0;
    unsigned json = 0;
    while (!accept.empty()) {
        auto range = take_element(accept, ',');
        const auto type = take_element(range, ';');
        if (iequals(type, "text/event-stream"))
            stream = std::max(stream, weight_of(range));
        else if (iequals(type, "application/json"))
            json = std::max(json, weight_of(range));
    }
    return stream > 0 && stream >= json ? MediaType::event_stream : MediaType::json;
}

RequestContext::RequestContext(Request& of, Connection& connection)
    : request(of), wake_(connection.wake()), aborted_(connection.is_aborted()), connection_(&connection) {}

const std::string& RequestContext::param(std::string_view name) const {
    const auto found =
        std::find_if(params.begin(), params.end(), [&](const auto& p) { return p.first == name; });
    assert(found != params.end());
    return found->second;
}

const std::string* RequestContext::query_value(std::string_view name) const noexcept {
    const auto found =
        std::find_if(query.begin(), query.end(), [&](const auto& item) { return item.first == name; });
    return found == query.end() ? nullptr : &found->second;
}

base::Result<std::optional<std::uint64_t>> RequestContext::query_integer(std::string_view name,
                                                                         IntRange range) const {
    const std::string* text = query_value(name);
    if (text == nullptr)
        return std::optional<std::uint64_t>();
    const auto value = parse_decimal(*text);
    if (!value || *value < range.least || *value > range.most)
        return Error(Errc::invalid_field, "The query parameter `" + std::string(name) +
                                              "` must be an integer from " + std::to_string(range.least) +
                                              " to " + std::to_string(range.most) + '.');
    return value;
}

base::Task<base::Result<void>> RequestContext::async_until(const std::function<bool()>& is_done) {
    while (!is_done()) {
        if (aborted_)
            co_return Error(Errc::shutting_down);
        if (connection_ == nullptr) {
            co_await wake_->async_wait();
            continue;
        }
        const Io io = co_await connection_->async_idle();
        if (io == Io::eof || io == Io::failed)
            co_return Error(Errc::request_timeout, "The client left before its answer.");
    }
    co_return base::Result<void>();
}

base::Result<void> RequestContext::check_json_type() const {
    if (!is_json_type(request.header("Content-Type")))
        return Error(Errc::unsupported_media_type, "Send the body with `Content-Type: application/json`.");
    return {};
}

base::Result<Json> RequestContext::json_body(base::JsonBudget budget) const {
    if (const auto checked = check_json_type(); checked.has_error())
        return checked.error();
    auto json = parse_json(request.body, budget);
    if (limits != nullptr)
        limits->charge(limited, budget.used, std::chrono::steady_clock::now());
    return json;
}

base::Result<std::string> RequestContext::take_json_text() {
    if (const auto checked = check_json_type(); checked.has_error())
        return checked.error();
    std::string text = std::move(request.body);
    drop_body();
    return text;
}

base::Result<Json> RequestContext::json_body_or_empty() const {
    if (request.body.empty())
        return Json::object();
    return json_body();
}

void RequestContext::drop_body() {
    std::string().swap(request.body);
    if (body_place != nullptr)
        body_place->release();
}

}  // namespace atl::http
