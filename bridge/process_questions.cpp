#include "bridge/process_questions.hpp"

#include <utility>

#include "bridge/json_scan.hpp"
#include "bridge/protocol.hpp"
#include "bridge/run_stream.hpp"
#include "core/plain/operation_limits.hpp"

namespace atl::bridge {
namespace {

// The members of a process, and what is in its argv and env.
constexpr std::size_t k_max_process_depth = 2;
// The end of the year 9999.
constexpr std::uint64_t k_latest_ms = 253'402'300'799'999;

std::string command_about(std::string_view name, const std::string& id) {
    std::string line = "{\"cmd\":\"" + std::string(name) + "\",\"id\":";
    base::append_json_string(line, id);
    return line;
}

void append_size(std::string& line, const sandbox::TerminalSize& size) {
    line += "\"columns\":" + std::to_string(size.columns) + ",\"rows\":" + std::to_string(size.rows);
}

struct ProcessVisitor : ObjectVisitor {
    sandbox::ProcessInfo info;
    std::uint64_t pid = 0;
    std::uint64_t started_ms = 0;
    std::uint64_t columns = 0;
    std::uint64_t rows = 0;
    std::uint64_t code = 0;
    std::uint64_t signal = 0;
    bool timed_out = false;
    bool has_ended = false;

