// The readers of one thing, which wait for more of it. Waking all of them is done in passes: a few are woken,
// and what they set off and what others have put off goes before the next few, so that thousands of readers
// hold up nobody else. Single-threaded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"

namespace atl::base {

// A woken reader takes some 60 us.
inline constexpr std::size_t k_wakes_a_pass = 16;

/// `Reader` has wake(), which only sets something off.
template <class Reader>
class ReaderList {
  public:
    explicit ReaderList(Timers& timers) : timers_(timers) {}
    ~ReaderList() { *self_ = nullptr; }
    ReaderList(const ReaderList&) = delete;
    ReaderList& operator=(const ReaderList&) = delete;

    void add(Reader& reader) { readers_.push_back(&reader); }
    void remove(Reader& reader) {
        const auto at = std::find(readers_.begin(), readers_.end(), &reader);
        if (at == readers_.end())
            return;
        if (static_cast<std::size_t>(at - readers_.begin()) < left_)
            --left_;
        readers_.erase(at);
    }
    bool empty() const noexcept { return readers_.empty(); }
    auto begin() const noexcept { return readers_.begin(); }
    auto end() const noexcept { return readers_.end(); }

    /// Wakes each reader that is here now and stays: the first few before it returns. A reader that came last
    /// is woken first.
    void wake_all() {
        is_due_ = true;
        if (!is_passing_)
            pass();
    }

  private:
    void pass() {
        if (left_ == 0 && std::exchange(is_due_, false))
            left_ = readers_.size();
        for (std::size_t woken = 0; woken < k_wakes_a_pass && left_ > 0; ++woken)
            readers_[--left_]->wake();
        is_passing_ = left_ > 0 || is_due_;
        if (is_passing_)
            timers_.defer([self = self_] {
                if (*self != nullptr)
                    (*self)->pass();
            });
    }

    Timers& timers_;
    std::vector<Reader*> readers_;
    std::size_t left_ = 0;     // of the pass: those before it are still to be woken
    bool is_due_ = false;      // another one begins behind it
    bool is_passing_ = false;  // it goes on later
    /// Null inside once this is gone.
    std::shared_ptr<ReaderList*> self_ = std::make_shared<ReaderList*>(this);
};

}  // namespace atl::base
