#include "bridge/guest/program_request.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "bridge/protocol.hpp"

namespace atl::guest {
namespace {

constexpr std::uint64_t k_longest_timeout_ms = std::uint64_t{1000} * 1'000'000'000;

bool has_nul(std::string_view text) {
    return text.find('\0') != std::string_view::npos;
}

}  // namespace

ProgramRefusal program_refusal(int error_number, std::string error) {
    // fork(2): EAGAIN is a limit of processes, that of the uid or that of the cgroup.
    if (error_number == EAGAIN)
        return {std::move(error), bridge::refusal::no_process};
    const bool busy = error_number == ENOMEM || error_number == EMFILE || error_number == ENFILE;
    return {std::move(error), busy ? bridge::refusal::busy : bridge::refusal::invalid};
}

bool make_pipe(base::UniqueFd& own, base::UniqueFd& other, int own_index) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    own.reset(ends[own_index]);
    other.reset(ends[1 - own_index]);
    return fcntl(own.get(), F_SETFL, O_NONBLOCK) == 0;
}

bool ProgramVisitor::on_string(const std::string& key, std::string& value) {
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

bool ProgramVisitor::on_bool(const std::string& key, bool value) {
    if (key == "stdin")
        request.stdin_kind = value ? ProgramRequest::Stdin::pipe : ProgramRequest::Stdin::none;
    return true;
}

bool ProgramVisitor::on_unsigned(const std::string& key, std::uint64_t value) {
    if (key != "timeoutMs")
        return true;
    if (value > k_longest_timeout_ms)
        return refuse("`timeoutMs` beyond its bound");
    request.timeout = Millis(value);
    return true;
}

bool ProgramVisitor::on_array(const std::string& key, std::string_view span) {
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

bool ProgramVisitor::on_object(const std::string& key, std::string_view span) {
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

ProgramRefusal check_program(ProgramRequest& request, const std::string& workspace) {
    if (!request.script && (request.argv.empty() || request.argv[0].empty()))
        return {"exec without a command", bridge::refusal::invalid};
    if (!request.directory.starts_with('/'))
        request.directory = workspace + "/" + request.directory;
    struct stat found {};
    if (stat(request.directory.c_str(), &found) != 0 || !S_ISDIR(found.st_mode))
        return {"`cwd` is not a directory", bridge::refusal::cwd};
    return {};
}

pid_t spawn_program(SpawnRequest& spawned, const ProgramRequest& request) {
    spawned.argv = request.argv;
    spawned.directory = request.directory;
    spawned.environment = request.environment;
    return request.script ? spawn_shell(spawned, *request.script) : spawn(spawned);
}

}  // namespace atl::guest