    bool on_string(const std::string& key, std::string& value) {
        if (key == "id")
            info.id = std::move(value);
        else if (key == "tag")
            info.tag = std::move(value);
        else if (key == "command")
            info.command = std::move(value);
        else if (key == "cwd")
            info.directory = std::move(value);
        return true;
    }
    bool on_bool(const std::string& key, bool value) {
        timed_out = key == "timedOut" ? value : timed_out;
        return true;
    }
    bool on_unsigned(const std::string& key, std::uint64_t value) {
        const std::pair<std::string_view, std::uint64_t*> known[] = {
            {"pid", &pid},           {"startedAtMs", &started_ms}, {"first", &info.first_byte},
            {"end", &info.end_byte}, {"columns", &columns},        {"rows", &rows},
            {"exitCode", &code},     {"signal", &signal}};
        for (const auto& [name, member] : known)
            if (name == key)
                *member = value;
        has_ended = has_ended || key == "exitCode";
        return true;
    }
    bool on_array(const std::string& key, std::string_view span) {
        if (key != "argv")
            return true;
        for (nlohmann::json& item : nlohmann::json::parse(span, nullptr, false)) {
            if (!item.is_string())
                return false;
            info.argv.push_back(std::move(item.get_ref<std::string&>()));
        }
        return true;
    }
    bool on_object(const std::string& key, std::string_view span) {
        if (key != "env")
            return true;
        const nlohmann::json members = nlohmann::json::parse(span, nullptr, false);
        for (const auto& [name, value] : members.items()) {
            if (!value.is_string())
                return false;
            info.env.emplace_back(name, value.get<std::string>());
        }
        return true;
    }
    bool is_valid() const {
        return !info.id.empty() && info.id.size() <= base::k_max_process_id_bytes &&
               info.tag.size() <= base::k_max_process_tag_bytes && pid != 0 && pid <= k_most_pids &&
               started_ms <= k_latest_ms && info.first_byte <= info.end_byte && columns <= 0xFFFF &&
               rows <= 0xFFFF && (columns == 0) == (rows == 0) && code <= 0xFF && signal <= 0xFF;
    }
};

}  // namespace

std::string encode_process(const sandbox::ProcessSpec& spec) {
    std::string line = command_about(cmd::process, spec.id);
    if (!spec.tag.empty()) {
        line += ",\"tag\":";
        base::append_json_string(line, spec.tag);
    }
    append_program(line, spec.program);
    if (spec.terminal) {
        line += ",\"terminal\":{";
        append_size(line, *spec.terminal);
        line += '}';
    }
    return line + "}\n";
}

std::string encode_control(const std::string& id, const sandbox::ProcessControl& control) {
    std::string line = command_about(cmd::control, id);
    if (control.size) {
        line += ',';
        append_size(line, *control.size);
    }
    if (control.signal != 0)
        line += ",\"signal\":" + std::to_string(control.signal);
    if (control.input == sandbox::ProcessControl::Input::end)
        line += ",\"inputEnd\":true";
    return line + "}\n";
}

std::optional<sandbox::ProcessInfo> parse_process_line(std::string_view line) {
    ProcessVisitor visitor;
    if (scan_object(line, k_max_process_depth, visitor) != Scan::complete || !visitor.is_valid())
        return std::nullopt;
    sandbox::ProcessInfo& info = visitor.info;
    info.pid = static_cast<pid_t>(visitor.pid);
    info.started = std::chrono::milliseconds(visitor.started_ms);
    if (visitor.columns != 0)
        info.terminal = {static_cast<std::uint16_t>(visitor.columns),
                         static_cast<std::uint16_t>(visitor.rows)};
    if (visitor.has_ended)
        info.exit = {static_cast<int>(visitor.code), static_cast<int>(visitor.signal), visitor.timed_out};
    return std::move(info);
}

ProcessQuestion::ProcessQuestion(std::shared_ptr<StreamContext> context, const std::string& path,
                                 std::string command)
    : LineReader(base::k_max_event_line_bytes), context_(std::move(context)) {
    deadline_ = context_->timers.arm(base::k_control_reply_deadline, [this] {
        finish(base::Error(base::Errc::deadline_exceeded, "the guest did not answer in time"));
    });
    stream_ = Stream::open(context_, path, std::move(command), *this);
}

ProcessQuestion::~ProcessQuestion() {
    context_->timers.cancel(deadline_);
    stream_->close();
}

void ProcessQuestion::on_line(std::string_view line) {
    const std::optional<ReplyLine> reply = parse_reply_line(line);
    if (!reply && on_item(line))
        return;
    if (!reply)
        return finish(base::Error(base::Errc::bridge_failed, "the guest's answer is not a reply"));
    if (!reply->ok)
        return finish(base::Error(errc_of(reply->code), reply->error));
    finish(*reply);
}

void ProcessQuestion::on_end(Stream::End, std::string_view detail) {
    finish(base::Error(base::Errc::bridge_failed, std::string(detail)));
}

void ProcessQuestion::finish(const base::Result<ReplyLine>& reply) {
    context_->timers.cancel(std::exchange(deadline_, 0));
    stream_->close();
    on_answer(reply);
}

StartQuestion::StartQuestion(std::shared_ptr<StreamContext> context, const std::string& path,
                             const sandbox::ProcessSpec& spec, sandbox::Answer<pid_t> answer)
    : ProcessQuestion(std::move(context), path, encode_process(spec)), answer_(std::move(answer)) {}

void StartQuestion::on_answer(const base::Result<ReplyLine>& reply) {
    const auto answer = std::exchange(answer_, nullptr);
    if (reply.has_error())
        return answer(reply.error());
    if (reply->pid == 0 || reply->pid > k_most_pids)
        return answer(base::Error(base::Errc::bridge_failed, "the guest's answer is not a reply"));
    answer(static_cast<pid_t>(reply->pid));
}

ControlQuestion::ControlQuestion(std::shared_ptr<StreamContext> context, const std::string& path,
                                 const std::string& id, const sandbox::ProcessControl& control,
                                 sandbox::Answer<void> answer)
    : ProcessQuestion(std::move(context), path, encode_control(id, control)), answer_(std::move(answer)) {}

void ControlQuestion::on_answer(const base::Result<ReplyLine>& reply) {
    const auto answer = std::exchange(answer_, nullptr);
    answer(reply.has_error() ? base::Result<void>(reply.error()) : base::Result<void>());
}

ListQuestion::ListQuestion(std::shared_ptr<StreamContext> context, const std::string& path,
                           const std::string& id, sandbox::Answer<std::vector<sandbox::ProcessInfo>> answer)
    : ProcessQuestion(
          std::move(context), path,
          id.empty() ? encode_command(cmd::processes) : command_about(cmd::processes, id) + "}\n"),
      answer_(std::move(answer)) {}

bool ListQuestion::on_item(std::string_view line) {
    std::optional<sandbox::ProcessInfo> info = parse_process_line(line);
    bytes_ += line.size();
    if (!info || found_.size() == k_most_listed_processes || bytes_ > k_most_listed_bytes)
        return false;
    found_.push_back(std::move(*info));
    return true;
}

void ListQuestion::on_answer(const base::Result<ReplyLine>& reply) {
    const auto answer = std::exchange(answer_, nullptr);
    if (reply.has_error())
        return answer(reply.error());
    answer(std::move(found_));
}

}  // namespace atl::bridge
