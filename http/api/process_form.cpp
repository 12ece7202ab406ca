#include "http/api/process_form.hpp"

#include <signal.h>

#include <utility>

#include "core/base/clock.hpp"
#include "http/api/exec_form.hpp"
#include "http/api/exec_run.hpp"

namespace atl::http {
namespace {

constexpr int k_last_signal = 64;

std::optional<int> read_signal(ObjectReader& reader) {
    const auto name = reader.string("signal", k_max_process_word_bytes);
    for (int number = 1; name && number <= k_last_signal; ++number)
        if (signal_word(number) == *name || signal_word(number) == "SIG" + std::string(*name))
            return number;
    reader.fail("signal", "the name of a signal, as \"SIGTERM\" or \"TERM\"");
    return std::nullopt;
}

std::optional<sandbox::TerminalSize> read_size(ObjectReader& reader) {
    const auto columns = reader.integer("cols", k_terminal_range);
    const auto rows = reader.integer("rows", k_terminal_range);
    if (!reader.failed() && (!columns || !rows))
        reader.fail(columns ? "rows" : "cols", "an integer");
    if (!columns || !rows)
        return std::nullopt;
    return sandbox::TerminalSize{static_cast<std::uint16_t>(*columns), static_cast<std::uint16_t>(*rows)};
}

void read_terminal(ObjectReader& reader, sandbox::ProcessSpec& spec) {
    const Json* value = reader.any("pty");
    if (value == nullptr)
        return;
    if (!value->is_object())
        return reader.fail("pty", "an object such as {\"cols\": 80, \"rows\": 24}");
    ObjectReader size(*value, "pty.");
    spec.terminal = read_size(size);
    if (auto result = size.finish(); result.has_error())
        reader.fail(result.error());
}

void read_stdin(ObjectReader& reader, sandbox::ProcessSpec& spec) {
    const auto word = reader.string("stdin", k_max_process_word_bytes);
    if (word && *word != "pipe" && *word != "null")
        reader.fail("stdin", "\"pipe\" or \"null\"");
    const bool is_null = word == "null";
    if (is_null && spec.terminal)
        reader.fail("stdin", "absent where `pty` is given");
    spec.program.stdin_kind = is_null ? sandbox::RunSpec::Stdin::none : sandbox::RunSpec::Stdin::pipe;
}

Restart read_restart(ObjectReader& reader) {
    const auto word = reader.string("restart", k_max_process_word_bytes);
    if (word && *word != "never" && *word != "generation")
        reader.fail("restart", "\"never\" or \"generation\"");
    return word == "generation" ? Restart::generation : Restart::never;
}

/// A guest keeps and lists what it was started with.
void check_length(ObjectReader& reader, const sandbox::RunSpec& program) {
    std::size_t bytes = program.command.value_or("").size();
    for (const std::string& argument : program.argv)
        bytes += argument.size();
    if (bytes > base::k_max_process_spec_bytes)
        reader.fail(program.command ? "command" : "argv",
                    "at most " + std::to_string(base::k_max_process_spec_bytes) + " bytes");
}

/// The program and settings of a process that answers show.
struct Program {
    const std::string& tag;
    const std::optional<std::string>& command;
    const std::vector<std::string>& argv;
    const std::string& directory;
    const std::optional<sandbox::TerminalSize>& terminal;
};

void write_program(base::JsonWriter& json, const Program& program, Restart restart) {
    json.key("tag");
    program.tag.empty() ? json.null() : json.string(program.tag);
    if (program.command) {
        json.key("command").string(*program.command);
    } else {
        json.key("argv").begin_array();
        for (const std::string& argument : program.argv)
            json.string(argument);
        json.end_array();
    }
    json.key("cwd").string(program.directory.empty() ? "/workspace" : program.directory);
    json.key("pty");
    if (program.terminal) {
        json.begin_object();
        json.key("cols").number(std::uint64_t{program.terminal->columns});
        json.key("rows").number(std::uint64_t{program.terminal->rows});
        json.end_object();
    } else {
        json.null();
    }
    json.key("restart").string(restart == Restart::generation ? "generation" : "never");
}

template <class T>
base::Result<T> finished(ObjectReader& reader, std::optional<T> value) {
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return std::move(*value);
}

}  // namespace

base::Result<ProcessForm> read_process_form(const Json& body) {
    ObjectReader reader(body);
    ProcessForm form;
    sandbox::ProcessSpec& spec = form.spec;
    read_program(reader, spec.program);
    check_length(reader, spec.program);
    spec.tag = reader.string("tag", base::k_max_process_tag_bytes).value_or("");
    read_terminal(reader, spec);
    read_stdin(reader, spec);
    if (const auto timeout = reader.integer("timeoutMs", k_process_timeout_range))
        spec.program.timeout = std::chrono::milliseconds(*timeout);
    form.restart = read_restart(reader);
    return finished(reader, std::optional(std::move(form)));
}

base::Result<int> read_signal_form(const Json& body) {
    ObjectReader reader(body);
    return finished(reader, read_signal(reader));
}

bool ends_for_good(int signal) {
    return signal == SIGTERM || signal == SIGKILL;
}

base::Result<sandbox::TerminalSize> read_resize_form(const Json& body) {
    ObjectReader reader(body);
    return finished(reader, read_size(reader));
}

base::Result<ProcessFrame> read_process_frame(const Json& body) {
    ObjectReader reader(body);
    ProcessFrame frame;
    const auto type = reader.string("type", k_max_process_word_bytes);
    if (type == "signal") {
        frame.kind = ProcessFrame::Kind::signal;
        frame.signal = read_signal(reader).value_or(0);
    } else if (type == "resize") {
        frame.kind = ProcessFrame::Kind::resize;
        frame.size = read_size(reader).value_or(sandbox::TerminalSize{});
    } else if (type != "eof") {
        reader.know({"signal", "cols", "rows"});
        reader.fail("type", "\"resize\", \"signal\" or \"eof\"");
    }
    return finished(reader, std::optional(frame));
}

void write_exit(base::JsonWriter& json, const sandbox::RunExit& exit) {
    json.key("exitCode");
    exit.signal != 0 ? json.null() : json.number(static_cast<std::uint64_t>(exit.code));
    json.key("signal");
    exit.signal == 0 ? json.null() : json.string(signal_word(exit.signal));
    json.key("timedOut").raw(exit.timed_out ? "true" : "false");
}

void write_process(base::JsonWriter& json, const sandbox::ProcessInfo& process, Restart restart) {
    json.begin_object();
    json.key("processId").string(process.id);
    json.key("pid").number(static_cast<std::uint64_t>(process.pid));
    write_program(json, {process.tag, process.command, process.argv, process.directory, process.terminal},
                  restart);
    json.key("status").string(process.exit ? "ended" : "running");
    json.key("startedAt").string(base::rfc3339(base::WallTime(process.started)));
    json.key("firstByte").number(process.first_byte);
    json.key("endByte").number(process.end_byte);
    if (process.exit)
        write_exit(json, *process.exit);
    json.end_object();
}

void write_stopped(base::JsonWriter& json, const sandbox::ProcessSpec& spec) {
    const sandbox::RunSpec& program = spec.program;
    json.begin_object();
    json.key("processId").string(spec.id);
    json.key("pid").null();
    write_program(json, {spec.tag, program.command, program.argv, program.directory, spec.terminal},
                  Restart::generation);
    json.key("status").string("stopped");
    json.key("startedAt").null();
    json.key("firstByte").number(std::uint64_t{0});
    json.key("endByte").number(std::uint64_t{0});
    json.end_object();
}

std::string started_frame(pid_t pid, std::uint64_t from, sandbox::StreamKind kind) {
    std::string text;
    base::JsonWriter json(text);
    json.begin_object().key("type").string("started");
    json.key("pid").number(static_cast<std::uint64_t>(pid));
    json.key("after").number(from);
    json.key("pty").raw(kind == sandbox::StreamKind::terminal ? "true" : "false");
    json.end_object();
    return text;
}

std::string dropped_frame(std::uint64_t bytes) {
    std::string text;
    base::JsonWriter json(text);
    json.begin_object().key("type").string("dropped").key("bytes").number(bytes).end_object();
    return text;
}

std::string exit_frame(const sandbox::RunExit& exit, std::uint64_t end) {
    std::string text;
    base::JsonWriter json(text);
    json.begin_object().key("type").string("exit");
    write_exit(json, exit);
    json.key("after").number(end).end_object();
    return text;
}

}  // namespace atl::http
