// The other end of a channel, scripted by a test in the same thread; and timers that fire when told.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "core/base/clock.hpp"
#include "core/plain/unique_fd.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::test {

class HandTimers final : public base::Timers {
  public:
    explicit HandTimers(boost::asio::io_context& loop) : loop_(loop) {}
    base::TimerId arm(base::Millis delay, std::function<void()> fire) override;
    void cancel(base::TimerId id) override { armed_.erase(id); }
    void defer(std::function<void()> run) override;
    /// Lets `time` pass: fires the timers that are due by then, in order.
    void advance(base::Millis time);
    std::size_t armed() const { return armed_.size(); }

  private:
    boost::asio::io_context& loop_;
    std::map<base::TimerId, std::pair<base::Millis, std::function<void()>>> armed_;
    base::TimerId last_id_ = 0;
    base::Millis now_{0};
};

/// A connection as the guest sees it. Nothing blocks.
class FakePeer {
  public:
    explicit FakePeer(int fd) : socket_(fd) {}
    /// The bytes that have arrived so far.
    std::string received();
    /// Sends all bytes; false if the host is gone or does not read them.
    bool send(std::string_view text);
    /// True once the host has closed its end; drops the bytes that came before.
    bool at_end();
    void close() { socket_.reset(); }
    int fd() const { return socket_.get(); }

  private:
    base::UniqueFd socket_;
};

/// A bridge socket, as the sandbox's process shows it.
class FakeGuest final : public sandbox::Process {
  public:
    explicit FakeGuest(int backlog = 64);
    ~FakeGuest() override;
    FakeGuest(const FakeGuest&) = delete;
    FakeGuest& operator=(const FakeGuest&) = delete;

    /// The next connection; it must be there.
    FakePeer accept();
    bool has_connection();

    const std::string& bridge_path() const override { return path_; }
    pid_t pid() const override { return 0; }
    void terminate() override {}
    void kill() override {}
    std::string log_tail() const override { return {}; }

  private:
    std::string directory_;
    std::string path_;
    base::UniqueFd listener_;
};

/// Records a turn; `on_each` runs inside every call.
struct Recorder final : sandbox::QueryObserver {
    std::vector<std::string> calls;  // "name data", "bad what", "end N"
    std::function<void()> on_each = [] {};
    bool slow = false;
    bool full = false;

    void on_event(const sandbox::AgentEvent& event) override {
        record(std::string(event.name) + " " + std::string(event.data));
    }
    void on_bad_line(std::string_view what) override { record("bad " + std::string(what)); }
    void on_end(sandbox::QueryEnd end, std::string_view) override {
        record("end " + std::to_string(static_cast<int>(end)));
    }
    bool truncated() const override { return slow; }
    bool congested() const override { return full; }
    bool ended() const { return !calls.empty() && calls.back().starts_with("end"); }

  private:
    void record(std::string call) {
        calls.push_back(std::move(call));
        on_each();
    }
};

inline std::string end_call(sandbox::QueryEnd end) {
    return "end " + std::to_string(static_cast<int>(end));
}

}  // namespace atl::test
