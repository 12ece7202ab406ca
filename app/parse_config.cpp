#include "app/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <set>

#include "app/config_file.hpp"
#include "app/egress_options.hpp"
#include "app/preview_options.hpp"
#include "app/required_limits.hpp"
#include "app/server_options.hpp"
#include "app/variables.hpp"
#include "core/base/fix.hpp"
#include "http/access/limit_ceilings.hpp"

namespace atl::app {
namespace {

constexpr std::size_t k_max_pool = 1024;  // of one agent

/// Where a server that is not root keeps the folder `name` (XDG Base Directory Specification).
std::filesystem::path state_dir(const char* name) {
    if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0')
        return std::filesystem::path(state) / name;
    if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
        return std::filesystem::path(home) / ".local/state" / name;
    return std::filesystem::path(name).concat("-data");
}

std::filesystem::path default_data_dir() {
    return ::geteuid() == 0 ? "/var/lib/atoll/data" : state_dir("atoll");
}

std::filesystem::path default_uid_lease_dir() {
    return ::geteuid() == 0 ? "/var/lib/atoll/uids" : state_dir("atoll-uids");
}

std::filesystem::path program_dir() {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

/// Adds a flag for the ceiling of each limit. CLI11 keeps references: `ceilings` must stay where it is.
CLI::Option* add_ceiling(CLI::App& cli, const std::string& flag, const sandbox::LimitEntry& limit,
                         sandbox::LimitChanges& ceilings, const std::string& what) {
    return cli.add_option(flag, ceilings.*limit.change, what)->check(CLI::Range(limit.least, limit.most));
}

std::string variable_of(std::string flag) {
    std::string name = "ATOLL_" + flag.substr(2);
    for (char& c : name)
        c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name;
}

void add_ceiling_options(CLI::App& cli, Config& config) {
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
        const std::string flag = "--max-" + std::string(limit.flag) + "-per-sandbox";
        const auto& ceiling = config.ceilings.*limit.change;
        CLI::Option* const option =
            add_ceiling(cli, flag, limit, config.ceilings,
                        "The highest `" + std::string(limit.api) + "` that a request may ask for");
        option->envname(variable_of(flag));
        option->default_str(ceiling ? std::to_string(*ceiling)
                                    : "for a key with a user " + std::to_string(limit.ceiling) +
                                          ", for others none");
    }
}

/// NAME=N, of the option `flag`, whose help calls the name `word`.
std::pair<std::string, std::size_t> named_count(const std::string& text, const std::string& flag,
                                                const std::string& word, std::size_t most) {
    const auto equals = text.rfind('=');
    std::size_t count = 0;
    const char* const end = text.data() + text.size();
    const char* const number = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto parsed = std::from_chars(number, end, count);
    if (equals == 0 || number == end || parsed.ec != std::errc() || parsed.ptr != end || count > most)
        throw CLI::ValidationError(
            flag, "must be " + word + "=N with N from 0 to " + std::to_string(most) + ", not " + text);
    return {text.substr(0, equals), count};
}

// The agents are looked up once they are known.

void set_pool(Config& config, const std::vector<std::string>& texts) {
    for (const auto& text : texts) {
        const auto [agent, size] = named_count(text, "--pool", "AGENT", k_max_pool);
        const bool is_known = std::any_of(config.pool.begin(), config.pool.end(),
                                          [&](const auto& other) { return other.agent == agent; });
        if (is_known)
            throw CLI::ValidationError("--pool", "names " + agent + " twice");
        config.pool.push_back({agent, size});
    }
}

void set_executor_pools(Config& config, const std::vector<std::string>& texts) {
    auto& pools = config.executor_pools.emplace();
    for (const auto& text : texts) {
        const auto [executor, size] = named_count(text, "--executor-pool", "ENGINE", base::k_max_runner_pool);
        const bool is_known = std::any_of(pools.begin(), pools.end(),
                                          [&](const auto& other) { return other.executor == executor; });
        if (is_known)
            throw CLI::ValidationError("--executor-pool", "names " + executor + " twice");
        pools.push_back({executor, size, execution::RunnerPoolSize::From::start});
    }
}

void add_sandbox_options(CLI::App& cli, Config& config) {
    cli.add_option("--agents-file", config.agents_file, "JSON file with configured agents")
        ->envname("ATOLL_AGENTS_FILE")
        ->default_str("DATA-DIR/agents.json, else that of scripts/setup --agents")
        ->check(CLI::ExistingFile);
    cli.add_option("--default-agent", config.default_agent, "The agent of a conversation that names none")
        ->envname("ATOLL_DEFAULT_AGENT")
        ->capture_default_str();
    cli.add_flag("--allow-host-network", config.allow_host_network,
                 "Let requests ask for network \"host\": it opens the host's loopback to the sandbox")
        ->envname("ATOLL_ALLOW_HOST_NETWORK");
    add_egress_options(cli, config);
    cli.add_option("--hide", config.hidden_paths,
                   "A path below /usr that sandboxes must not see; may be repeated")
        ->envname("ATOLL_HIDE");
    cli.add_option(
           "--show-etc", config.shown_etc,
           "A file or folder below /etc that sandboxes see, too, as it is at the start; may be repeated")
        ->envname("ATOLL_SHOW_ETC");
    cli.add_option("--max-sandboxes", config.max_sandboxes,
                   "Sandboxes that may live at the same time, frozen ones too; at most as many as the "
                   "process has file descriptors for")
        ->envname("ATOLL_MAX_SANDBOXES")
        ->check(CLI::Range(1, 65536))
        ->capture_default_str();
    cli.add_option("--user-share", config.user_share_percent,
                   "Percent that a user may have of what the others leave of a budget that all users share; "
                   "100: one user may have all")
        ->envname("ATOLL_USER_SHARE")
        ->check(CLI::Range(1, 100))
        ->capture_default_str();
    cli.add_option_function<std::vector<std::string>>(
           "--pool", [&config](const std::vector<std::string>& texts) { set_pool(config, texts); },
           "AGENT=N: keeps N sandboxes with this agent started ahead; may be repeated")
        ->envname("ATOLL_POOL")
        ->delimiter(',');
    cli.add_option("--max-memory-mb", config.max_memory_mb,
                   "The memory limits of all living sandboxes together, in MB; 0: no bound")
        ->envname("ATOLL_MAX_MEMORY_MB")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40))
        ->capture_default_str();
    cli.add_option(
           "--memory-reserve", config.memory_reserve_percent,
           "Percent of the host's memory kept available: below it the user who holds most starts nothing and "
           "loses idle sandboxes first; below half of it nobody starts, and that user's largest sandbox is "
           "ended; 0: none")
        ->envname("ATOLL_MEMORY_RESERVE")
        ->check(CLI::Range(0.0, 90.0))
        ->capture_default_str();
    cli.add_option("--evict-idle", config.evict_idle_seconds,
                   "Seconds that a sandbox must have been idle before it may be ended for another one")
        ->envname("ATOLL_EVICT_IDLE")
        ->check(CLI::Range(0, 31'536'000))
        ->capture_default_str();
    cli.add_option(
           "--require", config.required,
           "Limits that this host must enforce, or the server does not start: memory, cpu, processes, "
           "disk (by quota: a disk that is only measured is not enough), filesystem, network, syscalls, "
           "uid, sockets, tmp")
        ->envname("ATOLL_REQUIRE")
        ->delimiter(',')
        ->check(CLI::IsMember(limit_names()));
    cli.add_option("--disk-period", config.disk_period_seconds,
                   "Seconds between two measurements of a workspace that does not grow")
        ->envname("ATOLL_DISK_PERIOD")
        ->check(CLI::Range(1, 86'400))
        ->capture_default_str();
    cli.add_option(
           "--disk-reserve", config.disk_reserve_percent,
           "Percent of the disk kept free: below it the sandbox that grows fastest, or holds most in "
           "deleted files, of the user whose sandboxes do so most, is stopped, and creates are refused, "
           "those of users with most files first, as are messages of those whose logs are largest; 0: "
           "none")
        ->envname("ATOLL_DISK_RESERVE")
        ->check(CLI::Range(0.0, 90.0))
        ->capture_default_str();
    cli.add_option("--turn-limit", config.turn_limit_seconds,
                   "Seconds that a turn may take before it is interrupted; 0: no limit")
        ->envname("ATOLL_TURN_LIMIT")
        ->check(CLI::Range(0, 31'536'000))
        ->capture_default_str();
    cli.add_option("--warm-limit", config.warm_limit_seconds,
                   "Seconds that a paused sandbox stays frozen before it is ended; 0: every pause ends it")
        ->envname("ATOLL_WARM_LIMIT")
        ->check(CLI::Range(0, 31'536'000))
        ->capture_default_str();
    cli.add_option("--turn-log-bytes", config.turn_log_bytes, "Bytes of events that a turn may log")
        ->envname("ATOLL_TURN_LOG_BYTES")
        ->check(CLI::Range(std::size_t{4096}, std::size_t{1} << 32))
        ->capture_default_str();
    cli.add_option("--conversation-log-bytes", config.conversation_log_bytes,
                   "Bytes of events kept of a conversation; the oldest turns go first")
        ->envname("ATOLL_CONVERSATION_LOG_BYTES")
        ->check(CLI::Range(std::size_t{4096}, std::size_t{1} << 36))
        ->capture_default_str();
    cli.add_option(
           "--log-mb", config.log_mb,
           "MB of events kept of all conversations, of which each user has a share; 0: a tenth of the "
           "disk")
        ->envname("ATOLL_LOG_MB")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40))
        ->capture_default_str();
}

