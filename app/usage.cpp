#include "app/usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/base/fix.hpp"

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

/// `text` as a word of a shell's command line, in quotes only if it needs them.
std::string shell_word(const std::string& text) {
    static constexpr std::string_view k_plain = "/._-+,:@%=";
    const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || k_plain.find(c) != std::string_view::npos;
    });
    if (is_plain && !text.empty())
        return text;
    std::string quoted = "'";
    for (const char c : text)
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

bool is_unix(std::string_view address) {
    return address.starts_with("unix:");
}

bool is_reachable(std::string_view address) {
    return !is_unix(address) && !address.starts_with("127.") && !address.starts_with("[::1]:");
}

std::string url_of(const UsageFacts& facts, const std::string& address) {
    return is_unix(address) ? address : (facts.scheme == Scheme::https ? "https://" : "http://") + address;
}

/// The addresses behind the first one.
std::string other_addresses(const UsageFacts& facts) {
    std::string text;
    for (std::size_t i = 1; i < facts.addresses.size(); ++i)
        text += (i == 1 ? "  also on         " : ", ") + url_of(facts, facts.addresses[i]);
    return text.empty() ? text : text + '\n';
}

std::string warnings(const UsageFacts& facts) {
    std::string text;
    for (const auto& address : facts.addresses) {
        if (facts.scheme == Scheme::http && is_reachable(address))
            text += "\nWARNING: " + address +
                    " is not encrypted: others on the network can read keys and conversations. Give the\n"
                    "server --tls-cert and --tls-key, or put it on the loopback behind a proxy with TLS.\n";
    }
    return text;
}

constexpr const char* k_get_javascript = "scripts/setup --executors";

bool lacks_javascript(const std::vector<execution::Language>& languages) {
    return std::find(languages.begin(), languages.end(), execution::Language::javascript) == languages.end();
}

/// The languages of code mode, and how to get the one that is missing on a fresh install.
std::string code_mode(const std::vector<execution::Language>& languages) {
    std::string text;
    for (const execution::Language language : languages)
        text += (text.empty() ? "" : ", ") + std::string(to_string(language));
    if (text.empty())
        return "none (GET /v1/executors says why)";
    return lacks_javascript(languages) ? text + " (JavaScript: " + k_get_javascript + ")" : text;
}

/// The walk of README.md, indented: a page from a prompt; a message whose stream is cut, and the rest of its
/// events.
std::string walk(const std::string& url, const std::string& key, const std::string& curl) {
    return "  url=" + url + "/v1/conversations\n" + "  key=" + key + "\n" + "  api() { " + curl +
           R"( -H "Authorization: Bearer $key" -H 'Content-Type: application/json' "$@"; }
  sse='Accept: text/event-stream'
  id=$(api "$url" -d '{"agent":"demo"}' | jq -r .id)
  api "$url/$id/messages" -H "$sse" -d '{"content":"A page about the tides"}' | sed -n 's/^data: //p' | jq -j '.data.delta // empty'
  api "$url/$id" | jq -r .sandboxPublicUrl  # open it in a browser
  # Another conversation: the agent `shell` runs each message with bash.
  id=$(api "$url" -d '{"agent":"shell"}' | jq -r .id)
  # Send a message; the connection breaks behind the third event, and the turn goes on.
  api "$url/$id/messages" -H "$sse" -d '{"content":"for i in 1 2 3; do echo $i; sleep 1; done"}' | head -n 9 | tee seen
  # Connect again, for five seconds, with the last id that was seen: each later event comes, once.
  last=$(sed -n 's/^id: //p' seen | tail -n 1)
  api -m 5 "$url/$id/events?after=$last" -H "$sse"
  api -X DELETE "$url/$id"
)";
}

}  // namespace

std::string code_mode_fix(const std::vector<execution::Language>& languages) {
    return !languages.empty() && lacks_javascript(languages) ? base::fix_line(k_get_javascript) : "";
}

std::string usage_text(const UsageFacts& facts) {
    const std::string& address = facts.addresses.front();
    const std::string url = is_unix(address) ? "http://localhost" : url_of(facts, address);
    const std::string key_file = facts.api_key_file.string();
    const bool generated = !facts.generated_key.empty();
    std::string text = "Atoll " + std::string(ATOLL_VERSION) + " serves on " + url_of(facts, address) +
                       "\n\n" + other_addresses(facts);
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
    text += "  code mode       " + code_mode(facts.languages) + "\n";
    text += "  previews        what listens on port 5173 of a sandbox, at its `sandboxPublicUrl`:\n" +
            std::string(18, ' ') +
            (facts.preview_domain.empty() ? "a port of this machine, 30000 to 39999"
                                          : "a name below " + facts.preview_domain) +
            "\n";
    text += warnings(facts);
    // A key file that was written by hand may end in CR LF; the server takes that, too.
    text += "\nTry it in another terminal (curl and jq):\n\n" +
            walk(url, generated ? "$(tr -d '\\r\\n' < " + shell_word(key_file) + ")" : "$ATOLL_API_KEY",
                 is_unix(address) ? "curl -sN --unix-socket " + shell_word(address.substr(5)) : "curl -sN") +
            "\n";
    text += "GET " + url + "/openapi.json describes every route. Ctrl-C ends the server.\n";
    return text;
}

}  // namespace atl::app
