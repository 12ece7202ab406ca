// The commands that the guest takes: an object for each command of the table in guest.cpp. It serves all
// connections of its command; what belongs to one connection is an object of its own that follows it.
#pragma once

#include <string_view>

#include "bridge/guest/command.hpp"
#include "bridge/guest/connection.hpp"
#include "bridge/protocol.hpp"

namespace atl::guest {

class GuestCommand : public ConnectionUser {
  public:
    /// A command line has come. The connection is followed by this, unless it is given another user.
    virtual void begin(Connection& connection, Command& command) = 0;

  protected:
    ~GuestCommand() = default;
};

/// The one reply, then the stream is over.
inline void reply_ok(Connection& connection) {
    connection.write(bridge::k_reply_ok);
    connection.break_off();
}

/// `code` is a word of bridge::refusal; may be empty.
inline void refuse(Connection& connection, std::string_view error, std::string_view code = {}) {
    connection.write(bridge::encode_refusal(error, code));
    connection.break_off();
}

}  // namespace atl::guest
