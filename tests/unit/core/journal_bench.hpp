// A journal over the fake store, for tests of the journal and of the parts on top of it.
#pragma once

#include "core/conversation/journal.hpp"
#include "tests/support/fake_world.hpp"

namespace atl::test {

struct JournalBench {
    FakeWorld world{1};
    conversation::Journal journal{world.store, world.timers};

    /// Runs all deferred functions; timers stay armed.
    void settle() {
        while (world.timers.run_deferred()) {
        }
    }
};

}  // namespace atl::test