void add_execution_options(CLI::App& cli, Config& config) {
    cli.add_option("--executors", config.executors,
                   "Folder of code mode's engines, as scripts/setup --executors fills it")
        ->envname("ATOLL_EXECUTORS")
        ->type_name("DIRECTORY")
        ->default_str("/usr/local/lib/atoll/executors, else executors/ of the build folder");
    cli.add_option_function<std::vector<std::string>>(
           "--executor-pool",
           [&config](const std::vector<std::string>& texts) { set_executor_pools(config, texts); },
           "ENGINE=N: keeps N runners of code mode with this engine started ahead; `auto` is what requests "
           "get that name none; may be repeated; auto=0: none")
        ->envname("ATOLL_EXECUTOR_POOL")
        ->delimiter(',')
        ->default_str("auto=1, from its first run on");
    cli.add_option("--execute-max-memory-mb", config.execute_max_memory_mb,
                   "The highest `memoryMb` that a request to run a program may ask for")
        ->envname("ATOLL_EXECUTE_MAX_MEMORY_MB")
        ->check(CLI::Range(base::k_least_execution_memory_mb, std::uint32_t{1} << 20))
        ->capture_default_str();
}

void add_conversation_options(CLI::App& cli, Config& config) {
    constexpr std::size_t k_most = 100'000'000;
    cli.add_option("--max-conversations", config.conversations.all,
                   "How many conversations, and sandboxes without one, there may be; paused ones count")
        ->envname("ATOLL_MAX_CONVERSATIONS")
        ->check(CLI::Range(std::size_t{1}, k_most))
        ->capture_default_str();
    cli.add_option("--max-conversations-per-user", config.conversations.of_user,
                   "How many of them one user may have")
        ->envname("ATOLL_MAX_CONVERSATIONS_PER_USER")
        ->check(CLI::Range(std::size_t{1}, k_most))
        ->capture_default_str();
    cli.add_option("--keep-ended", config.keep_ended_seconds,
                   "Seconds that a conversation can still be read after its ttlSeconds; then it is forgotten")
        ->envname("ATOLL_KEEP_ENDED")
        ->check(CLI::Range(0, 31'536'000))
        ->capture_default_str();
}

