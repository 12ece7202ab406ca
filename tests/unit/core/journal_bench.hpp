// A journal over the fake store: what tests of it, and of what is built on it, begin with.
#pragma once

#include "core/conversation/journal.hpp"
#include "tests/support/fake_world.hpp"

namespace atl::test {

struct JournalBench {
    FakeWorld world{1};
    conversation::Journal journal{world.store, world.timers};

    /// Runs all that is deferred; timers stay armed.
    void settle() {
        while (world.timers.run_deferred()) {
        }
    }
};

}  // namespace atl::test
