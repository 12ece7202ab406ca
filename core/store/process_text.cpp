#include "core/store/process_text.hpp"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace atl::store {

using nlohmann::json;
using Stdin = sandbox::RunSpec::Stdin;

sandbox::ProcessSpec parse_process(const std::string& text) {
    sandbox::ProcessSpec spec;
    const json members = json::parse(text, nullptr, false);
    if (!members.is_object())
        return spec;
    const auto read = [&members](const char* name, auto& value) {
        try {
            if (const auto found = members.find(name); found != members.end())
                found->get_to(value);
        } catch (const json::exception&) {
            value = {};
        }
    };
    std::string command;
    std::int64_t timeout_ms = 0;
    bool has_input = false;
    std::vector<std::uint16_t> size;
    read("id", spec.id);
    read("tag", spec.tag);
    read("command", command);
    read("argv", spec.program.argv);
    read("directory", spec.program.directory);
    read("env", spec.program.env);
    read("timeoutMs", timeout_ms);
    read("stdin", has_input);
    read("terminal", size);
    if (!command.empty())
        spec.program.command = std::move(command);
    spec.program.timeout = std::chrono::milliseconds(timeout_ms);
    spec.program.stdin_kind = has_input ? Stdin::pipe : Stdin::none;
    if (size.size() == 2)
        spec.terminal = sandbox::TerminalSize{size[0], size[1]};
    return spec;
}

std::string process_text(const sandbox::ProcessSpec& spec) {
    const sandbox::RunSpec& program = spec.program;
    json members = {{"id", spec.id},
                    {"tag", spec.tag},
                    {"directory", program.directory},
                    {"env", program.env},
                    {"timeoutMs", program.timeout.count()},
                    {"stdin", program.stdin_kind == Stdin::pipe}};
    if (program.command)
        members["command"] = *program.command;
    else
        members["argv"] = program.argv;
    if (spec.terminal)
        members["terminal"] = {spec.terminal->columns, spec.terminal->rows};
    return members.dump();
}

}  // namespace atl::store