/// "--default-memory-mb" for `memoryMb`.
std::string default_flag(const sandbox::LimitEntry& limit) {
    std::string flag = "--default-";
    for (const char c : limit.api) {
        const bool is_capital = c >= 'A' && c <= 'Z';
        flag.append(is_capital ? 1 : 0, '-').push_back(is_capital ? static_cast<char>(c + ('a' - 'A')) : c);
    }
    return flag;
}

void add_default_options(CLI::App& cli, Config& config) {
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
        const std::string flag = default_flag(limit);
        cli.add_option(flag, config.default_limits.*limit.value,
                       "`limits." + std::string(limit.api) + "` where a request names none")
            ->envname(variable_of(flag))
            ->check(CLI::Range(limit.least, limit.most))
            ->capture_default_str();
    }
    const auto add_seconds = [&](const std::string& flag, std::uint32_t& seconds, const char* what) {
        cli.add_option(flag, seconds, what)
            ->envname(variable_of(flag))
            ->check(CLI::Range(0, 31'536'000))
            ->capture_default_str();
    };
    add_seconds("--default-idle-seconds", config.default_idle_seconds,
                "`idleSeconds` of a conversation whose request names none; 0: it is never paused for that");
    add_seconds(
        "--default-ttl-seconds", config.default_ttl_seconds,
        "`ttlSeconds` of a conversation or sandbox whose request names none; 0: it never ends by itself");
    cli.add_option("--default-preview-ports", config.default_preview_ports,
                   "`preview.ports` where a request names none, the first without a port in its address")
        ->envname("ATOLL_DEFAULT_PREVIEW_PORTS")
        ->delimiter(',')
        ->check(CLI::Range(1, 65535))
        ->capture_default_str();
}

