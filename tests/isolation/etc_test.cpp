// The part of the host's /etc that a sandbox sees, over all links from /usr.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"

namespace etc_test {

using namespace atl::test;

namespace {

// Links of /usr into /etc, relative ones too, with whether they can be followed and read.
constexpr const char* k_every_link =
    R"(find /usr -type l -printf '%p\t%l\n' 2>/dev/null | awk -F '\t' '$2 ~ /^\/etc\// || $2 ~ /\.\.\/etc\//' |
    grep -v /etc/alternatives/ | cut -f 1 | while IFS= read -r link; do
        if [ -r "$link" ]; then echo "yes $link"; else echo "no $link"; fi
    done | sort)";

// Matters of the host: SECURITY.md.
constexpr const char* k_withheld[] = {"/etc/environment", "/etc/ssl/private"};

std::set<std::string> with(const std::string& answer, const std::set<std::string>& lines) {
    std::set<std::string> found;
    for (const std::string& line : lines) {
        if (line.starts_with(answer + " "))
            found.insert(line.substr(answer.size() + 1));
    }
    return found;
}

}  // namespace

TEST_CASE("A link from /usr into /etc that everyone can read outside can be read in a sandbox") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    const auto outside = lines_of(run_outside({"bash", "-c", k_every_link}, ordinary_uid()).output);
    const auto inside = lines_of(sandbox.output(k_every_link));
    const auto readable = with("yes", outside);
    REQUIRE_FALSE(readable.empty());
    const auto read = with("yes", inside);
    for (const std::string& link : readable) {
        INFO(link);
        const std::string target = run_outside({"readlink", "-f", link}, ordinary_uid()).output;
        const bool is_withheld =
            std::ranges::any_of(k_withheld, [&](const char* path) { return target.starts_with(path); });
        CHECK(read.contains(link) != is_withheld);
    }
}

TEST_CASE("Programs inside know the services, types and fonts of the host, and none of its secrets") {
    Lab& lab = each_lab();
    INFO(lab.name);
    Sandbox sandbox(lab);
    for (const std::string name : {"services", "protocols", "os-release", "mime.types", "fonts/fonts.conf",
                                   "xml/catalog", "matplotlibrc"}) {
        INFO(name);
        if (run_outside({"test", "-r", "/etc/" + name}, ordinary_uid()).status == 0)
            CHECK(sandbox.output("cmp /etc/" + name + " <(cat /etc/" + name + ") && wc -c < /etc/" + name) ==
                  std::to_string(read_host_file("/etc/" + name).size()));
    }
    CHECK(sandbox
              .output("ls -d /etc/shadow /etc/gshadow /etc/ssh /etc/sudoers /etc/sudoers.d /etc/ssl/private "
                      "/etc/environment 2>/dev/null; true")
              .empty());
    // Nothing can be written, as everywhere outside the workspace.
    CHECK(sandbox.output("touch /etc/services 2>&1 || true").find("Read-only") != std::string::npos);
}

TEST_CASE("An operator shows more of /etc") {
    if (!is_root())
        SKIP("needs root for a file in /etc");
    Lab lab(Privilege::as_started, {"--show-etc", "/etc/pam.conf", "--show-etc", "/etc/skel"});
    if (read_host_file("/etc/pam.conf").empty())
        SKIP("this host has no such files");
    Sandbox sandbox(lab);
    CHECK(sandbox.output("wc -c < /etc/pam.conf") == std::to_string(read_host_file("/etc/pam.conf").size()));
    Sandbox plain(each_lab());
    CHECK(plain.output("ls -d /etc/pam.conf /etc/skel 2>/dev/null; true").empty());
}

}  // namespace etc_test
