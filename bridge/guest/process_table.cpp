#include "bridge/guest/process_table.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace atl::guest {
namespace {

using namespace bridge::refusal;

void append_member(std::string& out, std::string_view name, std::string_view json) {
    if (!out.empty())
        out += ',';
    out.append("\"").append(name).append("\":").append(json);
}

std::string as_json(std::string_view text) {
    std::string out;
    base::append_json_string(out, text);
    return out;
}

/// Keeps the members that describe the program as they came, for lists.
struct StartVisitor : ProgramVisitor {
    std::string id;
    std::string described;
    std::optional<TerminalSize> terminal;

    bool on_string(const std::string& key, std::string& value) {
        if (key == "id")
            id = std::move(value);
        else if (key == "tag" || key == "command" || key == "cwd")
            append_member(described, key, as_json(value));
        return key == "id" || ProgramVisitor::on_string(key, value);
    }
    bool on_array(const std::string& key, std::string_view span) {
        if (key == "argv")
            append_member(described, key, span);
        return ProgramVisitor::on_array(key, span);
    }
    bool on_object(const std::string& key, std::string_view span) {
        if (key == "env")
            append_member(described, key, span);
        if (key != "terminal")
            return ProgramVisitor::on_object(key, span);
        const nlohmann::json size = nlohmann::json::parse(span, nullptr, false);
        const auto side = [&size](const char* name) {
            const auto found = size.find(name);
            const bool fits = found != size.end() && found->is_number_unsigned() &&
                              found->get<std::uint64_t>() >= 1 && found->get<std::uint64_t>() <= 0xFFFF;
            return fits ? found->get<std::uint16_t>() : std::uint16_t{0};
        };
        terminal = TerminalSize{side("columns"), side("rows")};
        return (terminal->columns != 0 && terminal->rows != 0) ||
               refuse("`terminal` without `columns` and `rows`");
    }
};

struct AskVisitor : bridge::ObjectVisitor {
    std::string id;
    std::uint64_t after = 0;
    std::uint64_t signal = 0;
    std::uint64_t columns = 0;
    std::uint64_t rows = 0;
    bool input_end = false;
    bool feeds = false;

    bool on_string(const std::string& key, std::string& value) {
        if (key == "id")
            id = std::move(value);
        return true;
    }
    bool on_bool(const std::string& key, bool value) {
        if (key == "inputEnd")
            input_end = value;
        else if (key == "input")
            feeds = value;
        return true;
    }
    bool on_unsigned(const std::string& key, std::uint64_t value) {
        if (key == "after")
            after = value;
        else if (key == "signal")
            signal = value;
        else if (key == "columns")
            columns = value;
        else if (key == "rows")
            rows = value;
        return true;
    }
};

/// False, with the refusal written.
template <class Visitor>
bool scan(Connection& connection, const Command& command, Visitor& visitor) {
    const bool is_complete =
        bridge::scan_object(command.line, k_max_program_depth, visitor) == bridge::Scan::complete;
    if (!is_complete)
        refuse(connection, "nested too deep", invalid);
    return is_complete;
}

}  // namespace

ProcessTable::~ProcessTable() {
    for (const Entry& entry : entries_)
        services_.loop.cancel(entry.expiry);
}

void ProcessTable::start(Connection& connection, BackgroundProcess::Spec spec) {
    if (const char* why = check(spec))
        return refuse(connection, why, invalid);
    if (running() >= base::k_max_running_processes ||
        described_bytes(Kept::running) + spec.described.size() > base::k_max_described_bytes)
        return refuse(connection, "too many processes, or long commands, run in this sandbox already", busy);
    make_room(spec.described.size());
    auto process = std::make_unique<BackgroundProcess>(services_, std::move(spec));
    BackgroundProcess* const started = process.get();
    const ProgramRefusal refusal = started->start([this, started] { on_end(started); });
    if (!refusal.error.empty())
        return refuse(connection, refusal.error, refusal.code);
    entries_.push_back({std::move(process), 0, 0});
    connection.write(bridge::encode_started(started->pid()));
    connection.break_off();
}

/// Null: the host may ask for it.
const char* ProcessTable::check(const BackgroundProcess::Spec& spec) const {
    if (spec.id.empty() || spec.id.size() > base::k_max_process_id_bytes)
        return "a process without an id, or with a long one";
    for (const Entry& entry : entries_)
        if (entry.process->id() == spec.id)
            return "a process of that id is there already";
    return nullptr;
}

std::size_t ProcessTable::described_bytes(Kept which) const {
    std::size_t bytes = 0;
    for (const Entry& entry : entries_)
        bytes += which == Kept::all || entry.ended_as == 0 ? entry.process->described_bytes() : 0;
    return bytes;
}

std::size_t ProcessTable::running() const {
    return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(),
                                                  [](const Entry& entry) { return entry.ended_as == 0; }));
}