void add_host_options(CLI::App& cli, Config& config) {
    const auto add_program = [&cli](const char* flag, std::filesystem::path& path, const char* what,
                                    const char* variable, const char* place) {
        cli.add_option(flag, path, what)->envname(variable)->type_name("FILE")->default_str(place);
    };
    add_program("--bwrap", config.bwrap, "The bubblewrap program", "ATOLL_BWRAP", "found on PATH");
    add_program("--guest", config.guest, "The guest program", "ATOLL_GUEST", "beside atolld");
    add_program("--helper", config.helper, "The helper program", "ATOLL_HELPER", "beside atolld");
    add_program("--zygote", config.zygote,
                "The program that waits in cgroups of v1 to become a sandbox, and makes sockets for previews "
                "where the server is not root",
                "ATOLL_ZYGOTE", "beside atolld");
    add_program("--checker", config.checker, "The program that checks long calls of code mode",
                "ATOLL_CHECKER", "beside atolld");
    cli.add_option("--uid-lease-dir", config.uid_lease_dir,
                   "Where servers of this host (not as root: of this user) agree on sandbox uids")
        ->envname("ATOLL_UID_LEASE_DIR")
        ->type_name("DIRECTORY")
        ->default_str("/var/lib/atoll/uids, not as root ~/.local/state/atoll-uids");
    cli.add_flag(
           "--shared-uid", config.shared_uid,
           "Not as root: let sandboxes share the server's uid, also where /etc/subuid has others for them")
        ->envname("ATOLL_SHARED_UID");
    cli.add_option("--nice", config.nice,
                   "Priority of the server itself, where it may have one (root): its loop goes before the "
                   "sandboxes, which stay at 0; 0: as it was started")
        ->envname("ATOLL_NICE")
        ->check(CLI::Range(-20, 0))
        ->capture_default_str();
    cli.add_flag("--measure-loop", config.measure_loop,
                 "Measure how late the server's loop is and tell it in /v1/system; costs about 1 % of a CPU")
        ->envname("ATOLL_MEASURE_LOOP");
    cli.add_flag("--adopt-orphans", config.adopt_orphans,
                 "Start with an empty database although there are workspaces: they are kept in "
                 "<data-dir>/orphaned; see `atolld orphans`");
    cli.add_flag("--print-profile", config.print_profile,
                 "Print the isolation profile of this host and exit");
    cli.add_flag(
        "--check-config", config.check_config,
        "Check flags, environment, configuration file, agents, programs, engines and certificate, and exit: "
        "status 0 if a server can start with them, else as a start. Not checked: whether addresses are free, "
        "and what this host offers");
}

void add_keys_command(CLI::App& cli, Config& config, KeysCommand& command, std::filesystem::path& data_dir) {
    CLI::App* keys = cli.add_subcommand("keys", "Adds, lists and revokes API keys; also while a server runs");
    keys->require_subcommand(1);
    const auto add_action = [&](const char* name, const char* what, KeysCommand::Action action) {
        CLI::App* made = keys->add_subcommand(name, what);
        made->add_option("--data-dir", data_dir, "The server's data directory");
        made->callback([&config, &command, action] {
            command.action = action;
            config.keys = command;
        });
        return made;
    };
    CLI::App* add = add_action("add", "Makes a key and prints it, this once", KeysCommand::Action::add);
    add->add_option("label", command.label, "What the key is for, as `keys list` shows it")->required();
    add->add_option("--user-id", command.user_id, "A key for the conversations of this user only");
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table)
        add_ceiling(*add, "--max-" + std::string(limit.flag), limit, command.ceilings,
                    "The highest `" + std::string(limit.api) + "` that it may ask for");
    add_action("list", "Lists the keys, without the keys themselves", KeysCommand::Action::list);
    CLI::App* revoke = add_action("revoke", "Makes a key worthless at once", KeysCommand::Action::revoke);
    revoke->add_option("id", command.id, "The key's id, from `keys list`")->required();
}

