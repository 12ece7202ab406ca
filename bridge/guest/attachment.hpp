// One host connection that follows a kept process: output from an offset on, as fast as the host reads; then
// the exit; input and signals from the host. Closing it ends nothing; what the host had sent for stdin is
// still passed on (kept_process.hpp).
#pragma once

#include <cstdint>

#include "bridge/guest/frame_user.hpp"
#include "bridge/guest/program_input.hpp"

namespace atl::guest {

class KeptProcess;

class Attachment final : public FrameUser {
  public:
    /// feed: no output is sent, only the exit.
    enum class Use : std::uint8_t { follow, feed };

    /// `process` outlives this; `connection` does, or says on_closed(). Output goes on at `offset`, the
    /// number of bytes that the host has.
    Attachment(KeptProcess& process, Loop& loop, Connection& connection, std::uint64_t offset, Use use);
    ~Attachment();
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;

    /// Sends what the host does not have yet, within what the connection wants; behind it the exit.
    void pump();
    /// Whether reading so many bytes more would drop some that this one waits for.
    bool would_lose(std::uint64_t bytes) const;
    /// It is not waited for any more until it has caught up.
    void give_up() noexcept { slow_ = true; }
    /// So many bytes that it gave for stdin wait no longer.
    void on_passed(std::size_t bytes) { window_.passed(bytes); }
    /// Nothing is left to do for it.
    bool is_over() const noexcept { return connection_ == nullptr; }

  private:
    void on_drained(Connection& connection) override;
    void on_closed(Connection& connection) override;
    bool obey(const bridge::Frame& frame) override;
    bool pass_on(std::string_view bytes);
    void send_exit();

    KeptProcess& process_;
    const Use use_;
    std::uint64_t offset_;  // of the next byte to send
    bool slow_ = false;
    InputWindow window_;
};

}  // namespace atl::guest
