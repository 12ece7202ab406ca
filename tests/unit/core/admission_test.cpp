#include "core/conversation/admission.hpp"

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "core/base/limits.hpp"

namespace admission_test {

using namespace atl;
using conversation::Admission;

namespace {

/// A server with a number of places and sandboxes that can be spared.
struct House {
    int free = 0;
    std::vector<std::string> spared;
    std::vector<std::string> evicted;
    std::vector<std::string> started;
    std::vector<std::string> refused;
    std::vector<std::string> ahead;  // only started ahead
    std::size_t worth = base::k_max_evictions_per_start;
    Admission admission{{[this](const sandbox::Limits&) {
                             return free > 0 ? base::Result<void>()
                                             : base::Error(base::Errc::capacity, "full");
                         },
                         [this]() -> std::optional<std::string> {
                             if (ahead.empty())
                                 return std::nullopt;
                             const std::string id = ahead.back();
                             ahead.pop_back();
                             return id;
                         },
                         [this](const sandbox::Limits&) { return worth; },
                         [this]() -> std::optional<std::string> {
                             if (spared.empty())
                                 return std::nullopt;
                             evicted.push_back(spared.front());
                             spared.erase(spared.begin());
                             return evicted.back();
                         },
                         [this] { return !spared.empty() || !ahead.empty(); },
                         [](const base::Error& why) {
                             return base::Error(why.code(), why.detail(), std::chrono::seconds{7});
                         }}};

    void ask(const std::string& id) {
        admission.admit(id, {}, [this, id](const base::Result<void>& admitted) {
            (admitted ? started : refused).push_back(id);
            if (admitted)
                --free;
            else
                CHECK(admitted.error().retry_after() == std::chrono::seconds{7});
        });
    }
    void ends(const std::string& sandbox) {
        ++free;
        admission.ended(sandbox);
    }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("admission: who finds room starts at once, and nobody is evicted for it") {
    House house{.free = 1, .spared = {"a"}};
    CHECK(house.admission.has_place({}).has_value());
    house.ask("x");
    CHECK(house.started == Names{"x"});
    CHECK(house.evicted.empty());
}

TEST_CASE("admission: without room the start waits for the end of one that is spared") {
    House house{.free = 0, .spared = {"a", "b"}};
    CHECK(house.admission.has_place({}).has_value());
    house.ask("x");
    CHECK(house.started.empty());
    CHECK(house.admission.waits("x"));
    CHECK(house.evicted == Names{"a"});
    house.ends("a");
    CHECK(house.started == Names{"x"});
    CHECK_FALSE(house.admission.waits("x"));
    CHECK(house.evicted == Names{"a"});
}

TEST_CASE("admission: those that wait go in their order, each in the place of another") {
    House house{.free = 0, .spared = {"a", "b", "c"}};
    for (const char* id : {"x", "y", "z"})
        house.ask(id);
    CHECK(house.evicted.size() == 3);
    house.ends("b");
    CHECK(house.started == Names{"x"});
    house.ends("a");
    house.ends("c");
    CHECK(house.started == Names{"x", "y", "z"});
}

TEST_CASE("admission: where nobody can be spared the start is refused, with a time to come back") {
    House house{};
    CHECK(house.admission.has_place({}).error().retry_after() == std::chrono::seconds{7});
    house.ask("x");
    CHECK(house.refused == Names{"x"});
}

TEST_CASE("admission: a start that was cancelled is not answered, and its place goes to the next") {
    House house{.free = 0, .spared = {"a", "b"}};
    house.ask("x");
    house.ask("y");
    CHECK(house.admission.cancel("x"));
    CHECK_FALSE(house.admission.cancel("x"));
    house.ends("a");
    CHECK(house.started == Names{"y"});
    CHECK(house.refused.empty());
}

TEST_CASE("admission: one start ends only so many others for a place that does not come free") {
    House house{};
    for (int i = 0; i < 100; ++i)
        house.spared.push_back("s" + std::to_string(i));
    house.ask("x");
    // Each end leaves the host as short as before.
    for (std::size_t i = 0; i < house.evicted.size(); ++i)
        house.admission.ended(house.evicted[i]);
    CHECK(house.evicted.size() == base::k_max_evictions_per_start);
    CHECK(house.refused == Names{"x"});
}

TEST_CASE("admission: what was only started ahead goes first, and counts for no eviction") {
    House house;
    house.spared = {"idle"};
    house.ahead = {"a", "b"};
    house.ask("one");
    CHECK(house.ahead.size() == 1);
    CHECK(house.evicted.empty());
    house.ends("b");
    CHECK(house.started == std::vector<std::string>{"one"});
    house.ask("two");
    house.ask("three");
    CHECK(house.ahead.empty());
    CHECK(house.evicted == std::vector<std::string>{"idle"});
}

TEST_CASE("admission: nothing is ended for a start that this would not help") {
    House house;
    house.spared = {"idle"};
    house.ahead = {"a"};
    house.worth = 0;
    CHECK_FALSE(house.admission.has_place({}).has_value());
    house.ask("huge");
    CHECK(house.refused == std::vector<std::string>{"huge"});
    CHECK(house.spared.size() == 1);
    CHECK(house.ahead.size() == 1);
}

}  // namespace admission_test
