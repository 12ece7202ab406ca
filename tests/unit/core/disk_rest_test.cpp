// A workspace that has to rest before its sandbox starts again, or whose user has too many files for that.
#include <catch2/catch_test_macros.hpp>

#include "tests/support/result_printer.hpp"
#include "tests/unit/core/house.hpp"

namespace disk_rest_test {

using namespace atl;
using test::House;

TEST_CASE(
    "disk rest: a start is refused with the reason as long as the workspace rests, and nothing is lost") {
    House house({});
    const auto view = house.create().value();
    const std::string& id = view.record.id;
    const auto resume = [&] {
        return house.answer([&](auto reply) { house.conversations->resume(id, std::move(reply)); });
    };
    REQUIRE(house.answer([&](auto reply) {
        house.conversations->pause(id, conversation::PauseMode::cold, std::move(reply));
    }));
    house.world.start_allowed = base::Error(base::Errc::sandbox_failed, "it can start again in 60 s");
    const auto refused = resume();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().detail().find("it can start again in 60 s") != std::string::npos);
    CHECK(house.world.processes.empty());
    CHECK(house.world.workspaces.size() == 1);
    // The status is that after any failed start: the next message or resume tries again.
    CHECK(test::get(*house.conversations, id)->record.status == conversation::Status::error);
    house.world.start_allowed = {};
    CHECK(resume());
    CHECK(house.world.processes.size() == 1);
}

TEST_CASE("disk rest: a user with too many files starts nothing that rests, and goes on with what runs") {
    House house({});
    const std::string id = house.create()->record.id;
    house.world.writing_allowed = base::Error(base::Errc::user_share, "delete conversations or files");
    // The control: it runs, where files can be deleted.
    CHECK(house.resume(id).has_value());
    REQUIRE(house.pause(id).has_value());
    const auto refused = house.resume(id);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == base::Errc::user_share);
    CHECK(house.world.processes.empty());
    // Nothing was tried, so nothing has failed.
    CHECK(test::get(*house.conversations, id)->record.status == conversation::Status::paused);
    house.world.writing_allowed = {};
    CHECK(house.resume(id).has_value());
}

}  // namespace disk_rest_test
