// The changes to heads that pass through a proxy (RFC 9110 section 7.6): fields of one hop are left out, the
// framing is the proxy's own. Each kind of proxy has its policy: before a preview the dev server is asked by
// the name that it knows itself by, and its own origin in an answer becomes the preview's; on the way out of
// a sandbox all else passes as it is. Pure. Not here: sockets and bodies (exchange.hpp).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/wire/message.hpp"
#include "http/wire/response_parser.hpp"

namespace atl::http {

/// The two names of a dev server. Views live as long as the request.
struct ProxiedHost {
    std::uint16_t port = 0;          // inside the sandbox
    std::string_view public_scheme;  // "http", "https"
    std::string_view public_host;    // as the browser sees it, with its port: the request's authority
    std::string client_address;      // of X-Forwarded-For
    /// Cookies whose names begin so are this server's: the dev server neither sees nor sets them.
    std::string_view hidden_cookies;
    bool hides_authorization = false;  // it holds a key of the API
    /// True if a key or token of this server stands in the text: such a field goes no further. Null: never.
    std::function<bool(std::string_view text)> holds_secret{};
    /// Asked as a head is written: whether the browser is to forget what it keeps for this address. Then its
    /// request is not relative to that, and the final answer says so. Null: no.
    std::function<bool()> clears_site_data{};
    /// An answer's head that says so has gone out to the client, to its last byte. Null: nobody is told.
    std::function<void()> on_cleared{};
};

/// The field Clear-Site-Data, and its value: the HTTP cache; local storage, IndexedDB, service workers.
/// Cookies stay, since they have no ports.
inline constexpr std::string_view k_clear_field = "Clear-Site-Data";
inline constexpr std::string_view k_clear_all = "\"cache\", \"storage\"";

/// How the body of a message goes on: the two forms that HTTP/1.1 has for one that does not end with the
/// connection.
struct BodyForm {
    bool is_chunked = false;
    std::optional<std::uint64_t> length;  // nothing, and not chunked: there is no body
};

/// The meaning of the fields of one connection (Connection, Upgrade) in either head.
struct HopFields {
    /// The first protocol that is asked for, or the one that is agreed to; empty: none. Never h2c, which
    /// would end the proxy's sight of requests.
    std::string_view upgrade;
    std::vector<std::string_view> named;  // by Connection, in order without regard to case
};
HopFields hop_fields(const std::vector<HeaderField>& fields);

/// The protocol that `request` asks the dev server for; empty: none, as always in HTTP/1.0 (RFC 9110 section
/// 7.8).
std::string_view wanted_upgrade(const Request& request);

/// The head of the request as the dev server gets it, with the empty line at its end. An Origin that is the
/// preview's own becomes the dev server's; then the head has no X-Forwarded-Host, which would contradict it.
/// X-Forwarded-Proto is the visitor's in every request: only the hosts agree.
void write_upstream_head(std::string& out, const Request& request, const ProxiedHost& host, BodyForm body);

/// The client's HTTP version, and what its connection and its browser are told beside an answer.
struct ClientForm {
    unsigned version = 11;
    bool keep_alive = true;         // after this answer
    bool clears_site_data = false;  // k_clear_all
};
/// The head of the answer as it goes to the client, to its empty line; `body` is what follows it.
void write_client_head(std::string& out, const ResponseParser& response, const ProxiedHost& host,
                       BodyForm body, ClientForm client);

/// The end of a chunked body with what of `trailers` may pass (RFC 9110 sections 6.5.1 and 7.6.1) behind a
/// head of these `fields`.
void write_last_chunk(std::string& out, const std::vector<HeaderField>& fields,
                      const std::vector<HeaderField>& trailers, const ProxiedHost& host);

/// How a kind of proxy writes the heads that it passes on.
class HeadPolicy {
  public:
    virtual ~HeadPolicy() = default;
    /// The head of a request as the upstream gets it, with the empty line at its end.
    virtual void write_request(std::string& out, const Request& request, BodyForm body) const = 0;
    /// The head of an answer as it goes to the client, to its empty line; `body` is what follows it.
    virtual void write_answer(std::string& out, const ResponseParser& response, BodyForm body,
                              ClientForm client) const = 0;
    /// The end of the chunked body of a request behind a head of these `fields`.
    virtual void write_request_end(std::string& out, const std::vector<HeaderField>& fields,
                                   const std::vector<HeaderField>& trailers) const = 0;
    /// For an upstream that takes no byte.
    virtual base::Error unreachable() const = 0;
    /// True if the head of a request has a value that is to leave memory as soon as it was sent.
    virtual bool has_secret() const { return false; }
    /// Both do the same as the members of ProxiedHost of these names.
    virtual bool clears_site_data() const { return false; }
    virtual void on_cleared() const {}
};

/// Before a preview.
class PreviewHeads final : public HeadPolicy {
  public:
    explicit PreviewHeads(ProxiedHost host) : host_(std::move(host)) {}
    void write_request(std::string& out, const Request& request, BodyForm body) const override {
        write_upstream_head(out, request, host_, body);
    }
    void write_answer(std::string& out, const ResponseParser& response, BodyForm body,
                      ClientForm client) const override {
        write_client_head(out, response, host_, body, client);
    }
    void write_request_end(std::string& out, const std::vector<HeaderField>& fields,
                           const std::vector<HeaderField>& trailers) const override {
        write_last_chunk(out, fields, trailers, host_);
    }
    base::Error unreachable() const override;
    bool clears_site_data() const override { return host_.clears_site_data && host_.clears_site_data(); }
    void on_cleared() const override {
        if (host_.on_cleared)
            host_.on_cleared();
    }

