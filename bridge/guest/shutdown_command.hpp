// `shutdown`: answers, then the agent ends and the guest with it.
#pragma once

#include <functional>
#include <utility>

#include "bridge/guest/guest_command.hpp"

namespace atl::guest {

class ShutdownCommand final : public GuestCommand {
  public:
    explicit ShutdownCommand(std::function<void()> begin_stop) : begin_stop_(std::move(begin_stop)) {}
    void begin(Connection& connection, Command&) override {
        reply_ok(connection);
        begin_stop_();
    }

  private:
    std::function<void()> begin_stop_;
};

}  // namespace atl::guest
