#include "app/egress_options.hpp"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/base/ip_address.hpp"

namespace atl::app {
namespace {

using Texts = std::vector<std::string>;

void require_good(const char* flag, const base::Result<void>& result) {
    if (result.has_error())
        throw CLI::ValidationError(flag, result.error().detail());
}

/// CLI11 takes [A] for a list and drops its brackets.
std::string with_brackets(const std::string& text) {
    const auto address = base::parse_address(text);
    return address && address->is_v6() ? '[' + text + ']' : text;
}

/// The commas of NAME=PATTERN,PATTERN,NAME=PATTERN are those of lists and those of flags: a text without a
/// name goes on with the group before it.
Texts joined_groups(const Texts& texts) {
    Texts groups;
    for (const std::string& text : texts) {
        if (groups.empty() || text.find('=') != std::string::npos)
            groups.push_back(text);
        else
            groups.back() += ',' + with_brackets(text);
    }
    return groups;
}

}  // namespace

void add_egress_options(CLI::App& cli, Config& config) {
    egress::Ceilings& ceilings = config.egress;
    cli.add_option_function<Texts>(
           "--egress-allow",
           [&ceilings](const Texts& texts) {
               for (const auto& text : texts)
                   require_good("--egress-allow", ceilings.allow(with_brackets(text)));
           },
           "What keys with a user may list in network \"egress\": HOST, *.HOST, * (every public name), each "
           "with :PORT (80 and 443 without it) and /tcp (for more than TLS), or @GROUP; may be repeated")
        ->envname("ATOLL_EGRESS_ALLOW")
        ->delimiter(',');
    cli.add_option_function<Texts>(
           "--egress-group",
           [&ceilings](const Texts& texts) {
               for (const auto& text : joined_groups(texts))
                   require_good("--egress-group", ceilings.add_group(text));
           },
           "NAME=PATTERN,PATTERN: what @NAME stands for in a list of network \"egress\"; may be repeated")
        ->envname("ATOLL_EGRESS_GROUP")
        ->delimiter(',');
    cli.add_option_function<Texts>(
           "--egress-private",
           [&ceilings](const Texts& texts) {
               for (const auto& text : texts)
                   require_good("--egress-private", ceilings.allow_private(text));
           },
           "CIDR:PORT, as 10.0.0.0/8:443: addresses of this host and of private networks that network "
           "\"egress\" may reach, with any key; may be repeated")
        ->envname("ATOLL_EGRESS_PRIVATE")
        ->delimiter(',');
    cli.add_option_function<Texts>(
           "--egress-ca",
           [&config](const Texts& files) { config.egress_ca.assign(files.begin(), files.end()); },
           "File of certificates in PEM that upstreams may be verified by, beside those of the system, "
           "where the server speaks TLS to them; may be repeated")
        ->envname("ATOLL_EGRESS_CA")
        ->delimiter(',')
        ->check(CLI::ExistingFile);
    cli.add_option("--egress-log", config.egress_log,
                   "File that gets a line of JSON for each request of network \"egress\"; opened again at "
                   "SIGHUP")
        ->envname("ATOLL_EGRESS_LOG")
        ->type_name("FILE");
}

void check_egress(const Config& config) {
    require_good("--egress-allow", config.egress.check_groups());
}

}  // namespace atl::app
