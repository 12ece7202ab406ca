#include "bridge/guest/exec_command.hpp"

#include <sys/stat.h>

#include <utility>

#include "bridge/json_scan.hpp"
#include "core/base/limits.hpp"

namespace atl::guest {
namespace {

// The members themselves and what is in argv and env; nothing nests deeper.
constexpr std::size_t k_max_exec_depth = 3;
constexpr std::uint64_t k_longest_timeout_ms = std::uint64_t{1000} * 1'000'000'000;

bool has_nul(std::string_view text) {
    return text.find('\0') != std::string_view::npos;
}

struct ExecVisitor : bridge::ObjectVisitor {
    ExecRequest request;
    const char* refusal = nullptr;

    bool refuse(const char* why) {
        refusal = why;
        return false;
    }
    bool on_string(const std::string& key, std::string& value) {
        if (key == "command") {
            if (has_nul(value) || !request.argv.empty() || request.script)
                return refuse("`command` with a NUL character, twice, or beside `argv`");
            request.script = std::move(value);
        } else if (key == "cwd") {
            if (has_nul(value))
                return refuse("`cwd` with a NUL character");
            request.directory = std::move(value);
        }
        return true;
    }
    bool on_bool(const std::string& key, bool value) {
        if (key == "stdin")
            request.stdin_kind = value ? ExecRequest::Stdin::pipe : ExecRequest::Stdin::none;
        return true;
    }
    bool on_unsigned(const std::string& key, std::uint64_t value) {
        if (key != "timeoutMs")
            return true;
        if (value > k_longest_timeout_ms)
            return refuse("`timeoutMs` beyond its bound");
        request.timeout = Millis(value);
        return true;
    }
    bool on_array(const std::string& key, std::string_view span) {
        if (key != "argv")
            return true;
        if (!request.argv.empty() || request.script)
            return refuse("`argv` twice, or beside `command`");
        for (const nlohmann::json& item : nlohmann::json::parse(span, nullptr, false)) {
            if (!item.is_string() || has_nul(item.get_ref<const std::string&>()))
                return refuse("`argv` is not a list of strings without NUL characters");
            request.argv.push_back(item.get<std::string>());
        }
        return true;
    }
    bool on_object(const std::string& key, std::string_view span) {
        if (key != "env")
            return true;
        const nlohmann::json members = nlohmann::json::parse(span, nullptr, false);
        for (const auto& [name, value] : members.items()) {
            if (name.empty() || has_nul(name) || name.find('=') != std::string::npos || !value.is_string() ||
                has_nul(value.get_ref<const std::string&>()))
                return refuse("`env` is not an object of names and strings without NUL characters");
            request.environment.push_back(name + "=" + value.get<std::string>());
        }
        return true;
    }
};

/// Why `request` cannot be run, or null.
const char* check(const ExecRequest& request, const std::string& directory) {
    if (!request.script && (request.argv.empty() || request.argv[0].empty()))
        return "exec without a command";
    struct stat found {};
    if (stat(directory.c_str(), &found) != 0 || !S_ISDIR(found.st_mode))
        return "`cwd` is not a directory";
    return nullptr;
}

}  // namespace

void ExecCommand::begin(Connection& connection, Command& command) {
    using namespace bridge::refusal;
    ExecVisitor visitor;
    if (bridge::scan_object(command.line, k_max_exec_depth, visitor) != bridge::Scan::complete)
        return refuse(connection, visitor.refusal != nullptr ? visitor.refusal : "exec nested too deep",
                      invalid);
    ExecRequest& request = visitor.request;
    if (!request.directory.starts_with('/'))
        request.directory = services_.workspace + "/" + request.directory;
    if (const char* why = check(request, request.directory))
        return refuse(connection, why, invalid);
    if (runs_.size() == k_max_exec_runs)
        return refuse(connection, "too many programs run in this sandbox already", busy);
    runs_.emplace_back(services_, connection);
    const auto run = std::prev(runs_.end());
    const ExecRefusal refusal = run->start(request, [this, run] { runs_.erase(run); });
    if (refusal.error.empty())
        return;
    runs_.erase(run);
    refuse(connection, refusal.error, refusal.code);
}

}  // namespace atl::guest
