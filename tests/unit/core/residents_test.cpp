// The conversations in memory: those that live or are followed. The others are rows of the store.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/generators/catch_generators.hpp>
#include <set>
#include <sstream>

#include "core/base/ids.hpp"
#include "core/base/log.hpp"
#include "house.hpp"

namespace residents_test {

using namespace atl;
using namespace std::chrono_literals;
using conversation::CreateRequest;
using conversation::Status;
using conversation::View;
using test::House;

namespace {

void pass(House& house, base::Millis time) {
    const auto until = house.world.clock.steady_now() + time;
    (void)house.world.timers.arm(time, [] {});
    house.settle();
    while (house.world.clock.steady_now() < until && house.world.timers.fire_next())
        house.settle();
}

View pause(House& house, const std::string& id) {
    return house
        .answer([&](auto reply) {
            house.conversations->pause(id, conversation::PauseMode::cold, std::move(reply));
        })
        .value();
}

std::string paused(House& house, CreateRequest request = {}) {
    const std::string id = house.create(std::move(request))->record.id;
    pause(house, id);
    pass(house, 3s);
    return id;
}

}  // namespace

TEST_CASE("residents: times that a request does not name are the server's defaults, and 0 is a name") {
    conversation::ManagerSettings settings;
    settings.default_idle_seconds = 900;
    settings.default_ttl_seconds = 86'400;
    House house({}, settings);
    const View usual = house.create().value();
    CHECK(usual.record.idle_seconds == 900);
    CHECK(usual.record.ttl_seconds == 86'400);
    CreateRequest request;
    request.idle_seconds = 0;
    request.ttl_seconds = 0;
    const View named = house.create(request).value();
    CHECK(named.record.idle_seconds == 0);
    CHECK(named.record.ttl_seconds == 0);
    const auto box = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); });
    CHECK(box->record.ttl_seconds == 86'400);
}

TEST_CASE("residents: one that is paused leaves the memory, and comes back as it was for who names it") {
    House house({});
    CreateRequest request;
    request.metadata = R"({"a":1})";
    request.idle_seconds = 77;
    const std::string id = house.create(request)->record.id;
    CHECK(house.conversations->loaded() == 1);
    const View before = pause(house, id);
    pass(house, 3s);
    CHECK(house.conversations->loaded() == 0);
    CHECK(house.conversations->count() == 1);
    CHECK(house.conversations->stats().by_status[Status::paused] == 1);

    // A look at it reads its rows, and loads nothing.
    const View after = test::get(*house.conversations, id).value();
    CHECK(house.conversations->loaded() == 0);
    CHECK(after.record.metadata == request.metadata);
    CHECK(after.record.idle_seconds == 77);
    CHECK(after.record.status == Status::paused);
    CHECK(after.record.reason == conversation::PauseReason::user);
    CHECK(after.record.last_seq == before.record.last_seq);
    CHECK(after.generation == before.generation);
    CHECK(after.sandbox_status == before.sandbox_status);
    CHECK(after.limits.memory_mb == before.limits.memory_mb);
    CHECK_FALSE(after.open_turn.has_value());

    const auto resumed =
        house.answer([&](auto reply) { house.conversations->resume(id, std::move(reply)); }).value();
    CHECK(resumed.record.status == Status::active);
    CHECK(resumed.generation == before.generation + 1);
    CHECK(resumed.record.last_seq > before.record.last_seq);
    pass(house, 10s);
    CHECK(house.conversations->loaded() == 1);
    CHECK(house.conversations->stats().by_status[Status::active] == 1);
}

