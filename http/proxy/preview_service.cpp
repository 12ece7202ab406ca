#include "http/proxy/preview_service.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/log.hpp"
#include "http/proxy/exchange.hpp"
#include "http/proxy/loopback_doors.hpp"
#include "http/proxy/waiting_page.hpp"
#include "http/server/problem.hpp"
#include "http/server/server_options.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using conversation::PreviewView;
using sandbox::Status;

constexpr unsigned k_misdirected = 421;  // host_not_allowed
// At the address of a preview /docs is the sandbox's.
constexpr std::string_view k_no_errors_page;

Error stopped(const PreviewView& view) {
    if (view.has_ended || view.conversation_id.empty())
        return {Errc::preview_ended, "The sandbox of this preview has ended."};
    return {Errc::paused, "The conversation of this preview is paused."};
}

// Visitors are not told how much the owner holds.
Error for_visitor(const Error& error) {
    if (error.code() != Errc::user_share)
        return error;
    Error told(error.code(), "The owner of this preview has all that one user may have now.",
               error.retry_after());
    for (const auto& [name, json] : error.members())
        told = std::move(told).with(name, json);
    return told;
}

// Refusals that count against the address: no such preview, an ended one, no access, a malformed request.
bool is_charged(Errc why) {
    constexpr std::array k_charged{Errc::not_found,          Errc::preview_ended,     Errc::host_not_allowed,
                                   Errc::invalid_request,    Errc::preview_private,   Errc::port_not_public,
                                   Errc::method_not_allowed, Errc::header_too_large,  Errc::target_too_long,
                                   Errc::request_timeout,    Errc::origin_not_allowed};
    return std::find(k_charged.begin(), k_charged.end(), why) != k_charged.end();
}

// True if the API would look for a key in Authorization.
bool has_bearer(const Request& request) {
    constexpr std::string_view k_scheme = "Bearer ";
    return iequals(request.header("Authorization").substr(0, k_scheme.size()), k_scheme);
}

// ":PORT", or empty.
std::string_view port_of(std::string_view authority) {
    const auto host = host_without_port(authority);
    return host ? authority.substr(host->size()) : std::string_view();
}

// True for requests by which a browser goes to a page, or renews a service worker, which answers navigations
// itself. A page can give each of these fields to what it fetches, but for Sec-Fetch-Mode and -Dest.
bool shows_page(const Request& request) {
    const std::string_view destination = request.header("Sec-Fetch-Dest");
    const bool is_update = request.method == Method::get &&
                           iequals(request.header("Service-Worker"), "script") &&
                           (destination.empty() || iequals(destination, "serviceworker"));
    return is_update || is_navigation(request);
}

// Errors: port_not_public or preview_private, if the visitor may not see the port.
base::Result<void> check_access(const sandbox::PreviewSettings& settings, std::uint16_t port, bool has_pass) {
    if (base::is_reserved_port(port))
        return Error(Errc::port_not_public, "The server holds this port itself.");
    if (has_pass)
        return {};
    if (settings.is_private())
        return Error(Errc::preview_private);
    if (!settings.lists(port))
        return Error(Errc::port_not_public);
    return {};
}

}  // namespace

PreviewService::PreviewService(PreviewSettings settings, conversation::Manager& conversations,
                               std::shared_ptr<UpstreamPool> upstreams, Known known)
    : settings_(std::move(settings)),
      conversations_(conversations),
      upstreams_(std::move(upstreams)),
      keys_(known.keys),
      limits_(settings_.limits),
      passes_(known.tokens, conversations.clock()),
      waker_(
          conversations.clock(), conversations.timers(), settings_.wakes,
          [&conversations](const std::string& sandbox_id, const PreviewWaker::May& may,
                           const PreviewWaker::Reply& reply) { conversations.wake(sandbox_id, may, reply); }),
      visits_(
          conversations,
          [this](const std::string& sandbox_id) {
              waker_.wake(sandbox_id, base::k_wake_wait, [](const base::Result<void>&) {});
          },
          [this](const std::string& sandbox_id) { return open_.is_awaited(sandbox_id); }),
      handler_([this](RequestContext& context) { return async_answer(context); }) {
    conversations_.tell_preview_changes(
        [this](const std::string& sandbox_id, const sandbox::PreviewSettings& now) {
            ++changes_;
            open_.end_unallowed(sandbox_id, shown_here(now));
            if (open_.contains(sandbox_id) && !is_up(sandbox_id))
                open_.refuse_waiting(sandbox_id, Error(Errc::sandbox_gone));
        });
}

