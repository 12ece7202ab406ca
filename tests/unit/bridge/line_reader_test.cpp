#include "bridge/line_reader.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

namespace atl::test::line_reader_test {

using bridge::LineCutter;

TEST_CASE("lines are the same however their bytes come") {
    const std::string text = "one\n\ntwo and\nrest";
    const std::vector<std::string> expected = {"one", "", "two and"};
    for (std::size_t piece = 1; piece <= text.size(); ++piece) {
        LineCutter cutter(16);
        std::vector<std::string> lines;
        std::string pending;
        for (std::size_t at = 0; at < text.size(); at += piece) {
            pending += text.substr(at, piece);
            for (;;) {
                const auto cut = cutter.next(pending);
                if (cut.found != LineCutter::Found::line)
                    break;
                lines.emplace_back(cut.line);
                pending.erase(0, cut.line.size() + 1);
            }
        }
        CHECK(lines == expected);
        CHECK(pending == "rest");
    }
}

TEST_CASE("a line beyond its bound is refused before it is complete") {
    LineCutter cutter(4);
    CHECK(cutter.next("1234").found == LineCutter::Found::part);
    CHECK(cutter.next("1234\n").line == "1234");
    CHECK(cutter.next("12345").found == LineCutter::Found::too_long);
    CHECK(LineCutter(4).next("12345\n").found == LineCutter::Found::too_long);
}

}  // namespace atl::test::line_reader_test
