// The logs of all sandboxes: lines that a sandbox wrote to stdout and stderr, and the server's own notes of
// its starts and ends. A log outlives its sandbox: the logs of sandboxes without processes share one bound.
// Beyond it the user with most of them loses the least recently used one. Pure: the caller passes the text, a
// clock the time.
//
// Invariants: entries of a sandbox are numbered from 1 and never renumbered; each log is bounded, its oldest
// entries go first; text is hostile and need not be UTF-8.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/limits.hpp"
#include "core/base/shares.hpp"

namespace atl::sandbox {

enum class LogStream : std::uint8_t {
    output,  // output of the sandbox: bubblewrap, the guest, the agent
    system,  // notes of the server about it
};
std::string_view to_string(LogStream stream) noexcept;
std::optional<LogStream> parse_log_stream(std::string_view text) noexcept;

struct LogEntry {
    std::uint64_t seq = 0;
    base::WallTime at{};
    LogStream stream = LogStream::output;
    std::uint32_t generation = 0;
    std::string text;  // a line without its newline, or a part of a line that is too long
};

struct LogPage {
    std::vector<LogEntry> entries;
    std::uint64_t first_seq = 1;  // of the first entry left; one above the last seq if the log is empty
    std::uint64_t next = 0;       // where to go on
};

struct SandboxLogBounds {
    std::size_t log_bytes = base::k_sandbox_log_bytes;              // of one log, entries' overhead included
    std::size_t retired_bytes = base::k_retired_sandbox_log_bytes;  // of all logs without processes
    std::size_t line_bytes = base::k_sandbox_log_line_bytes;
};

class SandboxLogs {
  public:
    /// `clock` outlives it.
    explicit SandboxLogs(const base::Clock& clock, SandboxLogBounds bounds = {})
        : clock_(clock), bounds_(bounds) {}

    /// Adds output of a generation. An unfinished line waits for its rest.
    void write(const std::string& id, std::uint32_t generation, std::string_view text);
    /// Adds one line of the server. Output that was written earlier gets an earlier number.
    void note(const std::string& id, std::uint32_t generation, std::string text);
    /// The generation, a sandbox of `user`, writes no more: an unfinished line becomes an entry, and the log
    /// may be dropped for others.
    void retire(const std::string& id, std::uint32_t generation, const base::ShareHolder& user);

    /// Forgets the log of a sandbox without processes; does nothing if there is none.
    void drop(const std::string& id);
    /// The sandbox was this user's and is removed: from now on nothing else knows whose log it is.
    void leave(const std::string& id, const std::string& user_id);
    /// Forgets the logs that were left of this user. None of them can be read from now on, also where
    /// processes still write.
    void drop_of(const std::string& user_id);

    /// Entries after `after`, of one stream or of both; none for a sandbox without a log.
    std::optional<LogPage> read(const std::string& id, std::uint64_t after,
                                std::optional<LogStream> only = std::nullopt) const;

    /// The bytes of all logs without processes.
    std::size_t retired_bytes() const noexcept { return retired_bytes_; }

  private:
    struct Log {
        std::deque<LogEntry> entries;
        std::size_t bytes = 0;
        std::uint64_t last_seq = 0;
        std::string unfinished;
        std::string user_id;  // by leave()
        bool is_unwanted = false;
        std::string holder;  // of a retired one
        std::optional<std::list<std::string>::iterator> retired;
    };
    struct Retired {
        std::size_t bytes = 0;
        std::list<std::string> ids;  // the longest unused first
    };

    Log& open(const std::string& id);
    void take_back(Log& log);
    void add(Log& log, LogStream stream, std::uint32_t generation, std::string text);
    static std::size_t weight(const LogEntry& entry) noexcept;

    const base::Clock& clock_;
    SandboxLogBounds bounds_;
    std::unordered_map<std::string, Log> logs_;
    std::set<std::pair<std::string, std::string>> left_;  // user and sandbox
    std::map<std::string, Retired> retired_;              // by holder; none is empty
    std::size_t retired_bytes_ = 0;
};

}  // namespace atl::sandbox