PreviewService::~PreviewService() {
    conversations_.tell_preview_changes(nullptr);
}

base::Result<CountLimiter::Lease> PreviewService::connect(const PeerAddress& peer) {
    return limits_.connect(peer, settings_.trusted_proxies);
}

Decision PreviewService::admit(RequestContext& context, const Arrival& arrival) {
    Request& request = context.request;
    context.client = client_of(request, context.client.address, settings_.trusted_proxies);
    if (context.client.scheme.empty())
        context.client.scheme = arrival.secure ? "https" : "http";
    Decision decision;
    // TRACE would show what a proxy in between has added to a request, CONNECT begins a tunnel in its answer.
    if (request.method_text == "TRACE" || request.method_text == "CONNECT") {
        decision.refusal =
            refuse(context, Error(Errc::method_not_allowed, "A preview takes neither TRACE nor CONNECT."));
        return decision;
    }
    if (!settings_.names && !is_port_name(request.authority) &&
        loopback_port(request.authority) != arrival.port) {
        decision.refusal =
            refuse(context, Error(Errc::host_not_allowed, "This is not the name of a preview."));
        return decision;
    }
    // The server inside would get the request line as it is, but for that of the address that takes a token.
    const bool is_for_inside = request.path != k_enter_path;
    if (is_for_inside && (keys_.holds_secret(request.method_text) || keys_.holds_secret(request.path) ||
                          keys_.holds_secret(request.query))) {
        decision.refusal =
            refuse(context, Error(Errc::invalid_request,
                                  "The request's method or address holds a key or token of the API, which "
                                  "stays outside."));
        return decision;
    }
    decision.handler = &handler_;
    decision.body = BodyKind::stream;
    return decision;
}

bool PreviewService::is_port_name(std::string_view authority) const {
    return settings_.port_names && settings_.port_names->read(authority).has_value();
}

// A sandbox may be of a start of the server that had such names, as this one has not.
sandbox::PreviewSettings PreviewService::shown_here(sandbox::PreviewSettings settings) const {
    settings.any_port = settings.any_port && settings_.port_names;
    return settings;
}

base::Result<PreviewName> PreviewService::name_of(std::string_view authority) const {
    if (settings_.names)
        return settings_.names->read(authority);
    if (is_port_name(authority))
        return settings_.port_names->read(authority);
    std::string owner = conversations_.preview_ports().owner(loopback_port(authority).value_or(0));
    if (owner.empty())
        return Error(Errc::preview_ended, "The sandbox of this preview has ended.");
    return PreviewName{std::move(owner), std::nullopt};
}

// True for pages of this sandbox's previews: an address of it, at the port that all such addresses have.
bool PreviewService::is_own_origin(std::string_view origin, const RequestContext& context,
                                   const std::string& sandbox_id) const {
    const auto scheme_end = origin.find("://");
    const std::string_view authority = origin.substr(scheme_end + 3);
    // A proxy that ends TLS may not say so.
    const bool is_scheme = iequals(origin.substr(0, scheme_end), "https") ||
                           iequals(origin.substr(0, scheme_end), context.client.scheme);
    if (!is_scheme || (!loopback_port(authority) && port_of(authority) != port_of(context.request.authority)))
        return false;
    const auto name = name_of(authority);
    return name.has_value() && name->sandbox_id == sandbox_id;
}

// A browser may add a visitor's pass to what a page of another site asks. A page that sends no referrer has
// the origin "null" in its own forms (WHATWG Fetch, section 3.2.5); no page can set Sec-Fetch-Site.
base::Result<void> PreviewService::check_origin(const RequestContext& context,
                                                const std::string& sandbox_id) const {
    const Request& request = context.request;
    const auto origin = request.header("Origin");
    if (!request.has_header("Origin") ||
        (origin == "null" && iequals(request.header("Sec-Fetch-Site"), "same-origin")))
        return {};
    if (is_web_origin(origin) &&
        (is_allowed_origin(origin, settings_.allowed_origins) || is_own_origin(origin, context, sandbox_id)))
        return {};
    return Error(Errc::origin_not_allowed, "Pages of `" + base::escaped(origin) +
                                               "` may not ask for this private preview; `--allowed-origin` "
                                               "of the server allows others than its own.");
}