  private:
    ProxiedHost host_;
};

/// On the way out of a sandbox: the program inside and its upstream say all to each other but the fields of a
/// hop, and Host is the target's, whatever the request says.
class ForwardHeads : public HeadPolicy {
  public:
    /// `authority`: of Host, with its port unless that is 80.
    explicit ForwardHeads(std::string authority) : authority_(std::move(authority)) {}
    void write_request(std::string& out, const Request& request, BodyForm body) const override;
    void write_answer(std::string& out, const ResponseParser& response, BodyForm body,
                      ClientForm client) const override;
    void write_request_end(std::string& out, const std::vector<HeaderField>& fields,
                           const std::vector<HeaderField>& trailers) const override {
        write_last_chunk(out, fields, trailers, {});
    }
    base::Error unreachable() const override;

  protected:
    const std::string& authority() const noexcept { return authority_; }

  private:
    std::string authority_;
};

/// The lines of headers that a route sets. Their memory is wiped.
class SetFields {
  public:
    SetFields() = default;
    SetFields(SetFields&&) noexcept = default;
    SetFields& operator=(SetFields&&) = delete;
    ~SetFields();

    /// Before add(): room for all, or growth would leave a copy of them.
    void reserve(std::size_t bytes) { lines_.reserve(bytes); }
    /// `value` is `text` and `secret` behind it.
    void add(std::string_view name, std::string_view text, std::string_view secret);
    /// Nothing of the lines is left in memory, nor their room.
    void wipe() noexcept;
    bool has(std::string_view name) const noexcept;
    const std::string& lines() const noexcept { return lines_; }

  private:
    std::string lines_;
    std::vector<std::string> names_;
};

/// Towards the upstream of a route: what says who asks is the route's alone, and so is the target. Trailers
/// of requests do not pass.
class RouteHeads final : public ForwardHeads {
  public:
    /// `path` stands in place of the request's.
    RouteHeads(std::string authority, std::string path, SetFields set)
        : ForwardHeads(std::move(authority)), path_(std::move(path)), set_(std::move(set)) {}
    void write_request(std::string& out, const Request& request, BodyForm body) const override;
    void write_request_end(std::string& out, const std::vector<HeaderField>& fields,
                           const std::vector<HeaderField>&) const override {
        write_last_chunk(out, fields, {}, {});
    }
    bool has_secret() const override { return true; }

  private:
    std::string path_;
    mutable SetFields set_;  // until the head is written: such a request is never repeated
};

/// `value` of Location or Access-Control-Allow-Origin: where it begins with the dev server's own origin, with
/// the preview's in place of it. An http(s) or "//" address of localhost, a loopback address or 0.0.0.0 with
/// the port counts as such, and without one where the port is the scheme's own.
std::string public_location(std::string_view value, const ProxiedHost& host);

/// True if `set_cookie` sets a cookie whose name begins with `prefix`, or that a server could take for one.
bool sets_cookie(std::string_view set_cookie, std::string_view prefix) noexcept;

/// Set-Cookie without its Domain attribute: a preview's cookies are for its own host alone.
std::string without_domain(std::string_view set_cookie);

}  // namespace atl::http