void ProcessTable::list(Connection& connection, std::string_view only) const {
    for (const Entry& entry : entries_)
        if (only.empty() || entry.process->id() == only)
            connection.write(entry.process->line());
    reply_ok(connection);
}

BackgroundProcess* ProcessTable::find(Connection& connection, std::string_view id) const {
    for (const Entry& entry : entries_)
        if (entry.process->id() == id)
            return entry.process.get();
    refuse(connection, "no process of that id", unknown);
    return nullptr;
}

void ProcessTable::attach(Connection& connection, std::string_view id, std::uint64_t after,
                          Attachment::Use use) {
    BackgroundProcess* const process = find(connection, id);
    if (process == nullptr)
        return;
    if (use == Attachment::Use::feed && !process->is_running())
        return refuse(connection, "the process has ended", bridge::refusal::ended);
    if (use == Attachment::Use::feed && !process->takes_input())
        return refuse(connection, "the process has no stdin, or that is at its end", invalid);
    std::size_t followers = 0;
    for (const Entry& entry : entries_)
        followers += entry.process->followers();
    if (followers >= base::k_max_sandbox_followers || !process->attach(connection, after, use))
        refuse(connection, "too many follow that process, or those of this sandbox, already", busy);
}

void ProcessTable::on_end(const BackgroundProcess* process) {
    for (Entry& entry : entries_) {
        if (entry.process.get() != process)
            continue;
        entry.ended_as = ++ends_;
        entry.expiry = services_.loop.arm(base::k_ended_process_time, [this, process] { expire(process); });
    }
}

// Who still reads its output may go on.
void ProcessTable::expire(const BackgroundProcess* process) {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [process](const Entry& entry) { return entry.process.get() == process; });
    if (found->process->followers() > 0)
        found->expiry = services_.loop.arm(base::k_ended_process_time, [this, process] { expire(process); });
    else
        entries_.erase(found);
}

// Forgets the process that ended first, and later those that a client still reads. Called before a start,
// never from inside a call of a process. Precondition: without those that have ended there is room.
void ProcessTable::make_room(std::size_t more_bytes) {
    const auto rank = [](const Entry& entry) {
        return std::make_tuple(entry.ended_as == 0, entry.process->followers() > 0, entry.ended_as);
    };
    while (entries_.size() - running() >= base::k_max_ended_processes ||
           described_bytes(Kept::all) + more_bytes > base::k_max_described_bytes) {
        const auto first = std::min_element(
            entries_.begin(), entries_.end(),
            [rank](const Entry& one, const Entry& other) { return rank(one) < rank(other); });
        services_.loop.cancel(first->expiry);
        entries_.erase(first);
    }
}

void ProcessCommand::begin(Connection& connection, Command& command) {
    StartVisitor visitor;
    if (bridge::scan_object(command.line, k_max_program_depth, visitor) != bridge::Scan::complete)
        return refuse(connection, visitor.refusal.empty() ? "nested too deep" : visitor.refusal, invalid);
    if (const auto wrong = check_program(visitor.request, services_.workspace); !wrong.error.empty())
        return refuse(connection, wrong.error, wrong.code);
    table_.start(connection, {std::move(visitor.id), std::move(visitor.described), std::move(visitor.request),
                              visitor.terminal});
}

void ProcessesCommand::begin(Connection& connection, Command& command) {
    AskVisitor visitor;
    if (scan(connection, command, visitor))
        table_.list(connection, visitor.id);
}

void AttachCommand::begin(Connection& connection, Command& command) {
    AskVisitor visitor;
    if (scan(connection, command, visitor))
        table_.attach(connection, visitor.id, visitor.after,
                      visitor.feeds ? Attachment::Use::feed : Attachment::Use::follow);
}

void ControlCommand::begin(Connection& connection, Command& command) {
    AskVisitor visitor;
    if (!scan(connection, command, visitor))
        return;
    BackgroundProcess* const process = table_.find(connection, visitor.id);
    if (process == nullptr)
        return;
    if (!process->is_running())
        return refuse(connection, "the process has ended", bridge::refusal::ended);
    if (visitor.signal > 64 || visitor.columns > 0xFFFF || visitor.rows > 0xFFFF)
        return refuse(connection, "a number beyond its bound", invalid);
    if (visitor.columns != 0 && !process->is_terminal())
        return refuse(connection, "the process has no terminal", invalid);
    if (visitor.columns != 0)
        process->resize(
            {static_cast<std::uint16_t>(visitor.columns), static_cast<std::uint16_t>(visitor.rows)});
    if (visitor.signal != 0)
        process->signal(static_cast<int>(visitor.signal));
    if (visitor.input_end)
        process->end_input();
    reply_ok(connection);
}

}  // namespace atl::guest
