// Why work on a generation ended: the error of each cause, and how it is waited for.
#include "core/conversation/end_cause.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/plain/operation_limits.hpp"
#include "tests/unit/core/house.hpp"

namespace end_cause_test {

using namespace atl;
using namespace atl::test;
using base::Errc;
using base::Error;
using conversation::Lease;
using conversation::LeaseUse;
using conversation::action::LeaseScope;

namespace {

constexpr const char* k_too_much = "its workspace holds 96 MB, more than the disk limit of 64 MB";

/// A lease, and what its holder is told.
struct Holder {
    FakeClock clock;
    FakeTimers timers{clock};
    conversation::LeaseTable book{timers, [](LeaseUse) {}};
    std::unique_ptr<Lease> lease = take();
    std::vector<Error> told;
    conversation::EndCause cause{*lease, timers, [this](const Error& why) { told.push_back(why); }};

    std::unique_ptr<Lease> take() {
        std::unique_ptr<Lease> held;
        book.add("sandbox", LeaseUse::request, [&held](auto reply) { held = std::move(*reply); });
        book.grant();
        settle();
        return held;
    }
    void end_lease() { book.end(LeaseScope::all, Error(Errc::disk_full, k_too_much)); }
    void settle() {
        while (timers.run_deferred()) {
        }
    }
};

std::unique_ptr<Lease> lease(House& house, const std::string& sandbox_id) {
    std::unique_ptr<Lease> held;
    house.conversations->lease(sandbox_id, LeaseUse::request, [&held](auto granted) {
        REQUIRE(granted.has_value());
        held = std::move(*granted);
    });
    house.settle();
    return held;
}

/// A sandbox with a conversation, or without one.
std::string make_sandbox(House& house, bool has_conversation) {
    if (has_conversation)
        return house.create()->record.sandbox_id;
    return house
        .answer<conversation::SandboxView>(
            [&](auto reply) { house.conversations->create_sandbox({}, std::move(reply)); })
        ->record.id;
}

}  // namespace

TEST_CASE("end of a generation: each cause has its error") {
    const std::pair<const char*, Errc> table[] = {{"disk_limit", Errc::disk_full},
                                                  {"oom", Errc::sandbox_gone},
                                                  {"paused", Errc::sandbox_gone},
                                                  {"sandbox_crashed", Errc::sandbox_gone},
                                                  {"conversation_ended", Errc::conversation_ended},
                                                  {"server_shutdown", Errc::shutting_down}};
    for (const auto& [code, expected] : table) {
        const Error error = conversation::end_error(code, "why");
        INFO(code);
        CHECK(error.code() == expected);
        CHECK(error.detail() == "why");
    }
}

TEST_CASE("end of a generation: it is told instead of the connection that broke, whichever is heard first") {
    Holder holder;
    const bool is_lease_first = GENERATE(true, false);
    if (is_lease_first)
        holder.end_lease();
    holder.cause.met(Error(Errc::bridge_failed, "the guest broke the stream"));
    if (!is_lease_first) {
        CHECK(holder.told.empty());
        holder.end_lease();
    }
    holder.settle();
    REQUIRE(holder.told.size() == 1);
    CHECK(holder.told[0].code() == Errc::disk_full);
    CHECK(holder.told[0].detail() == k_too_much);
    CHECK(holder.timers.idle());
}

TEST_CASE("end of a generation: it is told without work that failed") {
    Holder holder;
    holder.end_lease();
    holder.settle();
    REQUIRE(holder.told.size() == 1);
    CHECK(holder.told[0].code() == Errc::disk_full);
}

TEST_CASE("end of a generation: a connection that broke in one that goes on is told after a while") {
    Holder holder;
    holder.cause.met(Error(Errc::bridge_failed, "closed"));
    holder.timers.advance(base::k_end_cause_wait - base::Millis{1});
    CHECK(holder.told.empty());
    holder.timers.advance(base::Millis{1});
    REQUIRE(holder.told.size() == 1);
    CHECK(holder.told[0].code() == Errc::bridge_failed);
    holder.end_lease();
    holder.settle();
    CHECK(holder.told.size() == 1);
}

TEST_CASE("end of a generation: what the guest refuses is told at once") {
    Holder holder;
    holder.cause.met(Error(Errc::file_not_found, "f"));
    REQUIRE(holder.told.size() == 1);
    CHECK(holder.told[0].code() == Errc::file_not_found);
}

TEST_CASE("end of a generation: who holds a lease is told of the disk or the memory that it ended for") {
    House house({10, 0});
    const bool has_conversation = GENERATE(true, false);
    const auto [exit_class, expected] = GENERATE(table<sandbox::ExitClass, Errc>(
        {{sandbox::ExitClass::disk_limit, Errc::disk_full}, {sandbox::ExitClass::oom, Errc::sandbox_gone}}));
    const auto held = lease(house, make_sandbox(house, has_conversation));
    REQUIRE(held->is_held());
    REQUIRE(house.world.processes.size() == 1);
    house.world.process_dies(house.world.processes.begin()->second, {exit_class, 9, k_too_much});
    house.settle();
    REQUIRE_FALSE(held->is_held());
    CHECK(held->why().code() == expected);
    CHECK(held->why().detail() == k_too_much);
}

TEST_CASE(
    "end of a generation: it is known from the kill on, and a request that comes then tells the others") {
    House house({10, 0});
    const bool has_conversation = GENERATE(true, false);
    const std::string id = make_sandbox(house, has_conversation);
    const auto held = lease(house, id);
    REQUIRE(house.conversations->operations(*held) != nullptr);
    house.world.exceed_disk(id, k_too_much);
    REQUIRE(house.conversations->operations(*held) == nullptr);
    CHECK(house.conversations->end_of(*held).code() == Errc::disk_full);
    CHECK(house.conversations->end_of(*held).detail() == k_too_much);
    // A conversation's sandbox gets the next generation; without one there is none.
    std::optional<base::Result<std::unique_ptr<Lease>>> next;
    house.conversations->lease(id, LeaseUse::request, [&next](auto granted) { next = std::move(granted); });
    house.settle();
    CHECK(held->why().code() == Errc::disk_full);
    CHECK(held->why().detail() == k_too_much);
    REQUIRE(next.has_value());
    CHECK(next->has_value() == has_conversation);
    if (!has_conversation)
        CHECK(next->error().code() == Errc::disk_full);
}

TEST_CASE("end of a generation: of a sandbox without a conversation it is told ever after") {
    House house({10, 0});
    const std::string id = make_sandbox(house, false);
    house.world.process_dies(house.world.processes.begin()->second,
                             {sandbox::ExitClass::disk_limit, 9, k_too_much});
    house.settle();
    REQUIRE(house.sandboxes->status(id) == sandbox::Status::terminated);
    std::vector<Error> told;
    const auto refused = [&told](const auto& answer) { told.push_back(answer.error()); };
    for (int i = 0; i < 2; ++i) {
        house.conversations->lease(id, LeaseUse::request, refused);
        house.conversations->watch_files(id, refused);
        house.settle();
    }
    REQUIRE(told.size() == 4);
    for (const Error& why : told) {
        CHECK(why.code() == Errc::disk_full);
        CHECK(why.detail() == k_too_much);
    }
    const auto view = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->get_sandbox(id, std::move(reply)); });
    CHECK(view->reason == conversation::PauseReason::disk);
}

