#include "app/check_command.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "app/data_dir.hpp"
#include "app/host.hpp"
#include "app/part_settings.hpp"
#include "app/sandbox_egress.hpp"
#include "http/server/listener.hpp"
#include "http/wire/certificate.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::app {
namespace {

using base::Result;

// Without --bwrap it is found on PATH at the start.
Result<void> check_programs(const Config& config) {
    for (const auto& program : {config.bwrap, config.guest, config.helper, config.zygote, config.checker}) {
        if (!program.empty() && ::access(program.c_str(), X_OK) != 0)
            return base::Error(base::Errc::invalid_field,
                               base::errno_text("the program " + program.string() + " cannot be run", errno));
    }
    return {};
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

}  // namespace

Result<void> check_addresses(const Config& config) {
    std::vector<std::string> specs = config.listen;
    if (!config.preview_listen.empty())
        specs.push_back(config.preview_listen);
    for (const std::string& spec : specs) {
        if (auto formed = http::check_listen_spec(spec); !formed)
            return formed;
    }
    return {};
}

Result<CommandOutput> check_configuration(const Config& config) {
    const auto agents = configured_agents(config);
    if (!agents)
        return agents.error();
    for (const auto check : {check_addresses, check_programs, check_engines}) {
        if (const auto good = check(config); !good)
            return good.error();
    }
    if (const auto good = check_egress_ca(config, *agents); !good)
        return good.error();
    if (const auto layout = layout_of_host(config); !layout)
        return layout.error();
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
