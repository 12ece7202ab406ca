#include "app/check_command.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "app/data_dir.hpp"
#include "app/host.hpp"
#include "app/part_settings.hpp"
#include "app/sandbox_egress.hpp"
#include "core/base/fix.hpp"
#include "core/isolation/user_namespace.hpp"
#include "http/server/listener.hpp"
#include "http/wire/certificate.hpp"
#include "http/wire/text.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::app {
namespace {

using base::Result;

/// Leads to the program that lies beside this one, or has all of them built.
std::string program_fix(const Config& config, const char* flag) {
    const auto beside = config.runners.parent_path() / ("atoll-" + std::string(flag).substr(2));
    return ::access(beside.c_str(), X_OK) == 0
               ? base::fix_line("atolld " + std::string(flag) + ' ' + beside.string() + " ...")
               : base::fix_line("scripts/run --version");
}

// Without --bwrap it is found on PATH at the start.
Result<void> check_programs(const Config& config) {
    const auto cannot_run = [](const std::filesystem::path& program, int error_number) {
        return base::errno_text("the program " + program.string() + " cannot be run", error_number);
    };
    if (!config.bwrap.empty() && ::access(config.bwrap.c_str(), X_OK) != 0) {
        const std::string why = cannot_run(config.bwrap, errno);
        return base::Error(base::Errc::invalid_field,
                           why + isolation::root_fix_line("apt-get install bubblewrap"));
    }
    for (const auto& [flag, program] :
         {std::pair{"--guest", &config.guest}, std::pair{"--helper", &config.helper},
          std::pair{"--zygote", &config.zygote}, std::pair{"--checker", &config.checker}}) {
        std::error_code ignored;
        int cause = ::access(program->c_str(), X_OK) == 0 ? 0 : errno;
        if (cause == 0 && std::filesystem::is_directory(*program, ignored))
            cause = EISDIR;
        if (cause != 0)
            return base::Error(base::Errc::invalid_field,
                               cannot_run(*program, cause) + program_fix(config, flag));
    }
    return {};
}

/// The log of requests can be written; the file itself is not made.
Result<void> check_egress_log(const Config& config) {
    if (config.egress_log.empty())
        return {};
    const std::filesystem::path folder =
        config.egress_log.has_parent_path() ? config.egress_log.parent_path() : ".";
    const bool is_there = ::access(config.egress_log.c_str(), F_OK) == 0;
    if (::access((is_there ? config.egress_log : folder).c_str(), W_OK) == 0)
        return {};
    const int cause = errno;
    return base::Error(base::Errc::storage_failed,
                       base::errno_text("--egress-log: open " + config.egress_log.string(), cause) +
                           (cause == ENOENT ? base::fix_line("mkdir -p " + folder.string()) : ""));
}

// A server without its list of engines starts without them.
Result<void> check_engines(const Config& config) {
    const auto engines = execution::Engines::read(engine_folders(config));
    return engines ? check_executor_pools(config, *engines) : Result<void>();
}

Result<void> check_egress_ca(const Config& config, const std::vector<sandbox::AgentSpec>& agents) {
    if (!needs_egress(config, agents))
        return {};
    const auto tls = upstream_tls(config);
    return tls ? Result<void>() : tls.error();
}

/// The same port of the loopback where `spec` names one.
std::string address_fix(const std::string& flag, const std::string& spec) {
    const std::string port = spec.substr(spec.rfind(':') + 1);
    const auto number = http::parse_decimal(port);
    return base::fix_line("atolld " + flag +
                          " 127.0.0.1:" + (number && *number <= UINT16_MAX ? port : "4100") + " ...");
}

Result<void> check_address(const Config& config, const std::string& flag, const std::string& spec) {
    // A socket in the data directory, which the start makes.
    if (spec.starts_with("unix:" + config.data_dir.string() + '/'))
        return {};
    const auto found = http::check_listen_spec(spec);
    if (found)
        return {};
    const std::string why = found.error().detail();
    const bool has_fix = why.find(base::k_fix) != std::string::npos;
    return base::Error(found.error().code(), why + (has_fix ? "" : address_fix(flag, spec)));
}

Result<void> check_addresses(const Config& config) {
    for (const std::string& spec : config.listen) {
        if (auto good = check_address(config, "--listen", spec); !good)
            return good;
    }
    return config.preview_listen.empty() ? Result<void>()
                                         : check_address(config, "--preview-listen", config.preview_listen);
}

}  // namespace

Result<void> check_start(const Config& config) {
    const auto agents = configured_agents(config);
    if (!agents)
        return agents.error();
    for (const auto check : {check_addresses, check_programs, check_engines, check_egress_log}) {
        if (const auto good = check(config); !good)
            return good.error();
    }
    if (const auto good = check_egress_ca(config, *agents); !good)
        return good.error();
    if (const auto layout = layout_of_host(config); !layout)
        return layout.error();
    return {};
}

Result<CommandOutput> check_configuration(const Config& config) {
    if (const auto good = check_start(config); !good)
        return good.error();
    if (const char* key = std::getenv("ATOLL_API_KEY"); key != nullptr && *key != '\0') {
        if (const auto usable = usable_key(key, "ATOLL_API_KEY"); !usable)
            return usable.error();
    }
    CommandOutput output;
    for (const std::string& warning : config.unread_variables)
        output.note += "atolld --check-config: " + warning + "\n";
    if (const std::string why = why_no_executions(config); !why.empty())
        output.note += "atolld --check-config: no program of code mode can run: " + why + "\n";
    if (const std::string warning = listen_warning(config); !warning.empty())
        output.note += "atolld --check-config: " + warning + "\n";
    if (!config.tls_cert.empty()) {
        const auto certificate = http::read_certificate({config.tls_cert, config.tls_key});
        if (!certificate)
            return certificate.error();
        if (const auto context = http::TlsContext::make(*certificate); !context)
            return context.error();
        for (const auto& warning : certificate->warnings)
            output.note += "the certificate: " + warning + "\n";
    }
    output.text = "atolld: the configuration is good\n";
    return output;
}

}  // namespace atl::app
