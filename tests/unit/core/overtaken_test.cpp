// Requests that another request overtakes: told as what they are, no failure of the sandbox.
#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "core/base/log.hpp"
#include "house.hpp"
#include "tests/support/result_printer.hpp"

namespace overtaken_test {

using namespace atl;
using namespace atl::test;
using conversation::View;

namespace {

/// A resume of a paused conversation that is not answered before `overtake` is asked for.
base::Result<View> resume_overtaken_by(House& house,
                                       const std::function<void(const std::string&)>& overtake) {
    const std::string id = house.create().value().record.id;
    REQUIRE(house.answer([&](auto reply) {
        house.conversations->pause(id, conversation::PauseMode::cold, std::move(reply));
    }));
    std::optional<base::Result<View>> resumed;
    house.conversations->resume(id, [&](base::Result<View> view) { resumed = std::move(view); });
    REQUIRE_FALSE(resumed.has_value());
    overtake(id);
    house.settle();
    while (!resumed && house.world.timers.fire_next())
        house.settle();
    REQUIRE(resumed.has_value());
    return *resumed;
}

}  // namespace

TEST_CASE("A resume that a pause overtakes says that the pause won") {
    House house({});
    const auto resumed = resume_overtaken_by(house, [&](const std::string& id) {
        house.conversations->pause(id, conversation::PauseMode::cold, [](const auto&) {});
    });
    REQUIRE(resumed.has_error());
    CHECK(resumed.error().code() == base::Errc::conversation_paused);
    CHECK(resumed.error().detail().find("paused") != std::string::npos);
}

TEST_CASE("A resume that a deletion overtakes says that the conversation has ended") {
    House house({});
    const auto resumed = resume_overtaken_by(
        house, [&](const std::string& id) { house.conversations->remove(id, [](const auto&) {}); });
    REQUIRE(resumed.has_error());
    CHECK(resumed.error().code() == base::Errc::conversation_ended);
}

TEST_CASE("On a full disk a resume that a pause overtakes still says so, and is not told as done") {
    House house({});
    const auto resumed = resume_overtaken_by(house, [&](const std::string& id) {
        spdlog::set_level(spdlog::level::off);
        house.world.store.fails = [] { return true; };
        house.conversations->pause(id, conversation::PauseMode::cold, [](const auto&) {});
    });
    spdlog::set_level(spdlog::level::info);
    REQUIRE(resumed.has_error());
    CHECK(resumed.error().code() == base::Errc::conversation_paused);
}

}  // namespace overtaken_test
