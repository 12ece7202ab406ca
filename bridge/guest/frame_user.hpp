// A connection on which the host sends frames (bridge/frame.hpp): they are read here, for all commands that
// take some as they come. A frame that may not come closes the connection.
#pragma once

#include "bridge/frame.hpp"
#include "bridge/guest/connection.hpp"

namespace atl::guest {

class FrameUser : public ConnectionUser {
  protected:
    /// `connection` outlives this or says on_closed(), which sets connection_ to null.
    explicit FrameUser(Connection& connection) : connection_(&connection) {}
    ~FrameUser() = default;

    /// False: nothing that the host may send.
    virtual bool handle(const bridge::Frame& frame) = 0;

    Connection* connection_;  // null: no frame is read any more

  private:
    std::size_t on_input(Connection& connection, std::string_view bytes) final;

    bridge::FrameDecoder decoder_{bridge::FrameDecoder::Sender::host};
};

}  // namespace atl::guest
