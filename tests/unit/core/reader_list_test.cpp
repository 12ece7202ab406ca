#include "core/base/reader_list.hpp"

#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <functional>
#include <list>
#include <optional>

namespace reader_list_test {

using namespace atl;

namespace {

/// Runs what is deferred one by one, when the test says.
struct Deferred final : base::Timers {
    base::TimerId arm(base::Millis, std::function<void()>) override { return 0; }
    void cancel(base::TimerId) override {}
    void defer(std::function<void()> run) override { waiting.push_back(std::move(run)); }
    bool run_one() {
        if (waiting.empty())
            return false;
        const auto run = std::move(waiting.front());
        waiting.pop_front();
        run();
        return true;
    }
    std::deque<std::function<void()>> waiting;
};

struct Reader {
    int wakes = 0;
    void wake() { ++wakes; }
};

struct House {
    explicit House(std::size_t count) : readers(count) {
        for (Reader& reader : readers)
            list->add(reader);
    }
    int woken() const {
        int count = 0;
        for (const Reader& reader : readers)
            count += reader.wakes;
        return count;
    }
    Deferred timers;
    std::list<Reader> readers;
    std::optional<base::ReaderList<Reader>> list{std::in_place, timers};
};

}  // namespace

TEST_CASE("Few readers are woken at once") {
    House house(base::k_wakes_a_pass);
    house.list->wake_all();
    CHECK(house.woken() == static_cast<int>(base::k_wakes_a_pass));
    CHECK(house.timers.waiting.empty());
}

TEST_CASE("A pass over many readers lets in what others have put off") {
    constexpr int k_pass = base::k_wakes_a_pass;
    House house(160 * base::k_wakes_a_pass);
    house.list->wake_all();
    CHECK(house.woken() == k_pass);
    // The news of a guest meanwhile waits for two passes at most.
    int woken_before_guest = 0;
    house.timers.defer([&] { woken_before_guest = house.woken(); });
    while (woken_before_guest == 0)
        REQUIRE(house.timers.run_one());
    CHECK(woken_before_guest <= 2 * k_pass);
    while (house.timers.run_one()) {
    }
    for (const Reader& reader : house.readers)
        CHECK(reader.wakes == 1);
}

TEST_CASE("More that comes during a pass is told to all behind it, and nobody is passed over") {
    House house(3 * base::k_wakes_a_pass);
    house.list->wake_all();
    for (int i = 0; i < 5; ++i)
        house.list->wake_all();
    while (house.timers.run_one()) {
    }
    for (const Reader& reader : house.readers)
        CHECK(reader.wakes == 2);
}

TEST_CASE("Readers come and go during a pass, and so does the list") {
    House house(4 * base::k_wakes_a_pass);
    house.list->wake_all();
    // The last ones are woken, the first ones are not yet.
    for (int i = 0; i < 10; ++i) {
        house.list->remove(house.readers.front());
        house.readers.pop_front();
        house.list->remove(house.readers.back());
        house.readers.pop_back();
    }
    house.list->add(house.readers.emplace_back());
    while (house.timers.run_one()) {
    }
    int missed = 0;
    for (const Reader& reader : house.readers)
        missed += reader.wakes == 1 ? 0 : 1;
    CHECK(missed == 1);  // the one that came later
    house.list->wake_all();
    house.list.reset();
    while (house.timers.run_one()) {
    }
    CHECK(house.timers.waiting.empty());
}

}  // namespace reader_list_test
