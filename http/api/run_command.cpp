#include "http/api/run_command.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/json_writer.hpp"
#include "core/plain/inner_paths.hpp"
#include "core/plain/json_text.hpp"
#include "core/plain/tool_table.hpp"
#include "core/plain/utf8.hpp"
#include "http/api/exec_answer.hpp"
#include "http/api/tool_failure.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;
using sandbox::OutputKind;

constexpr std::size_t k_shown_command_bytes = 100;

std::size_t index_of(OutputKind kind) {
    return static_cast<std::size_t>(kind);
}

/// `text` up to the last end of a line in its second half, or else of a character.
std::string_view whole_beginning(std::string_view text) {
    const std::size_t end = text.rfind('\n');
    if (end != std::string_view::npos && end >= text.size() / 2)
        return text.substr(0, end + 1);
    return text.substr(0, text.size() - open_character(text));
}

/// `text` from the first beginning of a line in its first half, or else of a character.
std::string_view whole_end(std::string_view text) {
    const std::size_t end = text.find('\n');
    if (end < text.size() / 2)
        return text.substr(end + 1);
    for (int i = 0; i < 3 && !text.empty() && (static_cast<unsigned char>(text[0]) & 0xC0U) == 0x80U; ++i)
        text.remove_prefix(1);
    return text;
}

std::string repaired(std::string_view bytes) {
    std::string out;
    base::Utf8Repair repair;
    repair.feed(bytes, out);
    repair.finish(out);
    return out;
}

/// The name by which the arguments have a parameter of the tool.
std::string_view given_name(ObjectReader& reader, std::string_view name) {
    std::string_view given = name;
    bool is_given = reader.any(name) != nullptr;
    for (const base::ToolParameter& parameter : base::tool_table::k_run_command) {
        for (const std::string_view alias : parameter.aliases) {
            if (parameter.name != name || alias.empty() || reader.any(alias) == nullptr)
                continue;
            if (is_given)
                reader.fail(alias, "left out beside `" + std::string(given) + "`, which is the same");
            is_given = true;
            given = alias;
        }
    }
    return given;
}

bool is_in_workspace(const std::string& directory) {
    const std::string root = base::k_inner_workspace;
    const std::string path = (std::filesystem::path(root) / directory).lexically_normal();
    return path == root || path.starts_with(root + "/");
}

/// Nothing: this is no result of a tool. Points into the error.
std::optional<ToolFailure> failure_of(const Error& error) {
    constexpr std::string_view k_not_run = "The command could not be run.";
    switch (error.code()) {
        case Errc::invalid_cwd:
            return ToolFailure{base::tool_error::not_a_directory, "`cwd` is missing, or no directory.",
                               "The directory to run the command in is not there."};
        case Errc::invalid_field:
            return ToolFailure{base::tool_error::invalid_arguments, error.detail(), k_not_run};
        case Errc::too_many_processes:
            return ToolFailure{base::tool_error::tool_unavailable,
                               "The sandbox has all the processes that it may have (limits.maxProcesses): "
                               "end some, or wait until some have ended.",
                               k_not_run};
        default:
            return std::nullopt;
    }
}

ExecForm exec_form_of(const CommandForm& form) {
    ExecForm exec;
    exec.spec.command = form.command;
    exec.spec.directory = form.directory;
    exec.spec.timeout = form.timeout;
    return exec;
}

std::string end_words(const ExecEnd& end, const CommandForm& form) {
    if (end.exit.timed_out)
        return "ended after " + std::to_string(form.timeout.count()) + " ms";
    if (end.exit.signal != 0)
        return "ended by " + signal_word(end.exit.signal);
    return "exit code " + std::to_string(end.exit.code);
}

}  // namespace

std::string_view HeadAndTail::tail() const noexcept {
    return std::string_view(tail_).substr(tail_.size() - std::min(tail_.size(), k_tail_bytes));
}

void HeadAndTail::take(std::string_view bytes) {
    total_bytes_ += bytes.size();
    const std::string_view first = bytes.substr(0, k_head_bytes - head_.size());
    head_.append(first);
    bytes.remove_prefix(first.size());
    bytes.remove_prefix(bytes.size() - std::min(bytes.size(), k_tail_bytes));
    tail_.append(bytes);
    // It is shortened seldom, so that no byte is moved often.
    if (tail_.size() > 2 * k_tail_bytes)
        tail_.erase(0, tail_.size() - k_tail_bytes);
}

std::string HeadAndTail::text() const {
    if (!is_cut())
        return repaired(head_ + std::string(tail()));
    const std::string_view beginning = whole_beginning(head_);
    const std::string_view end = whole_end(tail());
    std::string text = repaired(beginning);
    if (!text.ends_with('\n'))
        text += '\n';
    text += "[... " + std::to_string(total_bytes_ - beginning.size() - end.size()) + " bytes left out ...]\n";
    return text += repaired(end);
}

std::string_view HeadAndTail::last_line() const noexcept {
    std::string_view text = tail_.empty() ? head_ : tail_;
    const std::size_t end = text.find_last_not_of("\r\n");
    if (end == std::string_view::npos)
        return {};
    text = text.substr(0, end + 1);
    return text.substr(text.find_last_of("\r\n") + 1);
}