void add_orphans_command(CLI::App& cli, Config& config, OrphansCommand& command,
                         std::filesystem::path& data_dir) {
    CLI::App* orphans = cli.add_subcommand(
        "orphans",
        "Lists, adopts and removes workspaces that no record of the database names, kept in "
        "<data-dir>/orphaned. Exit status: 0, or 1 with what is wrong on stderr");
    orphans->require_subcommand(1);
    const auto add_action = [&](const char* name, const char* what, OrphansCommand::Action action) {
        CLI::App* made = orphans->add_subcommand(name, what);
        made->add_option("--data-dir", data_dir, "The server's data directory");
        made->callback([&config, &command, action] {
            command.action = action;
            config.orphans = command;
        });
        return made;
    };
    using Action = OrphansCommand::Action;
    add_action("list", "Tells date, id and owner of each; also while the server runs", Action::list);
    CLI::App* adopt = add_action(
        "adopt", "Makes a paused conversation with the workspace and prints its id; stop the server first",
        Action::adopt);
    adopt->add_option("--user-id", command.user_id, "The user that the conversation is for");
    adopt->add_option("--agent", command.agent, "The conversation's agent")->capture_default_str();
    CLI::App* remove = add_action(
        "remove",
        "Gives the workspace to the next start of the server, which removes it; stop the server first",
        Action::remove);
    for (CLI::App* action : {adopt, remove})
        action->add_option("id", command.name, "ID or DATE/ID, from `orphans list`")->required();
}

void add_backup_command(CLI::App& cli, Config& config, BackupCommand& command,
                        std::filesystem::path& data_dir) {
    CLI::App* backup = cli.add_subcommand(
        "backup",
        "Writes the database as it is now to a file, checked, in place of what that file was; also while the "
        "server runs. Exit status: 0, or 1 with what is wrong on stderr");
    backup->add_option("--data-dir", data_dir, "The server's data directory");
    backup->add_option("file", command.file, "Where to; appears only when it is whole")->required();
    backup->callback([&config, &command] { config.backup = command; });
}

void refuse(ParsedConfig& parsed, const std::string& why, const std::string& command = "atolld") {
    parsed.exit_code = 2;
    parsed.text = "atolld: " + why + base::fix_line(command + " --help") + '\n';
}

/// "atolld keys add", as far as the command line was understood.
std::string command_of(const CLI::App& cli) {
    const auto below = cli.get_subcommands();
    return cli.get_name() + (below.empty() ? "" : ' ' + command_of(*below.front()));
}

/// The commands that may stand behind the last of those: " (add, list, revoke)".
std::string commands_below(const CLI::App& cli) {
    if (const auto below = cli.get_subcommands(); !below.empty())
        return commands_below(*below.front());
    std::string names;
    for (const CLI::App* const below : cli.get_subcommands([](const CLI::App*) { return true; }))
        names.append(names.empty() ? " (" : ", ").append(below->get_name());
    return names.empty() ? names : names + ')';
}

void check_default_ports(const std::vector<std::uint16_t>& ports) {
    const std::set<std::uint16_t> different(ports.begin(), ports.end());
    if (different.size() != ports.size() || ports.size() > base::k_max_preview_ports ||
        std::ranges::any_of(ports, base::is_reserved_port))
        throw CLI::ValidationError(
            "--default-preview-ports",
            "must be at most " + std::to_string(base::k_max_preview_ports) +
                " different ports, without those that the server holds inside (3128 and 3129)");
}

/// A default that was named, and that no request could get.
void check_default_limits(const Config& config) {
    const sandbox::Limits built_in;
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table) {
        const std::uint32_t value = config.default_limits.*limit.value;
        const auto ceiling = config.ceilings.*limit.change;
        if (value != built_in.*limit.value && ceiling && value > *ceiling)
            throw CLI::ValidationError(default_flag(limit),
                                       "must not be above --max-" + std::string(limit.flag) +
                                           "-per-sandbox, which is " + std::to_string(*ceiling));
    }
}

