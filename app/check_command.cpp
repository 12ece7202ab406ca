#include "app/check_command.hpp"

#include <cstdlib>

#include "app/data_dir.hpp"
#include "app/part_settings.hpp"
#include "http/wire/certificate.hpp"
#include "http/wire/tls_context.hpp"

namespace atl::app {

base::Result<CommandOutput> check_configuration(const Config& config) {
    if (const auto agents = configured_agents(config); !agents)
        return agents.error();
    if (const char* key = std::getenv("ATOLL_API_KEY"); key != nullptr && *key != '\0') {
        if (const auto usable = usable_key(key, "ATOLL_API_KEY"); !usable)
            return usable.error();
    }
    CommandOutput output;
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
