// The guest's end of a bridge, for targets that drive a real Stream: a listening socket without a name in
// the file system, a loop that is run by hand, timers that fire when nothing else is left to do.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "bridge/stream.hpp"
#include "core/plain/unique_fd.hpp"

namespace atl::fuzz {

class HandTimers final : public base::Timers {
  public:
    explicit HandTimers(boost::asio::io_context& loop) : loop_(loop) {}
    base::TimerId arm(base::Millis delay, std::function<void()> fire) override;
    void cancel(base::TimerId id) override { armed_.erase(id); }
    void defer(std::function<void()> run) override;
    /// Fires the oldest one. False: there is none.
    bool fire_one();
    std::size_t armed() const { return armed_.size(); }

  private:
    boost::asio::io_context& loop_;
    std::map<base::TimerId, std::function<void()>> armed_;
    base::TimerId last_id_ = 0;
};

class BridgePeer {
  public:
    BridgePeer();
    BridgePeer(const BridgePeer&) = delete;
    BridgePeer& operator=(const BridgePeer&) = delete;

    const std::string& path() const { return path_; }
    const std::shared_ptr<bridge::StreamContext>& context() const { return context_; }
    HandTimers& timers() { return timers_; }

    /// Until the loop waits for the peer only.
    void settle();
    /// The next connection, or none.
    base::UniqueFd accept();
    /// Sends `text` and settles; false once the host is gone.
    bool send(const base::UniqueFd& connection, std::string_view text);
    /// The bytes that the host has sent so far.
    static std::string received(const base::UniqueFd& connection);

  private:
    boost::asio::io_context loop_{1};
    HandTimers timers_{loop_};
    std::shared_ptr<bridge::StreamContext> context_;
    base::UniqueFd listener_;
    base::UniqueFd name_;  // O_PATH: the socket's file, which is unlinked
    std::string path_;
};

}  // namespace atl::fuzz
