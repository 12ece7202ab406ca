#include "core/isolation/etc_template.hpp"

#include <catch2/catch_test_macros.hpp>

#include "fixture.hpp"

namespace etc_template_test {

using namespace atl;

TEST_CASE("the generated /etc knows the sandbox's user and nothing of the host's") {
    const test::TempFolder folder;
    REQUIRE(isolation::write_etc(folder / "etc", {}).has_value());
    const std::string passwd = test::read_text(folder / "etc/passwd");
    CHECK(passwd.find("user:x:1000:1000:user:/workspace:/bin/bash\n") != std::string::npos);
    CHECK(std::count(passwd.begin(), passwd.end(), '\n') == 3);
    CHECK(test::read_text(folder / "etc/hosts").find("127.0.1.1 sandbox\n") != std::string::npos);
    CHECK(test::read_text(folder / "etc/resolv.conf").empty());
}

TEST_CASE("the generated /etc has a mount point for everything it shows of the host") {
    const test::TempFolder folder;
    isolation::HostLayout layout;
    layout.etc_folders = {"/etc/ssl/certs"};
    layout.etc_files = {"/etc/ssl/openssl.cnf"};
    REQUIRE(isolation::write_etc(folder / "etc", layout).has_value());
    CHECK(std::filesystem::is_directory(folder / "etc/ssl/certs"));
    CHECK(std::filesystem::is_regular_file(folder / "etc/ssl/openssl.cnf"));
}

TEST_CASE("the generated /etc can be read by every uid and written again") {
    const test::TempFolder folder;
    const mode_t before = ::umask(077);
    const bool first = isolation::write_etc(folder / "etc", {}).has_value();
    const bool second = isolation::write_etc(folder / "etc", {}).has_value();
    ::umask(before);
    CHECK(first);
    CHECK(second);
    namespace fs = std::filesystem;
    CHECK((fs::status(folder / "etc").permissions() & fs::perms::others_exec) != fs::perms::none);
    CHECK((fs::status(folder / "etc/passwd").permissions() & fs::perms::others_read) != fs::perms::none);
}

TEST_CASE("a place that cannot be written is an error with its name") {
    const auto result = isolation::write_etc("/proc/atoll-etc", {});
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().code() == base::Errc::storage_failed);
    CHECK(result.error().detail().find("/proc/atoll-etc") != std::string::npos);
}

}  // namespace etc_template_test