TEST_CASE("end of a generation: a request that comes before its cause is known leaves it to be told") {
    House house({10, 0});
    const std::string id = make_sandbox(house, true);
    const auto held = lease(house, id);
    const auto process = house.world.processes.begin()->second;
    std::exchange(process->on_lost, nullptr)("lost its control stream");
    std::optional<base::Result<std::unique_ptr<Lease>>> next;
    house.conversations->lease(id, LeaseUse::request, [&next](auto granted) { next = std::move(granted); });
    house.settle();
    CHECK(held->is_held());
    CHECK_FALSE(next.has_value());
    house.world.process_dies(process, {sandbox::ExitClass::oom, 9, k_too_much});
    house.settle();
    REQUIRE_FALSE(held->is_held());
    CHECK(held->why().detail() == k_too_much);
    REQUIRE(next.has_value());
    CHECK(next->has_value());
}

TEST_CASE("end of a generation: a sandbox whose time is over says so") {
    House house({10, 0});
    conversation::SandboxRequest request;
    request.ttl_seconds = 5;
    const auto made = house.answer<conversation::SandboxView>(
        [&](auto reply) { house.conversations->create_sandbox(request, std::move(reply)); });
    const auto held = lease(house, made->record.id);
    while (held->is_held() && house.world.timers.fire_next())
        house.settle();
    REQUIRE_FALSE(held->is_held());
    CHECK(held->why().code() == Errc::sandbox_gone);
    CHECK(held->why().detail() == "the sandbox's time to live is over");
}

TEST_CASE("end of a turn: an interrupt while its agent starts is told as one of a running agent") {
    House house({10, 0});
    const std::string id = house.create().value().record.id;
    const auto reader = subscribe(*house.conversations, id, 0).value();
    REQUIRE(house.pause(id).has_value());
    house.conversations->message(id, {"x", "", ""}, conversation::MessageReply::at_once, [](const auto&) {});
    house.conversations->interrupt(id, [](const auto& view) { CHECK(view.has_value()); });
    house.settle();
    std::string types;
    for (const auto& event : reader->next(1'000'000).value().events)
        if (event->turn != 0)
            types.append(to_string(event->type)).append(" ");
    CHECK(types == "turn_start turn_complete done ");
}

}  // namespace end_cause_test
