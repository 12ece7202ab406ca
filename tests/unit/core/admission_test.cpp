#include "core/conversation/admission.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <vector>

#include "core/base/limits.hpp"

namespace admission_test {

using namespace atl;
using conversation::Admission;

namespace {

/// A server with a number of places and sandboxes that can be evicted: "a" is anybody's, "ann/a" is ann's.
struct House : conversation::Victims {
    explicit House(int places = 0, std::vector<std::string> victims = {})
        : free(places), spared(std::move(victims)) {}

    Outlook look(const sandbox::Demand&, const base::ShareHolder* of) const override {
        const auto found = std::ranges::count_if(spared, [&](const auto& one) { return is_of(one, of); });
        return {found >= (of == nullptr ? 1 : needed), std::chrono::seconds{7}};
    }
    std::optional<std::string> evict(const base::ShareHolder* of) override {
        const auto found =
            std::ranges::find_if(spared, [&](const std::string& one) { return is_of(one, of); });
        if (found == spared.end())
            return std::nullopt;
        evicted.push_back(*found);
        spared.erase(found);
        return evicted.back();
    }
    static bool is_of(const std::string& one, const base::ShareHolder* of) {
        return of == nullptr || one.starts_with(of->name().substr(5) + "/");
    }

    int free;
    std::vector<std::string> spared;
    std::vector<std::string> evicted;
    std::vector<std::string> started;
    std::vector<std::string> refused;
    std::vector<std::string> ahead;  // only started ahead
    std::set<std::string> over{};    // users who have their share
    int needed = 1;                  // ends that bring one of them within it
    std::size_t worth = base::k_max_evictions_per_start;
    Admission admission{
        {[this](const sandbox::Demand& demand) {
             if (demand.holder && over.contains(demand.holder->name().substr(5)))
                 return base::Result<void>(base::Error(base::Errc::user_share, "yours"));
             return free > 0 ? base::Result<void>() : base::Error(base::Errc::capacity, "full");
         },
         [this]() -> std::optional<std::string> {
             if (ahead.empty())
                 return std::nullopt;
             const std::string id = ahead.back();
             ahead.pop_back();
             return id;
         },
         [this] { return !ahead.empty(); }, [this](const sandbox::Limits&) { return worth; }, *this}};

    void ask(const std::string& id, const std::string& user = "") {
        sandbox::Demand demand;
        if (!user.empty())
            demand.holder = base::ShareHolder::user(user);
        admission.admit(id, demand, [this, id](const base::Result<void>& admitted) {
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
    House house(1, {"a"});
    CHECK(house.admission.check_capacity({}).has_value());
    house.ask("x");
    CHECK(house.started == Names{"x"});
    CHECK(house.evicted.empty());
}

TEST_CASE("admission: without room the start waits for the end of one that is spared") {
    House house(0, {"a", "b"});
    CHECK(house.admission.check_capacity({}).has_value());
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
    House house(0, {"a", "b", "c"});
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
    House house;
    CHECK(house.admission.check_capacity({}).error().retry_after() == std::chrono::seconds{7});
    house.ask("x");
    CHECK(house.refused == Names{"x"});
}

TEST_CASE("admission: what would not wait is refused behind a start that waits, by the budget of places") {
    House house(0, {"a"});
    house.ask("x");
    const auto refused = house.admission.has_capacity({});
    CHECK(refused.error().code() == base::Errc::capacity);
    CHECK(refused.error().members() == base::Error::Members{{"budget", "\"places\""}});
}

TEST_CASE("admission: a start that was cancelled is not answered, and its place goes to the next") {
    House house(0, {"a", "b"});
    house.ask("x");
    house.ask("y");
    CHECK(house.admission.cancel("x"));
    CHECK_FALSE(house.admission.cancel("x"));
    house.ends("a");
    CHECK(house.started == Names{"y"});
    CHECK(house.refused.empty());
}

TEST_CASE("admission: one start ends only so many others for a place that does not come free") {
    House house;
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
    CHECK_FALSE(house.admission.check_capacity({}).has_value());
    house.ask("huge");
    CHECK(house.refused == std::vector<std::string>{"huge"});
    CHECK(house.spared.size() == 1);
    CHECK(house.ahead.size() == 1);
}

TEST_CASE("admission: beyond the share of a user the start waits for a sandbox of the same user") {
    House house(5, {"bob/1", "ann/1", "ann/2"});
    house.ahead = {"pool"};
    house.over = {"ann"};
    CHECK(house.admission.check_capacity({{}, base::ShareHolder::user("ann")}).has_value());
    house.ask("x", "ann");
    CHECK(house.started.empty());
    CHECK(house.evicted == Names{"ann/1"});
    CHECK(house.ahead.size() == 1);
    // Nobody waits behind it.
    CHECK(house.admission.has_capacity({{}, base::ShareHolder::user("bob")}).has_value());
    house.ask("y", "bob");
    CHECK(house.started == Names{"y"});
    house.over.clear();
    house.ends("ann/1");
    CHECK(house.started == Names{"y", "x"});
    CHECK(house.evicted == Names{"ann/1"});
}

TEST_CASE("admission: beyond the share of a user whose sandboxes are all in use the start is refused") {
    House house(5, {"bob/1"});
    house.over = {"ann"};
    const auto refused = house.admission.check_capacity({{}, base::ShareHolder::user("ann")});
    CHECK(refused.error().code() == base::Errc::user_share);
    house.ask("x", "ann");
    CHECK(house.refused == Names{"x"});
    CHECK(house.evicted.empty());
}

TEST_CASE("admission: no sandbox of a user is ended where too few can be for its next start") {
    House house(5, {"ann/1", "ann/2", "ann/3"});
    house.over = {"ann"};
    house.needed = 4;
    CHECK(house.admission.check_capacity({{}, base::ShareHolder::user("ann")}).has_error());
    house.ask("x", "ann");
    CHECK(house.refused == Names{"x"});
    CHECK(house.evicted.empty());
    // Another user takes a place while one ends: the two that are left are too few.
    house.needed = 1;
    house.ask("y", "ann");
    house.ask("z", "bob");
    house.needed = 3;
    house.ends("ann/1");
    CHECK(house.started == Names{"z"});
    CHECK(house.refused == Names{"x", "y"});
    CHECK(house.evicted == Names{"ann/1"});
    // Where they are enough, they end one after another.
    house.needed = 2;
    house.ask("w", "ann");
    house.needed = 1;
    house.ends("ann/2");
    CHECK(house.evicted == Names{"ann/1", "ann/2", "ann/3"});
    house.over.clear();
    house.ends("ann/3");
    CHECK(house.started == Names{"z", "w"});
}

TEST_CASE("admission: starts of a user beyond the share each end one sandbox, and give up after so many") {
    House house(5, {"ann/1", "ann/2"});
    house.over = {"ann"};
    house.ask("x", "ann");
    house.ask("y", "ann");
    CHECK(house.evicted == Names{"ann/1", "ann/2"});
    house.ends("ann/1");
    house.ends("ann/2");
    CHECK(house.refused == Names{"x", "y"});
    CHECK(house.admission.is_idle());
}

}  // namespace admission_test
