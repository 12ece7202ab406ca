#include "http/websocket/extensions.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "http/websocket/deflate.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

// RFC 7692 section 7.1.2.
constexpr std::uint64_t k_least_window_bits = 8;
constexpr std::uint64_t k_most_window_bits = 15;
constexpr std::size_t k_known_parameters = 4;

struct Parameter {
    std::string_view name;
    std::optional<std::string> value;
};

struct Extension {
    std::string_view name;
    std::vector<Parameter> parameters;
};

// RFC 9110 section 5.6.2.
bool is_token_char(char c) {
    constexpr std::string_view k_marks = "!#$%&'*+-.^_`|~";
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           k_marks.find(c) != std::string_view::npos;
}

/// Reads one field's value. A function that fails gives nothing; the value is no list of extensions then.
class ListReader {
  public:
    explicit ListReader(std::string_view text) : rest_(text) {}

    std::optional<std::vector<Extension>> read() {
        std::vector<Extension> list;
        for (skip_space(); !rest_.empty(); skip_space()) {
            // Empty elements count for nothing (RFC 9110 section 5.6.1.2).
            if (take(','))
                continue;
            auto extension = read_extension();
            if (!extension || !(rest_.empty() || take(',')))
                return std::nullopt;
            list.push_back(std::move(*extension));
        }
        return list;
    }

  private:
    std::optional<Extension> read_extension() {
        Extension extension{.name = take_token(), .parameters = {}};
        while (!extension.name.empty() && take(';')) {
            Parameter parameter{.name = take_token(), .value = {}};
            if (parameter.name.empty())
                return std::nullopt;
            if (take('=')) {
                parameter.value = take_value();
                if (parameter.value->empty())
                    return std::nullopt;
            }
            extension.parameters.push_back(std::move(parameter));
        }
        return extension.name.empty() ? std::nullopt : std::optional(std::move(extension));
    }

    void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size())); }

    bool take(char wanted) {
        skip_space();
        if (!rest_.starts_with(wanted))
            return false;
        rest_.remove_prefix(1);
        return true;
    }

    std::string_view take_token() {
        skip_space();
        const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_token_char);
        const auto token = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
        rest_.remove_prefix(token.size());
        skip_space();
        return token;
    }

    // A token, quoted or not; empty for anything else.
    std::string take_value() {
        skip_space();
        if (!take('"'))
            return std::string(take_token());
        std::string value;
        while (!rest_.empty() && rest_.front() != '"') {
            const std::size_t at = rest_.front() == '\\' ? 1 : 0;
            if (at >= rest_.size() || !is_token_char(rest_[at]))
                return {};
            value += rest_[at];
            rest_.remove_prefix(at + 1);
        }
        const bool is_closed = take('"');
        skip_space();
        return is_closed ? value : std::string();
    }

    std::string_view rest_;
};

std::optional<std::uint64_t> window_bits(const std::string& value) {
    const auto bits = parse_decimal(value);
    const bool fits = bits && *bits >= k_least_window_bits && *bits <= k_most_window_bits && value[0] != '0';
    return fits ? bits : std::nullopt;
}

// RFC 7692 section 7.1: an offer is declined for a parameter that is unknown, repeated or has a wrong value.
bool is_sound(const Extension& offer) {
    if (offer.parameters.size() > k_known_parameters)
        return false;
    for (auto at = offer.parameters.begin(); at != offer.parameters.end(); ++at) {
        const auto same = [&](const Parameter& other) { return other.name == at->name; };
        if (std::any_of(offer.parameters.begin(), at, same))
            return false;
        const bool has_bits = at->value && window_bits(*at->value);
        const bool known =
            at->name == "server_no_context_takeover" || at->name == "client_no_context_takeover"
                ? !at->value
                : (at->name == "server_max_window_bits" && has_bits) ||
                      (at->name == "client_max_window_bits" && (!at->value || has_bits));
        if (!known)
            return false;
    }
    return true;
}

// The response to an offer; empty: declined. A client's window may have any size: its limit needs no answer.
std::string answer(const Extension& offer) {
    if (offer.name != "permessage-deflate" || !is_sound(offer))
        return {};
    std::string response = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    for (const auto& [name, value] : offer.parameters) {
        if (name != "server_max_window_bits")
            continue;
        if (*window_bits(*value) < k_deflate_window_bits)
            return {};
        response += "; server_max_window_bits=" + std::to_string(k_deflate_window_bits);
    }
    return response;
}

}  // namespace

base::Result<Agreement> agree_on_extensions(const Request& request, Compression wanted) {
    Agreement agreement;
    for (const auto& field : request.fields) {
        if (!iequals(field.name, k_extensions_field))
            continue;
        const auto offers = ListReader(field.value).read();
        if (!offers)
            return Error(Errc::invalid_request,
                         "Sec-WebSocket-Extensions is no list of extensions with parameters.");
        for (const auto& offer : *offers) {
            if (wanted == Compression::none || agreement.compression != Compression::none)
                continue;
            agreement.response = answer(offer);
            if (!agreement.response.empty())
                agreement.compression = Compression::deflate;
        }
    }
    return agreement;
}

}  // namespace atl::http
