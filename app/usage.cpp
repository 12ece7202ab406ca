#include "app/usage.hpp"

#include <fmt/format.h>

#include <cctype>
#include <string_view>

namespace atl::app {
namespace {

// For a fragment; the key file may have been written by hand.
std::string percent_encoded(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            out += c;
        else
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

bool is_unix(std::string_view address) {
    return address.starts_with("unix:");
}

bool is_reachable(std::string_view address) {
    return !is_unix(address) && !address.starts_with("127.") && !address.starts_with("[::1]:");
}

std::string warnings(const UsageFacts& facts) {
    std::string text;
    for (const auto& address : facts.addresses) {
        if (facts.scheme == Scheme::http && is_reachable(address))
            text += "\nWARNING: " + address +
                    " is not encrypted: who is on the way reads keys and conversations. Give the\n"
                    "server --tls-cert and --tls-key, or put it on the loopback behind a proxy with TLS.\n";
    }
    return text;
}

}  // namespace

std::string usage_text(const UsageFacts& facts) {
    const std::string& address = facts.addresses.front();
    const std::string scheme = facts.scheme == Scheme::https ? "https://" : "http://";
    const std::string url = is_unix(address) ? "http://localhost" : scheme + address;
    const std::string curl = is_unix(address) ? "curl -N --unix-socket " + address.substr(5) : "curl -N";
    const std::string key_file = facts.api_key_file.string();
    const bool generated = !facts.generated_key.empty();
    std::string text =
        "Atoll " + std::string(ATOLL_VERSION) + " serves on " + (is_unix(address) ? address : url) + "\n\n";
    text += "  data directory  " + facts.data_dir.string() + "\n";
    text += "  API key         " + (generated ? "in " + key_file : std::string("from ATOLL_API_KEY")) + "\n";
    // Browsers keep a fragment to themselves. A key that the operator chose is not printed anywhere, and none
    // is printed to a journal.
    if (!is_unix(address))
        text +=
            "  console         " + url + "/" +
            (generated && facts.reader == Reader::terminal ? "#key=" + percent_encoded(facts.generated_key)
                                                           : "") +
            "\n";
    text += "  previews        what listens on port 5173 of a sandbox, at its `sandboxPublicUrl`:\n" +
            std::string(18, ' ') +
            (facts.preview_domain.empty() ? "a port of this machine, 30000 to 39999"
                                          : "a name below " + facts.preview_domain) +
            "\n";
    text += warnings(facts);
    text += "\nTry it:\n\n";
    if (generated)
        text += "  export ATOLL_API_KEY=$(cat " + key_file + ")\n";
    const std::string auth = " -H \"Authorization: Bearer $ATOLL_API_KEY\" ";
    text += "  " + curl + auth + "-X POST " + url + "/v1/conversations\n";
    text += "  " + curl + auth + "-H 'Content-Type: application/json' -H 'Accept: text/event-stream' \\\n";
    text += "       -d '{\"content\": \"uname -a; ps aux\"}' " + url + "/v1/conversations/ID/messages\n\n";
    text += "GET " + url + "/openapi.json describes every route. Ctrl-C ends the server.\n";
    return text;
}

}  // namespace atl::app