/// True while browsers may keep data of another sandbox that had the same port. Each answer has them forget
/// it until an answer to shows_page() has gone out: a browser that has the page in its cache asks for the
/// rest of it alone.
bool PreviewService::must_forget(const Request& request) const {
    const auto port = settings_.names ? std::nullopt : loopback_port(request.authority);
    return port && conversations_.preview_ports().is_stale(*port);
}

void PreviewService::was_told_to_forget(const Request& request) {
    const auto port = settings_.names ? std::nullopt : loopback_port(request.authority);
    if (port && shows_page(request))
        conversations_.preview_ports().end_stale(*port);
}

void PreviewService::complete(const Request& request, Response& response) {
    // The name in a request that is refused for it may be that of another port.
    if (response.status != k_misdirected && must_forget(request))
        response.headers.emplace_back(k_clear_field, k_clear_all);
}

void PreviewService::sent(const Request& request, const Response& response) {
    const auto clears = [](const auto& field) { return field.first == k_clear_field; };
    if (std::any_of(response.headers.begin(), response.headers.end(), clears))
        was_told_to_forget(request);
}

base::Task<base::Result<Response>> PreviewService::async_answer(RequestContext& context) {
    auto name = name_of(context.request.authority);
    if (name.has_error())
        co_return name.error();
    bool may_wake = PreviewWaker::may_wake(context.request);
    const auto find = [&](conversation::Reply<PreviewView> reply) {
        conversations_.preview(name->sandbox_id, std::move(reply));
    };
    for (;;) {
        const std::uint64_t before = changes_;
        const auto view = co_await context.async_reply<PreviewView>(find);
        if (view.has_error())
            co_return view.error();
        // It may be older than a change that everyone who was let in before has felt.
        if (view->status == Status::ready && changes_ != before)
            continue;
        if (view->status == Status::ready && !conversations_.can_connect(name->sandbox_id)) {
            const auto ask = [&](conversation::Reply<void> reply) {
                conversations_.await_connect(name->sandbox_id, [reply] { reply(base::Result<void>()); });
            };
            const auto waited = co_await context.async_reply<void>(ask);
            if (waited.has_error())
                co_return waited.error();
            continue;  // its settings may be others by now
        }
        auto answer = answer_now(context, *name, *view);
        const bool sleeps = answer.has_error() && answer.error().code() == Errc::paused;
        if (!sleeps || !view->settings.wakes() || !std::exchange(may_wake, false))
            co_return answer;
        const auto woken = co_await async_wake(context, name->sandbox_id);
        if (woken.has_error())
            co_return woken.error();
        // Now its generation is another one, and its settings may be, too.
    }
}

base::Task<base::Result<void>> PreviewService::async_wake(RequestContext& context,
                                                          const std::string& sandbox_id) {
    const base::Millis wait = is_navigation(context.request) ? base::k_wake_wait_of_page : base::k_wake_wait;
    const auto ask = [&](PreviewWaker::Reply reply) { waker_.wake(sandbox_id, wait, std::move(reply)); };
    co_return co_await context.async_reply<void>(ask);
}

base::Result<Response> PreviewService::answer_now(const RequestContext& context, const PreviewName& name,
                                                  const PreviewView& view) {
    // A sandbox with the host's network has no ports of its own.
    if (!sandbox::has_own_net(view.network))
        return Error(Errc::not_found, "This sandbox has no preview.");
    const Request& request = context.request;
    if (request.path == k_enter_path)
        return passes_.enter(request, name.sandbox_id);
    if (request.path.starts_with(k_own_paths))
        return Error(Errc::not_found);
    const std::uint16_t port = name.port.value_or(view.settings.ports.front());
    const auto pass_end = passes_.find(request, name.sandbox_id);
    const sandbox::PreviewSettings settings = shown_here(view.settings);
    if (auto allowed = check_access(settings, port, pass_end.has_value()); allowed.has_error())
        return allowed.error();
    if (view.status != Status::ready)
        return stopped(view);
    // A response that needs a pass ends with it; any other ends when the settings change so that it needs
    // one.
    const bool needs_pass = check_access(settings, port, false).has_error();
    if (needs_pass) {
        if (auto allowed = check_origin(context, name.sandbox_id); allowed.has_error())
            return allowed.error();
    }
    // The waiting page's question for a listener is no visit.
    OpenPreviews::Visit visit{name.sandbox_id, port, needs_pass, PreviewWaker::may_wake(request)};
    Response response = relay(context, std::move(visit), view);
    if (needs_pass)
        response.cut_at = *pass_end;
    return response;
}