std::string command_off_json(std::string_view context) {
    return failure_json({base::tool_error::tool_disabled,
                         "run_command is switched off in this sandbox: its `tools.runCommand` is false.",
                         "Commands are switched off here."},
                        context);
}

std::optional<std::string> read_command(const Json& args, const sandbox::ToolSettings& settings,
                                        CommandForm& form) {
    if (!settings.run_command)
        return command_off_json(form.context);
    const auto refuse = [&form](std::string_view code, std::string_view error) {
        return failure_json({code, error, "run_command was called with arguments that it does not take."},
                            form.context);
    };
    ObjectReader reader(args);
    const auto command = read_plain(reader, "command", base::k_max_body_bytes);
    if (!command)
        reader.fail("command", "the command, a string that is not empty");
    form.command = command.value_or("");
    form.directory = read_plain(reader, given_name(reader, "cwd"), base::k_max_path_bytes).value_or("");
    if (const auto timeout = reader.integer(given_name(reader, "timeoutMs"), k_exec_timeout_range))
        form.timeout = std::chrono::milliseconds(*timeout);
    form.description = reader.string("description", base::k_max_body_bytes).value_or("");
    if (const auto checked = reader.finish(); checked.has_error())
        return refuse(base::tool_error::invalid_arguments, checked.error().detail());
    if (!is_in_workspace(form.directory))
        return refuse(base::tool_error::outside_workspace,
                      "`cwd` leads outside the workspace: it is relative to it, or absolute under "
                      "/workspace. The command itself may `cd` elsewhere.");
    return std::nullopt;
}

RunCommand::RunCommand(CommandForm form, base::Share share, sandbox::Operations& operations,
                       sandbox::CallObserver& observer, const base::Clock& clock, base::Timers& timers)
    : form_(std::move(form)),
      share_(std::move(share)),
      observer_(observer),
      timers_(timers),
      run_(nullptr, operations, exec_form_of(form_), *this, clock, timers) {
    tell_progress_later();
    run_.on_change([this] { look_at_end(); });
    look_at_end();
}

RunCommand::~RunCommand() {
    *self_ = nullptr;
    timers_.cancel(timer_);
}

void RunCommand::take(OutputKind kind, std::string_view bytes) {
    latest_ = kind;
    outputs_[index_of(kind)].take(bytes);
}

void RunCommand::tell_progress_later() {
    timer_ = timers_.arm(base::k_tool_progress_interval, [this] {
        tell_progress_later();
        std::string progress = "{\"message\":";
        base::append_json_string(
            progress, base::excerpt(outputs_[index_of(latest_)].last_line(), k_shown_command_bytes));
        progress += '}';
        observer_.on_progress(progress);  // this may be gone
    });
}

// The run may not be destroyed while it says that it has ended.
void RunCommand::look_at_end() {
    if (!run_.end() || std::exchange(is_ending_, true))
        return;
    timers_.cancel(std::exchange(timer_, 0));
    timers_.defer([self = self_] {
        if (*self != nullptr)
            (*self)->tell_end();
    });
}

void RunCommand::tell_end() {
    const auto self = self_;
    sandbox::CallObserver& observer = observer_;
    const base::Result<ExecEnd> end = *run_.end();
    const Error error = end.error();
    const auto failure = end.has_error() ? failure_of(error) : std::nullopt;
    if (end.has_error() && !failure)
        return observer.on_failed(error);
    const std::string result = failure ? failure_json(*failure, form_.context) : result_json(*end);
    observer.on_reply(failure ? R"({"success":false})" : R"({"success":true})");
    if (*self != nullptr)
        observer.on_bytes(result);
    if (*self != nullptr)
        observer.on_end();
}

std::string RunCommand::result_json(const ExecEnd& end) const {
    const HeadAndTail& output = outputs_[index_of(OutputKind::standard)];
    const HeadAndTail& errors = outputs_[index_of(OutputKind::error)];
    std::string out = "{\"success\":true,\"data\":{";
    write_exit_members(out, end.exit);
    base::append_json_string(out += ",\"stdout\":", output.text());
    base::append_json_string(out += ",\"stderr\":", errors.text());
    out.append(",\"truncated\":{\"stdout\":").append(output.is_cut() ? "true" : "false");
    out.append(",\"stderr\":").append(errors.is_cut() ? "true" : "false");
    out.append("},\"durationMs\":").append(std::to_string(end.duration.count()));
    std::string name = form_.description;
    if (name.empty())
        name = base::excerpt(form_.command.substr(0, form_.command.find('\n')), k_shown_command_bytes);
    base::append_json_string(out += "},\"userFeedback\":", name + ": " + end_words(end, form_) + ".");
    out += ",\"previewRefreshNeeded\":false";
    std::string warnings;
    base::JsonWriter list(warnings);
    list.begin_array();
    if (end.exit.timed_out)
        list.string(
            "The command took longer than `timeoutMs` and was ended. Give it more time, or start it in "
            "the background with `&` and its output in a file.");
    if (output.is_cut() || errors.is_cut())
        list.string(
            "The middle of the output is left out. To see all of it, redirect it to a file and read "
            "that in parts.");
    list.end_array();
    if (warnings != "[]")
        out.append(",\"warnings\":").append(warnings);
    if (!form_.context.empty())
        out.append(",\"context\":").append(form_.context);
    return out += '}';
}

}  // namespace atl::http
