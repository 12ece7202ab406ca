// The routing table: one list says what the server answers, and the OpenAPI document is made of the same list
// (openapi.hpp). Immutable once made. A last parameter `{name...}` spans segments; what its value is, and
// what it is not, says README.md. Not here: what the handlers do.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/task.hpp"
#include "http/server/context.hpp"
#include "http/server/service.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// Decides from a request's principal and path if it may have the route at all; an error refuses it. Runs
/// before the body is read.
using Guard = std::function<base::Task<base::Result<void>>(RequestContext&)>;

/// token_or_key: a key, or else a stream token of the conversation or sandbox `{id}` in the query as `token`,
/// which the route declares (k_token_parameter); `Route::token_scope` says which tokens.
enum class Auth : std::uint8_t { required, open, token_or_key };

/// Says if a key that is for one user's conversations only may have the route, where the path does not name
/// what belongs to somebody (ownership.hpp).
enum class UserKeys : std::uint8_t { refused, allowed };

/// Says what the route makes of the connection. websocket: a client whose token is bad, or whose origin is
/// not allowed, gets the WebSocket and a close frame that says so, since a browser's page reads no status of
/// a refused handshake.
enum class Opens : std::uint8_t { response, websocket };

struct QueryParameter {
    std::string_view name;
    std::string_view schema;  // JSON text
    std::string_view description;
    bool is_family = false;    // every name that begins so, as "metadata." and a member's name
    bool is_required = false;  // told by the document; the handler refuses
    bool is_bytes = false;     // its value need not be UTF-8
};

/// True if a query's parameter of this name is the one that is declared, or one of that family.
inline bool declares(const QueryParameter& parameter, std::string_view name) noexcept {
    return parameter.is_family ? name.size() > parameter.name.size() && name.starts_with(parameter.name)
                               : name == parameter.name;
}

/// A query parameter that each route with Auth::token_or_key has.
inline constexpr QueryParameter k_token_parameter{"token", R"({"type":"string"})",
                                                  "A stream token, for who cannot send a key in a header."};

/// A field of the request's head that a route reads.
struct HeaderParameter {
    std::string_view name;
    std::string_view description;
};

/// The header field of routes that act at most once for one key.
inline constexpr HeaderParameter k_idempotency_parameter{
    "Idempotency-Key",
    "Makes sending the request again safe: 1 to 256 visible ASCII characters. The same request with the same "
    "key gets what the first one made."};

/// A response that a route may give besides problems.
struct ResponseSpec {
    unsigned status;
    std::string_view description;
    std::string_view schema;  // name in components/schemas; empty: no body
    std::string_view media_type = "application/json";
};

struct Route {
    Method method;
    std::string_view pattern;  // "/v1/things/{id}", "/files/{path...}": parameters are in braces
    std::string_view name;     // operationId
    std::string_view summary;
    Handler handler;
    Auth auth = Auth::required;
    BodyKind body = BodyKind::none;
    std::string_view request_schema;  // name in components/schemas; of a stream none
    std::vector<QueryParameter> query;
    std::vector<HeaderParameter> headers;  // request fields that the route reads
    std::vector<ResponseSpec> responses;
    std::vector<base::Errc> errors;  // beyond those that every route may give
    UserKeys user_keys = UserKeys::refused;
    Opens opens = Opens::response;
    Scope token_scope = Scope::read;  // that a token needs, with Auth::token_or_key
    Guard guard;                      // set by make_router
};

/// A parameter of a pattern: a whole segment in braces, or, with dots at its end, the rest of the path.
struct PathParameter {
    std::string_view name;
    bool spans = false;  // all that is left of the path, bytes of any kind; perhaps none, with or without the
                         // slash before them
};

/// Nothing if `segment` of a pattern stands for itself.
std::optional<PathParameter> path_parameter(std::string_view segment) noexcept;

/// Patterns and names are unique, also without the dots of a parameter that spans segments; parameters are
/// whole segments, and only the last one spans; a table that breaks this throws.
class Router {
  public:
    explicit Router(std::vector<Route> routes);

    /// The route that fits a request. `route` is null if none does; `allow` is then the methods that the path
    /// has, if any.
    struct Match {
        const Route* route = nullptr;
        std::vector<std::pair<std::string_view, std::string>> params;
        std::string allow;
        // A parameter is not UTF-8, percent-encoded; of one that spans segments: not percent-encoded bytes,
        // or with a NUL among them.
        bool malformed = false;
    };
    /// HEAD fits GET routes (RFC 9110 section 9.3.2). Of those that fit, one without a parameter that spans
    /// segments comes first, then the one with more segments, then the first of the table.
    Match match(Method method, std::string_view path) const;

    const std::vector<Route>& routes() const noexcept { return routes_; }

  private:
    struct Pattern {
        std::vector<std::string_view> segments;
        std::size_t route;
        bool spans = false;
    };
    static bool fits(const Pattern& pattern, const std::vector<std::string_view>& path) noexcept;

    std::vector<Route> routes_;
    std::vector<Pattern> patterns_;
};

}  // namespace atl::http