// False while the sandbox is being frozen or ended.
bool PreviewService::is_up(const std::string& sandbox_id) const {
    return conversations_.operations_of_living(sandbox_id) != nullptr;
}

Response PreviewService::relay(const RequestContext& context, OpenPreviews::Visit visit,
                               const PreviewView& view) {
    ProxiedHost host{
        .port = visit.port,
        .public_scheme = context.client.scheme,
        .public_host = context.request.authority,
        .client_address = address_text(context.client.address),
        .hidden_cookies = k_own_cookies,
        .hides_authorization = has_bearer(context.request) && keys_.authenticate(context.request).has_value(),
        .holds_secret = [this](std::string_view text) { return keys_.holds_secret(text); },
        .clears_site_data = [this, &context] { return must_forget(context.request); },
        .on_cleared = [this, &context] { was_told_to_forget(context.request); }};
    auto refusal = [this, &context, id = visit.sandbox_id, port = visit.port,
                    rests = stopped(view)](const Error& error) {
        const bool is_broken = error.code() == Errc::upstream_failed || error.code() == Errc::no_listener ||
                               error.code() == Errc::sandbox_gone;
        return std::make_unique<Response>(refuse_at(context, is_broken && !is_up(id) ? rests : error, port));
    };
    UpstreamKey key{visit.sandbox_id, view.generation, visit.port};
    const LimitSubject visitor = limits_.subject_of(context.client);
    const UpstreamVisitor who{view.max_sockets,
                              visitor.is_limited ? std::optional(visitor.address) : std::nullopt, view.owner};
    auto exchange =
        std::make_unique<Exchange>(upstreams_->port(std::move(key), who),
                                   std::make_unique<PreviewHeads>(std::move(host)), std::move(refusal));
    if (visit.is_activity) {
        exchange->on_traffic(
            [this, sandbox_id = visit.sandbox_id](Traffic traffic) { visits_.note(sandbox_id, traffic); });
    }
    Response response;
    response.payer = base::ShareHolder::preview(visit.sandbox_id);
    response.relay = open_.follow(std::move(visit), std::move(exchange));
    return response;
}

/// Anyone can ask for names that there are not, try ports and passes, or send what is no request, and each
/// refusal is a line of the log.
base::Result<void> PreviewService::charge(const Client& client) {
    auto limit = limits_.request(limits_.subject_of(client), conversations_.clock().steady_now());
    if (limit.has_error())
        limit_log_.log(limit.error(), client.address);
    return limit;
}

Response PreviewService::refuse(const RequestContext& context, const Error& error) {
    return refuse_at(context, error, {});
}

Response PreviewService::refuse_at(const RequestContext& context, const Error& error,
                                   std::optional<std::uint16_t> port) {
    const Errc why = error.code() == Errc::sandbox_gone         ? Errc::paused
                     : error.code() == Errc::conversation_ended ? Errc::preview_ended
                                                                : error.code();
    if (is_charged(why)) {
        if (const auto limit = charge(context.client); limit.has_error())
            return problem(limit.error(), context.request_id, k_no_errors_page);
    }
    if (why == Errc::too_many_connections)
        limit_log_.log(error, context.client.address);
    if (is_closed(why) && is_navigation(context.request))
        return closed_page(why);
    const Error told = why == error.code() ? for_visitor(error) : Error(why);
    Response response = problem(told, context.request_id, k_no_errors_page);
    if (may_pass(why) && is_navigation(context.request)) {
        Response page = waiting_page(why, port);
        for (auto& field : response.headers)
            page.headers.push_back(std::move(field));  // Retry-After
        response = std::move(page);
    }
    if (may_pass(why) && !is_broken_answer(why))
        response.headers.emplace_back(k_waiting_field, base::code_name(why));
    // RFC 9110 section 15.5.6.
    if (why == Errc::method_not_allowed)
        response.headers.emplace_back("Allow",
                                      context.request.path == k_enter_path ? "GET" : k_known_methods);
    return response;
}

Response PreviewService::refuse_unread(RequestContext& context, const Arrival&, const Error& error) {
    context.client.is_trusted = settings_.trusted_proxies.contains(context.client.address);
    return refuse(context, error);
}

}  // namespace atl::http
