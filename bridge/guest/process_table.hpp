// The processes that outlive the connection that started them, and what can be asked of them. One that has
// ended is kept with its output for base::k_ended_process_time, so that who comes back learns of its end.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "bridge/guest/background_process.hpp"
#include "bridge/guest/guest_command.hpp"

namespace atl::guest {

class ProcessTable {
  public:
    explicit ProcessTable(Services& services) : services_(services) {}
    ~ProcessTable();
    ProcessTable(const ProcessTable&) = delete;
    ProcessTable& operator=(const ProcessTable&) = delete;

    /// The answer is written to the connection; so it is by the calls below.
    void start(Connection& connection, BackgroundProcess::Spec spec);
    /// All, or the one of that id, a line each; then the reply.
    void list(Connection& connection, std::string_view only) const;
    /// Null, with the refusal written: there is none of that id.
    BackgroundProcess* find(Connection& connection, std::string_view id) const;
    void attach(Connection& connection, std::string_view id, std::uint64_t after, Attachment::Use use);

  private:
    struct Entry {
        std::unique_ptr<BackgroundProcess> process;
        TimerId expiry = 0;          // once it has ended
        std::uint64_t ended_as = 0;  // order of ending, from 1; 0: still running
    };
    const char* check(const BackgroundProcess::Spec& spec) const;
    enum class Kept : std::uint8_t { running, all };
    /// The bytes of their descriptions.
    std::size_t described_bytes(Kept which) const;
    std::size_t running() const;
    void on_end(const BackgroundProcess* process);
    void expire(const BackgroundProcess* process);
    void make_room(std::size_t more_bytes);

    Services& services_;
    std::list<Entry> entries_;  // in the order of their starts
    std::uint64_t ends_ = 0;
};

/// `process` {id, tag?, terminal?: {columns, rows}, and as for exec}: one reply, with the pid.
class ProcessCommand final : public GuestCommand {
  public:
    ProcessCommand(Services& services, ProcessTable& table) : services_(services), table_(table) {}
    void begin(Connection& connection, Command& command) override;

  private:
    Services& services_;
    ProcessTable& table_;
};

/// `processes` {id?}: a line each, then one reply.
class ProcessesCommand final : public GuestCommand {
  public:
    explicit ProcessesCommand(ProcessTable& table) : table_(table) {}
    void begin(Connection& connection, Command& command) override;

  private:
    ProcessTable& table_;
};

/// `attach` {id, after, input?}: one reply, then frames both ways, the exit last. With `input` it is for the
/// sake of stdin: no output comes, and a process without one is refused.
class AttachCommand final : public GuestCommand {
  public:
    explicit AttachCommand(ProcessTable& table) : table_(table) {}
    void begin(Connection& connection, Command& command) override;

  private:
    ProcessTable& table_;
};

/// `control` {id, signal?, columns? with rows, inputEnd?}: one reply.
class ControlCommand final : public GuestCommand {
  public:
    explicit ControlCommand(ProcessTable& table) : table_(table) {}
    void begin(Connection& connection, Command& command) override;

  private:
    ProcessTable& table_;
};

}  // namespace atl::guest
