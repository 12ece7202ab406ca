// The text for the operator at the start: the server's addresses, and how to try it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/execution/engine.hpp"

namespace atl::app {

enum class Scheme : std::uint8_t { http, https };
/// Where the text goes. What is no terminal is kept by a journal or a file: no key goes there.
enum class Reader : std::uint8_t { terminal, other };

struct UsageFacts {
    std::vector<std::string> addresses;  // as bound; at least one
    std::filesystem::path data_dir;
    std::filesystem::path api_key_file;
    std::string generated_key;     // empty: the operator chose it, and it is printed nowhere
    Scheme scheme = Scheme::http;  // of TCP listeners
    std::string preview_domain{};  // empty: previews are ports of this machine
    Reader reader = Reader::other;
    std::vector<execution::Language> languages{};  // of programs of code mode that can run now
};

/// A base::fix_line() where code mode runs programs, and none in JavaScript.
std::string code_mode_fix(const std::vector<execution::Language>& languages);

/// Text for a terminal, with a warning if keys would cross a network without TLS.
std::string usage_text(const UsageFacts& facts);

}  // namespace atl::app
