// A conversation that is deleted between the reads of an exec that needs it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/conversation/manager.hpp"
#include "house.hpp"

namespace overtaken_exec_test {

using namespace atl;
using namespace atl::conversation;
using base::Errc;
using base::Result;

namespace {

/// How far the removal has come when the exec hears of its present read.
enum class Removal { asked, begun, erased, committed };

/// A paused conversation that is not in memory, over a store that answers later.
struct PausedHouse : test::House {
    PausedHouse() : House({1, {}}) {
        const auto made = create();
        id = made->record.id;
        sandbox_id = made->record.sandbox_id;
        (void)answer([&](auto reply) { conversations->pause(id, PauseMode::cold, std::move(reply)); });
        restart();
        REQUIRE(conversations->loaded() == 0);
        world.store.later = [this](std::function<void()> read) { waiting.push_back(std::move(read)); };
    }
    void give(std::size_t which) {
        REQUIRE(which < waiting.size());
        const auto at = waiting.begin() + static_cast<std::ptrdiff_t>(which);
        const auto read = std::move(*at);
        waiting.erase(at);
        read();
        settle();
    }
    /// Lets the removal go on to `until`, behind the first `others` reads.
    void remove(Removal until, std::size_t others) {
        world.removals_fail = until == Removal::begun;
        conversations->remove(id, [this](const Result<void>& answered) { removed = answered; });
        const auto has_come = [&] {
            return until == Removal::asked ||
                   (until == Removal::erased ? world.workspaces.empty() && conversations->loaded() == 0
                                             : removed.has_value());
        };
        while (!has_come())
            give(others);
    }

    std::string id;
    std::string sandbox_id;
    std::deque<std::function<void()>> waiting;
    std::optional<Result<void>> removed;
};

/// The questions of an exec with a user's key: the guard of its route, then for a lease. Each step is its own
/// turn of the loop.
struct AskedExec {
    explicit AskedExec(PausedHouse& in_house) : house(in_house) {
        house.conversations->get_sandbox(house.sandbox_id, [this](const Result<SandboxView>& view) {
            if (!view)
                return refuse(view.error());
            next = [this, owner = view->record.conversation_id] { ask_owner(owner); };
        });
    }
    void ask_owner(const std::string& owner) {
        house.conversations->get(owner, [this](const Result<View>& view) {
            if (!view)
                return refuse(view.error());
            next = [this] { ask_lease(); };
        });
    }
    void ask_lease() {
        house.conversations->lease(
            house.sandbox_id, LeaseUse::request, [this](const Result<std::unique_ptr<Lease>>& lease) {
                REQUIRE_FALSE(lease.has_value());
                refuse(lease.error());
                const bool is_told = refusal->code() == base::Errc::conversation_ended ||
                                     refusal->detail().find("sandbox") != std::string::npos;
                CHECK(is_told);
            });
    }
    void refuse(const base::Error& why) {
        REQUIRE_FALSE(refusal.has_value());
        refusal = why;
    }
    void resume() { std::exchange(next, nullptr)(); }

    PausedHouse& house;
    std::function<void()> next;
    std::optional<base::Error> refusal;
};

}  // namespace

TEST_CASE("a delete between the reads of an exec makes the sandbox unknown, wherever it comes") {
    const std::size_t reads_before = GENERATE(0U, 1U, 2U);
    const bool is_read_under_way = GENERATE(true, false);
    const Removal removal = GENERATE(Removal::asked, Removal::begun, Removal::erased, Removal::committed);
    if (reads_before == 2 && !is_read_under_way)
        return;  // the lease has no step between its reads
    CAPTURE(reads_before, is_read_under_way, static_cast<int>(removal));
    PausedHouse house;
    AskedExec exec(house);
    for (std::size_t given = 0; given < reads_before; ++given) {
        house.give(0);
        exec.resume();
    }
    REQUIRE(house.waiting.size() == 1);
    if (!is_read_under_way)
        house.give(0);
    house.remove(removal, is_read_under_way ? 1 : 0);
    while (!exec.refusal && (exec.next || !house.waiting.empty()))
        exec.next ? exec.resume() : house.give(0);
    house.settle();
    REQUIRE(exec.refusal.has_value());
    CHECK(exec.refusal->code() == Errc::not_found);
}

TEST_CASE("a delete behind the last read of an exec is the end of the conversation for it") {
    PausedHouse house;
    AskedExec exec(house);
    for (int given = 0; given < 2; ++given) {
        house.give(0);
        exec.resume();
    }
    house.give(0);
    REQUIRE(house.waiting.size() == 1);
    house.remove(Removal::asked, 1);
    CHECK(house.waiting.size() == 1);  // both wait for the same read
    while (!exec.refusal)
        house.give(0);
    CHECK(exec.refusal->code() == Errc::conversation_ended);
}

}  // namespace overtaken_exec_test
