#include "core/sandbox/sandbox_logs.hpp"

#include <algorithm>
#include <utility>

namespace atl::sandbox {
namespace {

// The cost of an entry beyond its text; it also bounds the number of empty lines in a log.
constexpr std::size_t k_entry_bytes = 64;
// The cost of a log beyond its entries.
constexpr std::size_t k_log_overhead_bytes = 1024;

}  // namespace

std::string_view to_string(LogStream stream) noexcept {
    return stream == LogStream::system ? "system" : "output";
}

std::optional<LogStream> parse_log_stream(std::string_view text) noexcept {
    for (const auto stream : {LogStream::output, LogStream::system}) {
        if (text == to_string(stream))
            return stream;
    }
    return std::nullopt;
}

std::size_t SandboxLogs::weight(const LogEntry& entry) noexcept {
    return entry.text.size() + k_entry_bytes;
}

SandboxLogs::Log& SandboxLogs::open(const std::string& id) {
    Log& log = logs_[id];
    if (log.retired)
        take_back(log);
    return log;
}

void SandboxLogs::take_back(Log& log) {
    const auto of_holder = retired_.find(log.holder);
    of_holder->second.bytes -= log.bytes + k_log_overhead_bytes;
    retired_bytes_ -= log.bytes + k_log_overhead_bytes;
    of_holder->second.ids.erase(*log.retired);
    log.retired.reset();
    if (of_holder->second.ids.empty())
        retired_.erase(of_holder);
}

void SandboxLogs::add(Log& log, LogStream stream, std::uint32_t generation, std::string text) {
    log.entries.push_back({++log.last_seq, clock_.wall_now(), stream, generation, std::move(text)});
    log.bytes += weight(log.entries.back());
    // The newest entry stays, however long it is.
    while (log.bytes > bounds_.log_bytes && log.entries.size() > 1) {
        log.bytes -= weight(log.entries.front());
        log.entries.pop_front();
    }
}

void SandboxLogs::write(const std::string& id, std::uint32_t generation, std::string_view text) {
    Log& log = open(id);
    // Lines that later lines of the same piece would push out are only counted. So a sandbox that writes only
    // newlines takes no more time of the loop than others.
    const std::size_t most = bounds_.log_bytes / k_entry_bytes + 1;
    const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    for (std::size_t skipped = most; skipped < lines; ++skipped) {
        text.remove_prefix(text.find('\n') + 1);
        log.unfinished.clear();
        ++log.last_seq;
    }
    while (!text.empty()) {
        const std::size_t room = bounds_.line_bytes - log.unfinished.size();
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::size_t taken = std::min(end, room);
        log.unfinished.append(text.substr(0, taken));
        const bool is_line = taken == end && end < text.size();
        text.remove_prefix(taken + (is_line ? 1 : 0));
        if (is_line || log.unfinished.size() >= bounds_.line_bytes)
            add(log, LogStream::output, generation, std::exchange(log.unfinished, {}));
    }
}

void SandboxLogs::note(const std::string& id, std::uint32_t generation, std::string text) {
    Log& log = open(id);
    if (!log.unfinished.empty())
        add(log, LogStream::output, generation, std::exchange(log.unfinished, {}));
    add(log, LogStream::system, generation, std::move(text));
}

void SandboxLogs::retire(const std::string& id, std::uint32_t generation, const base::ShareHolder& user) {
    Log& log = open(id);
    if (!log.unfinished.empty())
        add(log, LogStream::output, generation, std::exchange(log.unfinished, {}));
    log.holder = user.name();
    Retired& of_holder = retired_[log.holder];
    log.retired = of_holder.ids.insert(of_holder.ids.end(), id);
    of_holder.bytes += log.bytes + k_log_overhead_bytes;
    retired_bytes_ += log.bytes + k_log_overhead_bytes;
    if (log.is_unwanted)
        return drop(id);
    while (retired_bytes_ > bounds_.retired_bytes) {
        const auto most =
            std::max_element(retired_.begin(), retired_.end(),
                             [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
        drop(std::string(most->second.ids.front()));
    }
}

void SandboxLogs::drop(const std::string& id) {
    const auto found = logs_.find(id);
    if (found == logs_.end() || !found->second.retired)
        return;
    take_back(found->second);
    if (!found->second.user_id.empty())
        left_.erase({found->second.user_id, id});
    logs_.erase(found);
}

void SandboxLogs::leave(const std::string& id, const std::string& user_id) {
    const auto found = logs_.find(id);
    if (found == logs_.end())
        return;
    found->second.user_id = user_id;
    left_.insert({user_id, id});
}

void SandboxLogs::drop_of(const std::string& user_id) {
    std::vector<std::string> ids;
    for (auto at = left_.lower_bound({user_id, ""}); at != left_.end() && at->first == user_id; ++at)
        ids.push_back(at->second);
    for (const std::string& id : ids) {
        logs_.at(id).is_unwanted = true;
        drop(id);
    }
}

std::optional<LogPage> SandboxLogs::read(const std::string& id, std::uint64_t after,
                                         std::optional<LogStream> only) const {
    const auto found = logs_.find(id);
    if (found == logs_.end() || found->second.is_unwanted)
        return std::nullopt;
    const Log& log = found->second;
    LogPage page;
    // A number of an earlier server, or of a dropped log: all entries of this log are new.
    if (after > log.last_seq)
        after = 0;
    page.first_seq = log.entries.empty() ? log.last_seq + 1 : log.entries.front().seq;
    page.next = log.last_seq;
    for (const LogEntry& entry : log.entries) {
        if (entry.seq > after && (!only || entry.stream == *only))
            page.entries.push_back(entry);
    }
    return page;
}

}  // namespace atl::sandbox
