#include "core/sandbox/sandbox_logs.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/support/fake_world.hpp"

namespace sandbox_logs_test {

using namespace atl;
using sandbox::LogStream;
using sandbox::SandboxLogs;

namespace {

struct Bench {
    test::FakeClock clock;
    SandboxLogs book{clock, {1000, 6000, 100}};

    std::vector<std::string> texts(const std::string& id = "a", std::uint64_t after = 0,
                                   std::optional<LogStream> only = std::nullopt) const {
        std::vector<std::string> all;
        const auto page = book.read(id, after, only);
        REQUIRE(page);
        for (const auto& entry : page->entries)
            all.push_back(entry.text);
        return all;
    }
};

using Texts = std::vector<std::string>;

const auto k_user = base::ShareHolder::user("ann");

}  // namespace

TEST_CASE("What a sandbox writes becomes lines, however it comes") {
    Bench bench;
    bench.book.write("a", 1, "on");
    CHECK(bench.texts().empty());
    bench.book.write("a", 1, "e\n\ntwo\nthr");
    CHECK(bench.texts() == Texts{"one", "", "two"});
    bench.book.retire("a", 1, k_user);
    CHECK(bench.texts() == Texts{"one", "", "two", "thr"});
}

TEST_CASE("What was written before a note is told before it") {
    Bench bench;
    bench.book.write("a", 1, "half");
    bench.book.note("a", 1, "ended");
    CHECK(bench.texts() == Texts{"half", "ended"});
}

TEST_CASE("A line that is too long is told in parts") {
    Bench bench;
    bench.book.write("a", 1, std::string(250, 'x') + "\n" + std::string(100, 'y') + "\nz\n");
    CHECK(bench.texts() == Texts{std::string(100, 'x'), std::string(100, 'x'), std::string(50, 'x'),
                                 std::string(100, 'y'), "z"});
}

TEST_CASE("Entries are numbered, dated and told from where a reader left off") {
    Bench bench;
    bench.book.note("a", 1, "ready");
    bench.clock.advance(base::Millis{5});
    bench.book.write("a", 1, "hello\n");
    bench.book.note("a", 2, "ready again");
    const auto page = bench.book.read("a", 1);
    REQUIRE(page->entries.size() == 2);
    CHECK(page->entries[0].seq == 2);
    CHECK(page->entries[0].stream == LogStream::output);
    CHECK(page->entries[0].at - bench.book.read("a", 0)->entries[0].at == base::Millis{5});
    CHECK(page->entries[1].generation == 2);
    CHECK(page->next == 3);
    CHECK(bench.texts("a", 0, LogStream::system) == Texts{"ready", "ready again"});
    CHECK(bench.book.read("a", 3)->entries.empty());
    CHECK_FALSE(bench.book.read("b", 0).has_value());
}

TEST_CASE("A log is bounded: its oldest entries go, their numbers are not given again") {
    Bench bench;
    for (int i = 1; i <= 100; ++i)
        bench.book.write("a", 1, std::to_string(i) + "\n");
    const auto page = bench.book.read("a", 0);
    CHECK(page->entries.size() == 15);  // of 64 bytes and a few
    CHECK(page->entries.back().seq == 100);
    CHECK(page->entries.back().text == "100");
    CHECK(page->first_seq == page->entries.front().seq);
}

TEST_CASE(
    "A flood of line ends keeps its newest lines, and their numbers are those that they have by themselves") {
    Bench slow;
    Bench fast;
    std::string flood;
    for (int i = 1; i <= 500; ++i) {
        const std::string line = i % 2 == 0 ? "" : std::to_string(i);
        slow.book.write("a", 1, line + "\n");
        flood += line + "\n";
    }
    fast.book.write("a", 1, flood);
    CHECK(fast.texts() == slow.texts());
    CHECK(fast.book.read("a", 0)->next == 500);
    CHECK(fast.book.read("a", 0)->first_seq == slow.book.read("a", 0)->first_seq);
}

TEST_CASE("Logs of sandboxes without processes share one bound, and the longest unused goes first") {
    Bench bench;
    const std::string line = std::string(90, 'x') + "\n";
    for (const char* id : {"a", "b", "c"}) {
        bench.book.write(id, 1, line);
        bench.book.retire(id, 1, k_user);
    }
    // Used again: it does not go, and its log goes on.
    bench.book.note("a", 2, "ready");
    for (const char* id : {"d", "e", "f", "g"}) {
        bench.book.write(id, 1, line);
        bench.book.retire(id, 1, k_user);
    }
    CHECK(bench.book.retired_bytes() <= 6000);
    CHECK_FALSE(bench.book.read("b", 0).has_value());
    CHECK(bench.book.read("a", 0)->entries.size() == 2);
    CHECK(bench.book.read("g", 0).has_value());
    bench.book.retire("a", 2, k_user);
    CHECK(bench.book.read("a", 0)->entries.size() == 2);
    CHECK(bench.book.retired_bytes() <= 6000);
}

TEST_CASE("Beyond the bound of logs without processes the user with most of them loses the longest unused") {
    Bench bench;
    const auto retire = [&bench](const std::string& id, const base::ShareHolder& user) {
        bench.book.write(id, 1, std::string(90, 'x') + "\n");
        bench.book.retire(id, 1, user);
    };
    retire("neighbour", base::ShareHolder::user("bob"));
    for (int i = 0; i < 20; ++i)
        retire("a" + std::to_string(i), k_user);
    CHECK(bench.book.retired_bytes() <= 6000);
    CHECK(bench.texts("neighbour") == Texts{std::string(90, 'x')});
    CHECK_FALSE(bench.book.read("a0", 0).has_value());
    CHECK(bench.texts("a19") == Texts{std::string(90, 'x')});
}

TEST_CASE("The logs that a user left are dropped together, and one that is still written cannot be read") {
    Bench bench;
    for (const char* id : {"a", "b", "c", "d"}) {
        bench.book.write(id, 1, "x\n");
        if (*id != 'c')
            bench.book.retire(id, 1, k_user);
    }
    bench.book.leave("a", "eve");
    bench.book.leave("b", "evelyn");
    bench.book.leave("c", "eve");
    bench.book.leave("nobody's", "eve");
    const std::size_t before = bench.book.retired_bytes();
    bench.book.drop_of("eve");
    CHECK_FALSE(bench.book.read("a", 0).has_value());
    CHECK(bench.book.retired_bytes() == before / 3 * 2);
    CHECK(bench.book.read("b", 0).has_value());
    CHECK(bench.book.read("d", 0).has_value());
    CHECK_FALSE(bench.book.read("c", 0).has_value());
    bench.book.write("c", 1, "y\n");
    bench.book.note("c", 1, "ended");
    CHECK_FALSE(bench.book.read("c", 0).has_value());
    bench.book.retire("c", 1, k_user);
    CHECK(bench.book.retired_bytes() == before / 3 * 2);
    // A log that was dropped before is no longer listed for its user.
    bench.book.drop("b");
    bench.book.drop_of("evelyn");
    CHECK(bench.book.read("d", 0).has_value());
}

}  // namespace sandbox_logs_test