/// Checks relations between options.
void check_together(const Config& config) {
    check_default_limits(config);
    check_default_ports(config.default_preview_ports);
    if (config.turn_log_bytes > config.conversation_log_bytes)
        throw CLI::ValidationError("--turn-log-bytes", "must not be above --conversation-log-bytes");
    std::size_t pooled = 0;
    for (const auto& size : config.pool)
        pooled += size.size;
    const std::uint32_t least_mb =
        std::ranges::find(sandbox::k_limit_table, &sandbox::Limits::memory_mb, &sandbox::LimitEntry::value)
            ->least;
    if (config.max_memory_mb > 0 && config.max_memory_mb < least_mb)
        throw CLI::ValidationError("--max-memory-mb", "must be 0, which is no bound, or at least " +
                                                          std::to_string(least_mb) +
                                                          ", the least `memoryMb` of a sandbox");
    if (pooled > config.max_sandboxes)
        throw CLI::ValidationError("--pool", "must not come to more than --max-sandboxes");
    if (config.tls_cert.empty() && !config.tls_key.empty())
        throw CLI::ValidationError("--tls-key", "needs --tls-cert, the certificate of this key");
    if (config.tls_key.empty() && !config.tls_cert.empty())
        throw CLI::ValidationError("--tls-cert", "needs --tls-key, the private key of this certificate");
}

}  // namespace

ParsedConfig parse_config(int argc, const char* const* argv) {
    Config config;
    config.data_dir = default_data_dir();
    config.uid_lease_dir = default_uid_lease_dir();
    config.guest = program_dir() / "atoll-guest";
    config.helper = program_dir() / "atoll-helper";
    config.zygote = program_dir() / "atoll-zygote";
    config.checker = program_dir() / "atoll-checker";
    config.runners = program_dir() / "engines";
    CLI::App cli("atolld: gives every conversation of a chat product its own locked-down sandbox", "atolld");
    cli.set_version_flag("--version", std::string("atolld ") + ATOLL_VERSION);
    cli.set_config("--config", "",
                   "A configuration file, INI or TOML, with the names of these flags without dashes")
        ->type_name("FILE");
    cli.footer("The API key comes from ATOLL_API_KEY, or is made at the first start in <data-dir>/api-key.");
    add_server_options(cli, config);
    add_sandbox_options(cli, config);
    add_execution_options(cli, config);
    add_conversation_options(cli, config);
    add_ceiling_options(cli, config);
    add_default_options(cli, config);
    add_host_options(cli, config);
    std::filesystem::path command_data_dir;
    KeysCommand keys;
    add_keys_command(cli, config, keys, command_data_dir);
    OrphansCommand orphans;
    add_orphans_command(cli, config, orphans, command_data_dir);
    BackupCommand backup;
    add_backup_command(cli, config, backup, command_data_dir);
    ParsedConfig parsed;
    try {
        {
            Variables variables(cli);
            cli.config_formatter(std::make_shared<CheckedConfigFile>(cli, variables.overridden_keys()));
            cli.parse(argc, argv);
            variables.apply();
        }
        if (!command_data_dir.empty())
            config.data_dir = command_data_dir;
        check_together(config);
        name_previews(config);
        check_egress(config);
        config.data_dir = std::filesystem::absolute(config.data_dir).lexically_normal();
        config.uid_lease_dir = std::filesystem::absolute(config.uid_lease_dir).lexically_normal();
        // A server that ignored it would run without an address or a limit that its operator set.
        auto unread = unread_variables(cli);
        if (!unread.mistyped.empty())
            throw CLI::ValidationError(unread.mistyped);
        config.unread_variables = std::move(unread.strange);
        parsed.config = std::move(config);
    } catch (const CLI::Success& wanted) {
        std::ostringstream text;
        std::ostringstream unused;
        parsed.exit_code = cli.exit(wanted, text, unused);
        parsed.text = text.str();
    } catch (const CLI::ExtrasError& error) {
        refuse(parsed, error.what() + hints_for_extras(cli));
    } catch (const CLI::RequiredError& error) {
        const std::string command = command_of(cli);
        refuse(parsed, "`" + command + "`: " + error.what() + commands_below(cli), command);
    } catch (const CLI::Error& error) {
        refuse(parsed, error.what());
    }
    return parsed;
}

}  // namespace atl::app