TEST_CASE("residents: one that is followed stays until its last follower has gone") {
    House house({});
    const std::string id = paused(house);
    auto follower = test::subscribe(*house.conversations, id, 0).value();
    pass(house, 60s);
    CHECK(house.conversations->loaded() == 1);
    CHECK_FALSE(follower->next(100'000)->events.empty());
    follower.reset();
    pass(house, 3s);
    CHECK(house.conversations->loaded() == 0);
}

TEST_CASE("residents: a time to live ends also while the conversation is not in memory") {
    House house({});
    CreateRequest request;
    request.ttl_seconds = 600;
    const std::string id = paused(house, request);
    const std::string other = paused(house);
    REQUIRE(house.conversations->loaded() == 0);
    REQUIRE(house.world.workspaces.size() == 2);
    pass(house, 500s);
    CHECK(house.world.workspaces.size() == 2);
    house.world.clock.jump_wall(24h * 365);
    pass(house, 10s);
    CHECK(house.world.workspaces.size() == 2);
    pass(house, 120s);
    CHECK(house.world.workspaces.size() == 1);
    CHECK(test::get(*house.conversations, id)->record.status == Status::ended);
    CHECK(test::get(*house.conversations, other)->record.status == Status::paused);
    pass(house, 3s);
    CHECK(house.conversations->loaded() == 0);
    CHECK(house.conversations->count() == 1);
    // An ended one is forgotten by the same way.
    pass(house, base::k_default_keep_ended);
    CHECK(test::get(*house.conversations, id).error().code() == base::Errc::not_found);
    CHECK(house.world.store.conversations.size() == 1);
}

TEST_CASE("residents: a user's bound counts those that are not in memory") {
    conversation::ManagerSettings settings;
    settings.conversation_bounds = {100, 2};
    House house({}, settings);
    CreateRequest request;
    request.user_id = "ann";
    const std::string id = paused(house, request);
    paused(house, request);
    REQUIRE(house.conversations->loaded() == 0);
    CHECK(house.create(request).error().code() == base::Errc::too_many_conversations);
    request.user_id = "ben";
    CHECK(house.create(request).has_value());
    request.user_id = "ann";
    REQUIRE(house.answer<void>([&](auto reply) { house.conversations->remove(id, std::move(reply)); })
                .has_value());
    CHECK(house.create(request).has_value());
    CHECK(house.create(request).error().code() == base::Errc::too_many_conversations);
}

TEST_CASE("residents: a deletion finds one that is not in memory, and leaves nothing of it") {
    House house({});
    const std::string id = paused(house);
    const std::string sandbox_id = house.world.store.sandboxes.begin()->first;
    REQUIRE(house.conversations->loaded() == 0);
    CHECK(test::get_sandbox(*house.conversations, sandbox_id)->status == sandbox::Status::terminated);
    CHECK(test::list_sandboxes(*house.conversations, 10)->items.size() == 1);
    REQUIRE(house.answer<void>([&](auto reply) { house.conversations->remove(id, std::move(reply)); })
                .has_value());
    house.settle();
    CHECK(house.world.workspaces.empty());
    CHECK(house.world.uids.empty());
    CHECK(house.world.store.conversations.empty());
    CHECK(house.world.store.sandboxes.empty());
    CHECK(test::get_sandbox(*house.conversations, sandbox_id).error().code() == base::Errc::not_found);
    CHECK(house.conversations->stats().by_status[Status::ended] == 0);
}

TEST_CASE("residents: what was erased does not come back while the store refuses to hear of it") {
    House house({});
    const std::string id = paused(house);
    spdlog::set_level(spdlog::level::off);
    bool full = true;
    house.world.store.fails = [&full] { return full; };
    bool removed = false;
    house.conversations->remove(id, [&removed](const base::Result<void>&) { removed = true; });
    house.settle();
    CHECK_FALSE(removed);
    CHECK(house.world.store.conversations.size() == 1);
    CHECK(test::get(*house.conversations, id).error().code() == base::Errc::not_found);
    CHECK(test::list(*house.conversations)->items.empty());
    full = false;
    while (!removed && house.world.timers.fire_next())
        house.settle();
    spdlog::set_level(spdlog::level::info);
    CHECK(removed);
    CHECK(house.world.store.conversations.empty());
}

TEST_CASE("residents: several who name one at once get the same one, by one read that answers later") {
    House house({});
    const std::string id = paused(house);
    std::vector<std::function<void()>> reads;
    house.world.store.later = [&reads](std::function<void()> read) { reads.push_back(std::move(read)); };
    int answered = 0;
    for (int client = 0; client < 3; ++client)
        house.conversations->patch(id, {}, [&](const base::Result<View>& view) {
            CHECK(view->record.id == id);
            ++answered;
        });
    CHECK(answered == 0);
    REQUIRE(reads.size() == 1);
    reads[0]();
    CHECK(house.conversations->loaded() == 1);
    house.world.store.later = nullptr;
    house.settle();
    CHECK(answered == 3);
    CHECK(house.conversations->loaded() == 1);
    house.world.store.later = nullptr;
}

namespace {

/// The answer to a request, if it was given.
struct Answer {
    bool is_given = false;
    std::optional<base::Errc> error;

    template <class T>
    auto taker() {
        return [this](const base::Result<T>& result) {
            CHECK_FALSE(std::exchange(is_given, true));
            if (result.has_error())
                error = result.error().code();
        };
    }
};

/// A paused conversation that is not in memory, over a store that answers reads when it is told to.
struct LoadingHouse : House {
    LoadingHouse() : House({}) {
        id = paused(*this);
        REQUIRE(conversations->loaded() == 0);
        world.store.later = [this](std::function<void()> read) { reads.push_back(std::move(read)); };
    }
    /// The store answers at once from now on.
    void answer_reads() {
        world.store.later = nullptr;
        for (std::size_t next = 0; next < reads.size(); ++next)
            reads[next]();
        reads.clear();
        settle();
    }

    std::string id;
    std::vector<std::function<void()>> reads;
};

}  // namespace

TEST_CASE(
    "residents: a deletion that comes while one is loaded is done, and all that come behind it hear so") {
    LoadingHouse house;
    Answer before;
    Answer removed;
    Answer removed_too;
    Answer behind;
    house.conversations->resume(house.id, before.taker<View>());
    house.conversations->remove(house.id, removed.taker<void>());
    house.conversations->message(house.id, {"hi", "", ""}, conversation::MessageReply::committed,
                                 behind.taker<conversation::TurnTicket>());
    REQUIRE(house.reads.size() == 1);
    house.answer_reads();
    pass(house, 60s);
    CHECK(before.is_given);
    CHECK(before.error.has_value());
    CHECK(removed.is_given);
    CHECK_FALSE(removed.error.has_value());
    CHECK(behind.error == base::Errc::not_found);
    CHECK(house.world.store.conversations.empty());
    CHECK(house.world.store.sandboxes.empty());
    CHECK(house.world.workspaces.empty());
    CHECK(house.conversations->loaded() == 0);
    CHECK(test::get(*house.conversations, house.id).error().code() == base::Errc::not_found);
    house.conversations->remove(house.id, removed_too.taker<void>());
    CHECK(removed_too.error == base::Errc::not_found);
}

TEST_CASE("residents: a load that fails is told to all who wait for it, and the next request loads anew") {
    LoadingHouse house;
    house.world.store.load_fails = [] { return true; };
    Answer first;
    Answer second;
    house.conversations->resume(house.id, first.taker<View>());
    house.conversations->patch(house.id, {}, second.taker<View>());
    REQUIRE(house.reads.size() == 1);
    house.world.store.load_fails = [] { return false; };
    house.answer_reads();
    CHECK(first.error == base::Errc::storage_failed);
    CHECK(second.error == base::Errc::storage_failed);
    CHECK(house.conversations->loaded() == 0);
    CHECK(test::get(*house.conversations, house.id)->record.status == Status::paused);
    const auto resumed =
        house.answer([&](auto reply) { house.conversations->resume(house.id, std::move(reply)); });
    REQUIRE(resumed.has_value());
    CHECK(resumed->record.status == Status::active);
}

TEST_CASE("residents: what is asked of a server that stops during a load is refused, and nothing starts") {
    LoadingHouse house;
    Answer resumed;
    house.conversations->resume(house.id, resumed.taker<View>());
    bool is_stopped = false;
    house.conversations->shut_down([&is_stopped] { is_stopped = true; });
    house.answer_reads();
    pass(house, 60s);
    CHECK(is_stopped);
    CHECK(resumed.error == base::Errc::shutting_down);
    CHECK(house.world.store.conversations.begin()->second.status == Status::paused);
}

TEST_CASE("residents: two changes of different limits that wait for one read both hold") {
    House house({});
    const std::string id = paused(house);
    std::vector<std::function<void()>> reads;
    house.world.store.later = [&reads](std::function<void()> read) { reads.push_back(std::move(read)); };
    conversation::PatchRequest memory;
    memory.limits.emplace().memory_mb = 300;
    conversation::PatchRequest processes;
    processes.limits.emplace().max_processes = 10;
    int answered = 0;
    for (const auto& change : {memory, processes})
        house.conversations->patch(id, change, [&answered](const base::Result<View>& view) {
            CHECK(view.has_value());
            ++answered;
        });
    REQUIRE(reads.size() == 1);
    house.world.store.later = nullptr;
    reads[0]();
    house.settle();
    CHECK(answered == 2);
    const auto check = [&] {
        const View view = test::get(*house.conversations, id).value();
        CHECK(view.limits.memory_mb == 300);
        CHECK(view.limits.max_processes == 10);
    };
    check();
    house.restart();
    check();
}

TEST_CASE("residents: a look that the store answers later shows what has happened meanwhile") {
    House house({});
    const std::string id = paused(house);
    std::function<void()> read;
    std::optional<View> seen;
    house.world.store.later = [&read](std::function<void()> later) { read = std::move(later); };
    house.conversations->get(id, [&seen](const base::Result<View>& view) { seen = view.value(); });
    house.world.store.later = nullptr;
    REQUIRE(read);
    REQUIRE(house.answer([&](auto reply) { house.conversations->resume(id, std::move(reply)); }).has_value());
    CHECK_FALSE(seen.has_value());
    read();
    REQUIRE(seen.has_value());
    CHECK(seen->record.status == Status::active);
    CHECK(seen->generation == 2);
}

TEST_CASE("residents: a list has those that the store does not have yet, or has as they were") {
    House house({});
    const std::string resuming = paused(house);
    conversation::ListQuery starting;
    starting.filter.status = Status::starting;
    CHECK(test::list(*house.conversations, starting)->items.empty());
    house.conversations->create({}, [](const base::Result<View>&) {});
    house.conversations->resume(resuming, [](const base::Result<View>&) {});
    CHECK(test::list(*house.conversations, starting)->items.size() == 2);
    CHECK(test::list(*house.conversations)->items.size() == 2);
    conversation::ListQuery first;
    first.limit = 1;
    auto page = test::list(*house.conversations, first);
    REQUIRE(page->items.size() == 1);
    CHECK(page->items[0].record.id == resuming);
    first.cursor = page->next;
    REQUIRE_FALSE(first.cursor.empty());
    page = test::list(*house.conversations, first);
    REQUIRE(page->items.size() == 1);
    CHECK(page->items[0].record.id != resuming);
    house.settle();
    CHECK(test::list(*house.conversations, starting)->items.empty());
}

TEST_CASE("residents: one that has ended is forgotten only when its sandbox is removed") {
    conversation::ManagerSettings settings;
    settings.keep_ended = 0s;
    House house({}, settings);
    conversation::Record record;
    record.key = 1;
    record.id = base::new_id();
    record.agent = "shell";
    record.sandbox_id = base::new_id();
    record.status = Status::ended;
    record.ttl_seconds = 1;
    sandbox::Record box;
    box.id = record.sandbox_id;
    box.conversation_id = record.id;
    house.world.store.sandboxes.emplace(box.id, box);
    house.world.store.conversations.emplace(1, record);
    house.restart();
    pass(house, 10s);
    CHECK(house.world.store.conversations.empty());
    CHECK(house.world.store.sandboxes.empty());
    CHECK(house.sandboxes->find(box.id) == nullptr);
}

TEST_CASE(
    "residents: one whose time is over and that cannot be read is tried ever more seldom, and told once") {
    conversation::ManagerSettings settings;
    settings.keep_ended = 1000s;
    House house({}, settings);
    CreateRequest request;
    request.ttl_seconds = 600;
    std::vector<std::string> ids;
    while (ids.size() < 40)  // more than one look takes
        ids.push_back(paused(house, request));
    request.ttl_seconds = 0;
    const std::string other = paused(house, request);
    const bool is_to_be_forgotten = GENERATE(false, true);
    CAPTURE(is_to_be_forgotten);
    if (is_to_be_forgotten)
        pass(house, 680s);
    REQUIRE(house.conversations->loaded() == 0);

    std::ostringstream lines;
    auto& sinks = spdlog::default_logger()->sinks();
    sinks.push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(lines));
    std::size_t loads = 0;
    house.world.store.load_fails = [&loads] { return ++loads > 0; };
    pass(house, 30min);
    sinks.pop_back();
    house.world.store.load_fails = [] { return false; };
    CHECK(loads > 10 * ids.size());
    CHECK(loads < 40 * ids.size());
    const std::string text = lines.str();
    const auto told = text.find("store_failed");
    REQUIRE(told != std::string::npos);
    CHECK(text.find("store_failed", told + 1) == std::string::npos);

    // All are tried again within a minute; what ends now has been kept for long enough.
    pass(house, 90s);
    for (const std::string& id : ids)
        CHECK(test::get(*house.conversations, id).error().code() == base::Errc::not_found);
    CHECK(test::get(*house.conversations, other)->record.status == Status::paused);
}

TEST_CASE("residents: a server of many paused conversations starts with none, and lists them all") {
    House house({});
    constexpr std::int64_t k_count = 3000;
    for (std::int64_t key = 1; key <= k_count; ++key) {
        conversation::Record record;
        record.key = key;
        record.id = base::new_id();
        record.agent = "shell";
        record.sandbox_id = base::new_id();
        record.status = Status::paused;
        sandbox::Record box;
        box.id = record.sandbox_id;
        box.conversation_id = record.id;
        house.world.store.sandboxes.emplace(box.id, box);
        house.world.store.conversations.emplace(key, std::move(record));
    }
    house.restart();
    CHECK(house.conversations->loaded() == 0);
    CHECK(house.conversations->count() == k_count);
    conversation::ListQuery query;
    query.order = conversation::ListOrder::newest_first;
    std::set<std::string> found;
    do {
        const auto page = test::list(*house.conversations, query);
        for (const auto& view : page->items)
            CHECK(found.insert(view.record.id).second);
        query.cursor = page->next;
    } while (!query.cursor.empty());
    CHECK(found.size() == k_count);
    // Following each of them once leaves few in memory.
    for (const std::string& id : found)
        REQUIRE(test::subscribe(*house.conversations, id, 0).has_value());
    CHECK(house.conversations->loaded() < 100);
    pass(house, 10s);
    CHECK(house.conversations->loaded() == 0);
}

}  // namespace residents_test
