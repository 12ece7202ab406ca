#include "app/preview_options.hpp"

#include <algorithm>
#include <CLI/CLI.hpp>

#include <string_view>
#include <utility>

#include "http/wire/text.hpp"

namespace atl::app {
namespace {

// A URL of an origin (RFC 6454 section 4) with a placeholder for its host.
bool is_preview_url(std::string_view text) {
    constexpr std::string_view k_host = "{host}";
    const auto at = text.find(k_host);
    const std::string_view scheme = text.substr(0, at);
    if (at == std::string_view::npos || (scheme != "http://" && scheme != "https://"))
        return false;
    std::string_view rest = text.substr(at + k_host.size());
    if (rest.ends_with('/'))
        rest.remove_suffix(1);
    if (rest.empty())
        return true;
    const auto port = http::parse_decimal(rest.substr(1));
    return rest.front() == ':' && rest.size() <= 6 && port && *port > 0 && *port <= UINT16_MAX;
}

/// True if only programs and browsers of this machine reach the server: it listens on loopback addresses, and
/// no flag tells of a proxy or another name. With TLS a browser would find no certificate for the names.
bool is_of_this_machine(const Config& config) {
    const auto is_loopback = [](const std::string& address) {
        const std::string_view host = std::string_view(address).substr(0, address.rfind(':'));
        // A name may begin with `127.`, too.
        const bool is_literal = host.find_first_not_of("0123456789.") == host.npos;
        return (host.starts_with("127.") && is_literal) || host == "localhost" || host == "[::1]";
    };
    return config.tls_cert.empty() && config.allowed_hosts.empty() && config.trusted_proxies.is_empty() &&
           std::ranges::all_of(config.listen, is_loopback);
}

}  // namespace

void add_preview_options(CLI::App& cli, Config& config) {
    cli.add_option("--preview-domain", config.preview_domain,
                   "The domain below which the ports of sandboxes are shown, as localhost or "
                   "preview.example; without "
                   "it each sandbox has a port of this machine, from 30000 to 39999")
        ->envname("PREVIEW_DOMAIN")
        ->type_name("DOMAIN");
    cli.add_option("--preview-listen", config.preview_listen,
                   "The one address where previews of the domain answer: HOST:PORT, [V6]:PORT or unix:PATH; "
                   "without it they answer on those of --listen")
        ->envname("ATOLL_PREVIEW_LISTEN")
        ->type_name("ADDRESS");
    cli.add_option("--preview-url", config.preview_url,
                   "The address of a preview as browsers reach it, with {host} for its name, as "
                   "https://{host}:8443; needed behind a proxy on another port than 443")
        ->envname("ATOLL_PREVIEW_URL")
        ->type_name("PATTERN");
    cli.add_option("--preview-pattern", config.preview_pattern,
                   "The label of a preview's host name, with {id} and perhaps {port}; several with commas")
        ->envname("ATOLL_PREVIEW_PATTERN")
        ->type_name("PATTERN")
        ->capture_default_str();
    cli.add_option("--preview-linger", config.preview_linger_seconds,
                   "Seconds that the port of a preview is still listened on after its sandbox was paused")
        ->envname("ATOLL_PREVIEW_LINGER")
        ->check(CLI::Range(0, 31'536'000))
        ->capture_default_str();
    cli.add_option(
           "--preview-wakes-per-minute", config.preview_wakes_per_minute,
           "Paused conversations that requests of their previews may wake in a minute, of all; 0: none")
        ->envname("ATOLL_PREVIEW_WAKES_PER_MINUTE")
        ->check(CLI::Range(0U, base::k_most_preview_wakes_per_minute))
        ->capture_default_str();
    cli.add_option(
           "--preview-connections", config.preview_connections,
           "Connections to one sandbox at the same time, for all visitors of its previews; at most half "
           "of the 8192 to all sandboxes")
        ->envname("ATOLL_PREVIEW_CONNECTIONS")
        ->check(CLI::Range(std::size_t{1}, base::k_max_upstreams_of_sandbox))
        ->capture_default_str();
}

void name_previews(Config& config) {
    const bool has_domain = !config.preview_domain.empty();
    if (has_domain && !http::PreviewNames::is_domain(config.preview_domain))
        throw CLI::ValidationError("--preview-domain",
                                   "must be a domain, as localhost or preview.example, without a scheme, a "
                                   "port or a path, and no address, not " +
                                       config.preview_domain);
    // Without a domain the pattern is checked alone.
    auto names =
        http::PreviewNames::make(has_domain ? config.preview_domain : "localhost", config.preview_pattern);
    if (names.has_error())
        throw CLI::ValidationError("--preview-pattern", names.error().detail());
    for (const auto& [option, value] :
         {std::pair{"--preview-listen", &config.preview_listen}, {"--preview-url", &config.preview_url}}) {
        if (!has_domain && !value->empty())
            throw CLI::ValidationError(option, "needs --preview-domain: without one previews have ports");
    }
    if (!config.preview_url.empty() && !is_preview_url(config.preview_url))
        throw CLI::ValidationError("--preview-url",
                                   "must be http:// or https://, {host} once, and perhaps a port, as "
                                   "https://{host}:8443, not " +
                                       config.preview_url);
    if (has_domain)
        config.previews = std::move(*names);
    else if (is_of_this_machine(config))
        // Right below `localhost` each name is a site of its own: no page sets cookies for another one.
        config.port_names = http::PreviewNames::make("localhost", "{id}-{port}").value();
}

}  // namespace atl::app
