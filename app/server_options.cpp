#include "app/server_options.hpp"

#include <grp.h>

#include <algorithm>
#include <cctype>
#include <CLI/CLI.hpp>
#include <iterator>
#include <string_view>

#include "app/preview_options.hpp"
#include "http/access/access.hpp"
#include "http/access/ip_address.hpp"

namespace atl::app {
namespace {

std::string check_origin_text(const std::string& origin) {
    if (!http::is_web_origin(origin))
        return "must be http(s)://HOST or http(s)://HOST:PORT without a path, not " + origin;
    return {};
}

/// `text` as the Host field, without its port, is compared with it. Throws CLI::ValidationError for more than
/// that: no request would match.
std::string allowed_host(const std::string& text) {
    // CLI11 takes [A], and [A],[B] too, for a list and drops its first and its last bracket.
    std::string_view address = text;
    address.remove_prefix(address.starts_with('[') ? 1 : 0);
    address.remove_suffix(address.ends_with(']') ? 1 : 0);
    if (address.find(':') != std::string_view::npos && http::parse_address(address))
        return http::comparable_host('[' + std::string(address) + ']');
    const auto allowed = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
    };
    if (text.empty() || !std::all_of(text.begin(), text.end(), allowed))
        throw CLI::ValidationError("--allowed-host",
                                   "must be a name as atoll.example or an address as 2001:db8::5, without a "
                                   "scheme, a port or a path, not " +
                                       text);
    return text;
}

gid_t group_named(const std::string& name) {
    // Not from many threads: this is the only one (getgrnam(3)).
    if (const struct group* found = ::getgrnam(name.c_str()); found != nullptr)
        return found->gr_gid;
    throw CLI::ValidationError("--unix-socket-group", "there is no group " + name);
}

void add_addresses(CLI::App& cli, Config& config) {
    cli.add_option("--listen", config.listen,
                   "Address to serve on: HOST:PORT (each address of a name, as localhost), [V6]:PORT or "
                   "unix:PATH; may be repeated")
        ->envname("ATOLL_LISTEN")
        ->capture_default_str();
    cli.add_option("--tls-cert", config.tls_cert,
                   "PEM file with the certificate chain: TCP listeners serve HTTPS; read again at SIGHUP")
        ->type_name("FILE")
        ->envname("ATOLL_TLS_CERT");
    cli.add_option("--tls-key", config.tls_key, "PEM file with the certificate's private key")
        ->type_name("FILE")
        ->envname("ATOLL_TLS_KEY");
    cli.add_option_function<std::string>(
           "--unix-socket-group",
           [&config](const std::string& name) { config.unix_socket_group = group_named(name); },
           "A group whose members may connect to Unix sockets, as a proxy's; otherwise only this user may")
        ->envname("ATOLL_UNIX_SOCKET_GROUP");
    cli.add_option(
           "--data-dir", config.data_dir,
           "Folder of the database, the workspaces and the keys, for one server; made if it is not there")
        ->envname("ATOLL_DATA_DIR")
        ->type_name("DIRECTORY")
        ->default_str("/var/lib/atoll/data, not as root ~/.local/state/atoll");
    cli.add_option_function<std::vector<std::string>>(
           "--allowed-host",
           [&config](const std::vector<std::string>& texts) {
               std::transform(texts.begin(), texts.end(), std::back_inserter(config.allowed_hosts),
                              allowed_host);
           },
           "A name that clients may use in Host besides localhost; may be repeated")
        ->envname("ATOLL_ALLOWED_HOSTS")
        ->delimiter(',');
    cli.add_option("--allowed-origin", config.allowed_origins,
                   "An origin whose web pages may use the API; may be repeated")
        ->envname("ATOLL_ALLOWED_ORIGINS")
        ->delimiter(',')
        ->check(check_origin_text);
    add_preview_options(cli, config);
    cli.add_option_function<std::vector<std::string>>(
           "--trusted-proxy",
           [&config](const std::vector<std::string>& texts) {
               for (const auto& text : texts) {
                   if (!config.trusted_proxies.add(text))
                       throw CLI::ValidationError(
                           "--trusted-proxy",
                           "must be an address, a prefix as 10.0.0.0/8 or fd00::/8, or unix, not " + text);
               }
           },
           "A proxy whose X-Forwarded-For, -Proto and -Host count, and that has no limits itself: an "
           "address, a prefix, or unix for whoever connects to a Unix socket; may be repeated")
        ->envname("ATOLL_TRUSTED_PROXIES")
        ->delimiter(',');
}

void add_stream_and_log_options(CLI::App& cli, Config& config) {
    cli.add_option(
           "--body-memory-mb", config.body_memory_mb,
           "Memory in MB for request bodies and WebSocket messages that are not complete; above it long ones "
           "wait")
        ->envname("ATOLL_BODY_MEMORY_MB")
        ->check(CLI::Range(1, 1024 * 1024))
        ->capture_default_str();
    cli.add_option("--log-level", config.log_level, "debug, info, warn or error")
        ->envname("ATOLL_LOG_LEVEL")
        ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
        ->capture_default_str();
    cli.add_option("--access-log", config.access_log, "Requests to log at level info: failures or all")
        ->envname("ATOLL_ACCESS_LOG")
        ->check(CLI::IsMember({"failures", "all"}))
        ->capture_default_str();
    // A peer that is silent for two of them, at first one and a half, is cut off; the writes to it have their
    // own deadline above that.
    cli.add_option(
           "--heartbeat", config.heartbeat_seconds,
           "Seconds of silence after which a stream is sent a ping or comment; keep it below the idle "
           "timeout of every proxy")
        ->envname("ATOLL_HEARTBEAT")
        ->check(CLI::Range(1, static_cast<int>(base::k_write_deadline.count()) - 1))
        ->capture_default_str();
}

void add_client_limits(CLI::App& cli, Config& config) {
    constexpr std::size_t k_most = 1'000'000;
    const auto add = [&](const std::string& flag, std::size_t& value, const char* what, const char* name) {
        cli.add_option(flag, value, std::string(what) + "; 0: no limit")
            ->envname(name)
            ->check(CLI::Range(std::size_t{0}, k_most))
            ->capture_default_str();
    };
    http::LimitSettings& limits = config.limits;
    add("--max-connections-per-address", limits.connections_per_address,
        "Connections that an address may have; behind a trusted proxy, streams",
        "ATOLL_MAX_CONNECTIONS_PER_ADDRESS");
    add("--requests-per-second-per-address", limits.requests_per_second_per_address,
        "Requests and WebSocket frames of an address", "ATOLL_REQUESTS_PER_SECOND_PER_ADDRESS");
    add("--requests-per-second-per-key", limits.requests_per_second_per_key,
        "Requests and WebSocket frames with a key or token, the server's own key excepted",
        "ATOLL_REQUESTS_PER_SECOND_PER_KEY");
    add("--failed-logins-per-minute", limits.failed_logins_per_minute,
        "Wrong keys and tokens of an address that are answered 401", "ATOLL_FAILED_LOGINS_PER_MINUTE");
    add("--max-streams-per-conversation", limits.streams_per_conversation,
        "Event streams and WebSockets of a conversation, those with the server's own key excepted",
        "ATOLL_MAX_STREAMS_PER_CONVERSATION");
    add("--max-streams-per-key", limits.streams_per_key,
        "Event streams and WebSockets with a key or token, the server's own key excepted",
        "ATOLL_MAX_STREAMS_PER_KEY");
    cli.add_flag_callback(
           "--limit-loopback", [&limits] { limits.loopback = http::LoopbackLimits::as_others; },
           "Holds the loopback and Unix sockets to the limits of an address, too")
        ->envname("ATOLL_LIMIT_LOOPBACK");
}

}  // namespace

void add_server_options(CLI::App& cli, Config& config) {
    add_addresses(cli, config);
    add_stream_and_log_options(cli, config);
    add_client_limits(cli, config);
}

}  // namespace atl::app
