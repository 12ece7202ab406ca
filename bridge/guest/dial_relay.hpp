// A connection of `dial`: first 127.0.0.1, then ::1, within k_dial_deadline together; then bytes both ways,
// each as fast as the other side takes them, and each side's end of writing passed on by itself.
#pragma once

#include <functional>

#include "bridge/guest/connection.hpp"

namespace atl::guest {

inline constexpr Millis k_dial_deadline{3000};

class DialRelay final : public ConnectionUser, private FdHandler {
  public:
    /// `connection` outlives this or says on_closed(). Call start() next.
    DialRelay(Loop& loop, Connection& connection, std::uint16_t port)
        : loop_(loop), connection_(&connection), port_(port) {}
    ~DialRelay();
    DialRelay(const DialRelay&) = delete;
    DialRelay& operator=(const DialRelay&) = delete;

    /// Dials and answers the host. `on_gone` is called once, from the loop, when all is over; it destroys
    /// this.
    void start(std::function<void()> on_gone);

  private:
    enum class Attempt : std::uint8_t { ipv4, ipv6, none };

    void on_ready(std::uint32_t events) override;
    std::size_t on_input(Connection& connection, std::string_view bytes) override;
    void on_input_end(Connection& connection) override;
    void on_drained(Connection& connection) override;
    void on_closed(Connection& connection) override;

    void try_next();
    bool connect(bool& in_progress);
    void connected();
    void give_up(const char* why);
    void read_some();
    void watch();
    void leave_loop();
    void end();

    Loop& loop_;
    Connection* connection_;  // null once closed or ended
    const std::uint16_t port_;
    std::function<void()> on_gone_;
    base::UniqueFd socket_;
    Attempt attempt_ = Attempt::ipv4;
    bool connecting_ = true;
    bool input_waits_ = false;   // for room in the socket
    bool input_ended_ = false;   // the host's end was passed on
    bool output_ended_ = false;  // the socket's end was passed on
    std::uint32_t waiting_for_ = 0;
    TimerId deadline_ = 0;
};

}  // namespace atl::guest
