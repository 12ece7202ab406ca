// The requests that are being answered by dev servers, tunnels too, so that a change of a preview's settings
// ends those that it no longer allows, and none waits for a sandbox that stands still. Not here: whether a
// new request is allowed.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/sandbox/types.hpp"
#include "http/proxy/exchange.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

class OpenPreviews {
  public:
    /// The port that a request was allowed to reach, by a pass or without one.
    struct Visit {
        std::string sandbox_id;
        std::uint16_t port = 0;
        bool has_pass = false;
        bool is_activity = true;  // while it waits
    };

    /// A relay that does what `inner` does, and is ended by end_unallowed() and refuse_waiting(). This must
    /// outlive it.
    std::unique_ptr<Relay> follow(Visit visit, std::unique_ptr<Exchange> inner);
    /// Breaks off those that `now` would not allow.
    void end_unallowed(const std::string& sandbox_id, const sandbox::PreviewSettings& now);
    /// Answers those whose answer has not begun with `why`.
    void refuse_waiting(const std::string& sandbox_id, const base::Error& why);
    /// True if a visit that is activity waits for its dev server to begin an answer.
    bool is_awaited(const std::string& sandbox_id) const;
    bool contains(const std::string& sandbox_id) const { return open_.contains(sandbox_id); }
    std::size_t count() const noexcept { return open_.size(); }

  private:
    class Followed;
    struct Open {
        const Visit* visit;
        Connection* connection;
        Exchange* exchange;
    };
    using Place = std::multimap<std::string, Open>::iterator;

    std::multimap<std::string, Open> open_;  // by sandbox
};

}  // namespace atl::http
