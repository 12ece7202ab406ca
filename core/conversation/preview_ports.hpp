// The ports of this machine at which previews are shown where they have no names. It reserves a number for
// each sandbox when it is made. It has the number listened on while the sandbox lives and a while after a
// pause, and gives it to another sandbox after the end. The end of a server is a pause, too. If another
// program took a number, and keeps it, the number is replaced. Numbers are a budget in which each user has a
// share. Where too many are listened on, the user with most of those gives way. Off until enable(). Internal
// to core/conversation, but for the port PreviewDoors. Not here: sockets.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/shares.hpp"
#include "core/conversation/preview_numbers.hpp"
#include "core/plain/preview_limits.hpp"
#include "core/sandbox/types.hpp"

namespace atl::conversation {

class Journal;

/// Listens on ports of the loopback.
class PreviewDoors {
  public:
    enum class Opening : std::uint8_t {
        open,
        taken,    // another program listens there
        refused,  // this one has no descriptors left, or the host no loopback
    };
    virtual Opening open(std::uint16_t number) = 0;
    /// Refuses connections from now on; open ones stay.
    virtual void close(std::uint16_t number) = 0;

  protected:
    ~PreviewDoors() = default;
};

struct PreviewPortSettings {
    base::Millis linger = base::k_default_preview_linger;  // after a pause
    std::size_t max_doors = base::k_max_preview_doors;
};

class PreviewPorts {
  public:
    /// `url` is empty where the sandbox has no number any more.
    using Changed = std::function<void(const std::string& sandbox_id, const std::string& url)>;

    /// `changed` is called from the loop when the number of a sandbox that had started before was replaced.
    PreviewPorts(base::Timers& timers, const base::Clock& clock, Journal& journal,
                 unsigned user_share_percent, Changed changed);
    ~PreviewPorts();
    PreviewPorts(const PreviewPorts&) = delete;
    PreviewPorts& operator=(const PreviewPorts&) = delete;

    /// Takes the state of the last server; `resting` is in the order in which they are to have room.
    void restore(const std::vector<PreviewNumber>& rows, std::vector<RestingPreview> resting);
    /// Listens for the sandboxes that were up when the last server died, and for those that rest for less
    /// than `linger` (RestingPreview::since). `doors` must outlive this, or disable() is called.
    void enable(PreviewDoors& doors, PreviewPortSettings settings);
    void disable();

    /// Reserves the number of a sandbox that is being made and opens it; a sandbox with the host's network
    /// gets none. Returns false where none is left or its user has all that one may have. store() stores it.
    bool reserve(const sandbox::Record& sandbox);
    /// Adds the number to the journal's batch, unless the store has it.
    void store(const std::string& sandbox_id);

    // Events of a sandbox. Sandboxes for which reserve() was not called are ignored, but for on_up(): a
    // sandbox from before there were numbers gets one there.
    void on_up(const sandbox::Record& sandbox);
    void on_down(const std::string& sandbox_id);
    void on_removed(const std::string& sandbox_id);

    /// "http://localhost:31234/"; empty: it has none.
    std::string url(const std::string& sandbox_id) const;
    /// The sandbox that has the number; empty: none.
    std::string owner(std::uint16_t number) const;
    /// True if another sandbox had the number, and browsers were not told since to forget what they keep for
    /// it.
    bool is_stale(std::uint16_t number) const;
    /// Browsers were told to forget.
    void end_stale(std::uint16_t number);
    /// The budget of the numbers that sandboxes have.
    const base::Budget& numbers() const noexcept { return shared_; }

  private:
    struct Owned {
        base::ShareHolder holder;
        base::Share share;
    };
    /// A number that is listened on.
    struct Door {
        std::string holder;                     // the name
        std::optional<base::SteadyTime> until;  // of one that lingers
    };

    bool open(std::uint16_t number, const std::string& sandbox_id);
    std::optional<std::uint16_t> spare_door(const std::string& holder) const;
    void reopen();
    void open_or_retry(const PreviewNumber& row);
    void close(std::uint16_t number);
    void linger(std::uint16_t number, base::SteadyTime until);
    void stop_lingering(std::uint16_t number);
    void arm();
    void close_lingering();
    bool take_share(const std::string& sandbox_id, const base::ShareHolder& holder);
    bool give(const std::string& sandbox_id);
    void replace(const std::string& sandbox_id);
    void arm_retry();
    void retry();

    base::Timers& timers_;
    const base::Clock& clock_;
    Journal& journal_;
    Changed changed_;
    PreviewDoors* listens_ = nullptr;  // null: off
    PreviewPortSettings settings_;
    PreviewNumbers numbers_;
    base::Budget shared_;
    std::map<std::string, Owned> owned_;   // by sandbox
    std::vector<RestingPreview> resting_;  // until enable()
    std::set<std::uint16_t> unstored_;
    std::set<std::string> closed_for_others_;  // living sandboxes
    std::map<std::uint16_t, Door> open_;
    std::map<std::string, std::size_t> doors_of_;                     // by holder; none is zero
    std::set<std::pair<base::SteadyTime, std::uint16_t>> lingering_;  // the open ones that will close
    base::TimerId timer_ = 0;
    std::map<std::string, base::SteadyTime>
        refused_;  // sandboxes whose number is taken, until when they wait
    base::TimerId retry_timer_ = 0;
    std::shared_ptr<PreviewPorts*> self_ = std::make_shared<PreviewPorts*>(this);  // null inside: destroyed
};

}  // namespace atl::conversation
