// A command with one reply, on a connection of its own, within a deadline.
#pragma once

#include <functional>
#include <string>

#include "bridge/line_reader.hpp"
#include "core/base/error.hpp"

namespace atl::bridge {

class Request final : private LineReader {
  public:
    /// Called once, from the loop: no value for {"ok":true}, `refused` with the guest's reason for
    /// {"ok":false}, bridge_failed or deadline_exceeded. May destroy this.
    using Done = std::function<void(base::Result<void>)>;

    Request(std::shared_ptr<StreamContext> context, const std::string& path, std::string command,
            base::Millis deadline, base::Errc refused, Done done);
    ~Request();

  private:
    void on_line(std::string_view line) override;
    void on_end(Stream::End end, std::string_view detail) override;
    void finish(base::Result<void> result);

    std::shared_ptr<StreamContext> context_;
    base::Errc refused_;
    Done done_;
    base::TimerId deadline_ = 0;
    std::shared_ptr<Stream> stream_;
};

}  // namespace atl::bridge
