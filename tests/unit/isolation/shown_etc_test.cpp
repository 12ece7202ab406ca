#include "core/isolation/shown_etc.hpp"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/limits.hpp"
#include "core/isolation/etc_template.hpp"
#include "fixture.hpp"

namespace shown_etc_test {

using namespace atl;
namespace fs = std::filesystem;
using isolation::EtcCopy;

namespace {

void link(const fs::path& target, const fs::path& path) {
    fs::create_directories(path.parent_path());
    fs::create_symlink(target, path);
}

/// A host in a folder: packages with their configuration, and secrets beside it.
struct Host {
    test::TempFolder root;

    Host() {
        test::write_text(root / "etc/java-17/security/java.security", "securerandom");
        link("/etc/java-17/security/java.security", root / "usr/lib/jvm/java-17/conf/security/java.security");
        test::write_text(root / "etc/groff/man.local", "groff");
        test::write_text(root / "etc/groff/secret.key", "key");
        test::write_text(root / "etc/groff/unreadable", "x", 0600);
        test::write_text(root / "etc/groff/pasted", "-----BEGIN RSA PRIVATE KEY-----\n");
        link("../../../etc/groff", root / "usr/share/groff/site-tmac");
        test::write_text(root / "etc/ssl/private/host.pem", "x");
        link("/etc/ssl/private", root / "usr/lib/ssl/private");
        test::write_text(root / "etc/environment", "TOKEN=secret");
        link("/etc/environment", root / "usr/lib/environment.d/99-environment.conf");
        test::write_text(root / "etc/shadow", "root:x");
        link("/etc/shadow", root / "usr/share/odd/shadow");
        test::write_text(root / "etc/services", "http 80/tcp\n");
        test::write_text(root / "etc/matplotlibrc", "backend: agg\n");
        test::write_text(root / "etc/xml/catalog", "<catalog/>\n");
        link("../usr/lib/os-release", root / "etc/os-release");
        test::write_text(root / "etc/unlinked/conf", "a service's own");
        test::write_text(root / "etc/hosts", "10.0.0.1 secret-host");
        link("/etc/ssl/certs/java/cacerts", root / "usr/lib/jvm/java-17/lib/security/cacerts");
        link("/etc/fonts-real", root / "etc/fonts");
        test::write_text(root / "etc/fonts-real/fonts.conf", "fonts");
        link("/var/lib/elsewhere", root / "etc/localtime");
    }
    std::vector<std::string> paths(const std::vector<fs::path>& added = {}) const {
        const auto found = isolation::find_shown_etc(added, {"/etc/ssl/certs"}, root.path());
        REQUIRE(found.has_value());
        std::vector<std::string> all;
        for (const EtcCopy& copy : *found)
            all.push_back(copy.path);
        return all;
    }
};

bool holds(const std::vector<std::string>& paths, const char* path) {
    return std::ranges::find(paths, path) != paths.end();
}

}  // namespace

TEST_CASE("what packages keep in /etc for all to read is shown, and nothing that can hold a secret") {
    const Host host;
    CHECK(host.paths() ==
          std::vector<std::string>{"/etc/fonts", "/etc/fonts-real", "/etc/fonts-real/fonts.conf",
                                   "/etc/groff", "/etc/groff/man.local",
                                   "/etc/java-17/security/java.security", "/etc/matplotlibrc",
                                   "/etc/os-release", "/etc/services", "/etc/xml", "/etc/xml/catalog"});
}

TEST_CASE("an operator shows more of /etc, but no secrets") {
    const Host host;
    CHECK(holds(host.paths({"/etc/unlinked"}), "/etc/unlinked/conf"));
    for (const char* refused :
         {"/etc/shadow", "/etc/ssl/private", "/etc/groff/pasted", "/etc/groff/unreadable", "/etc/missing",
          "/etc", "/usr/lib", "/etc/../usr/lib", "relative"}) {
        INFO(refused);
        const auto found = isolation::find_shown_etc({refused}, {}, host.root.path());
        REQUIRE(found.has_error());
        CHECK(found.error().code() == base::Errc::invalid_field);
        CHECK(found.error().detail().find(refused) != std::string::npos);
    }
}

TEST_CASE("what an operator shows and finds no place is refused by the bound, not left out") {
    const Host host;
    const auto refusal = [&](const char* path) {
        const auto found = isolation::find_shown_etc({path}, {}, host.root.path());
        REQUIRE(found.has_error());
        CHECK(found.error().code() == base::Errc::invalid_field);
        return found.error().detail();
    };
    const auto enlarge = [&](const char* name, std::uint64_t bytes) {
        test::write_text(host.root / name, "");
        fs::resize_file(host.root / name, bytes);
    };
    enlarge("etc/large/one", base::k_max_etc_bytes);
    CHECK(holds(host.paths({"/etc/large"}), "/etc/large/one"));
    enlarge("etc/large/one", base::k_max_etc_bytes + 1);
    CHECK(refusal("/etc/large/one") ==
          "--show-etc /etc/large/one: with /etc/large/one the copies of /etc would come to more than 8 MiB, "
          "which is the most that sandboxes are shown");
    CHECK(refusal("/etc/large").find("8 MiB") != std::string::npos);
    for (std::size_t i = 0; i < base::k_max_etc_copies; ++i)
        fs::create_directories(host.root / ("etc/many/" + std::to_string(i)));
    CHECK(refusal("/etc/many").find("4096 files, folders and links") != std::string::npos);
}

TEST_CASE("what packages keep beyond the bounds is left out, and the log says so") {
    const Host host;
    test::write_text(host.root / "etc/fonts-real/large", "");
    fs::resize_file(host.root / "etc/fonts-real/large", base::k_max_etc_bytes);
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    const auto paths = host.paths();
    spdlog::set_default_logger(before);
    CHECK_FALSE(holds(paths, "/etc/fonts-real/large"));
    CHECK(holds(paths, "/etc/fonts-real/fonts.conf"));
    CHECK(log.str().find("evt=etc_cut") != std::string::npos);
    CHECK(log.str().find("/etc/fonts-real/large") != std::string::npos);
}

TEST_CASE("a copy that is no longer shown is gone after the next start") {
    const test::TempFolder folder;
    isolation::HostLayout layout;
    layout.etc_copies = {{EtcCopy::Kind::link, "/etc/os-release", "../usr/lib/os-release"},
                         {EtcCopy::Kind::folder, "/etc/empty"},
                         {EtcCopy::Kind::file, "/etc/passwd"}};
    REQUIRE(isolation::write_etc(folder / "etc", layout).has_value());
    CHECK(fs::read_symlink(folder / "etc/os-release") == "../usr/lib/os-release");
    CHECK(fs::is_directory(folder / "etc/empty"));
    // The generated files win.
    CHECK(test::read_text(folder / "etc/passwd").find("user:x:1000") != std::string::npos);
    REQUIRE(isolation::write_etc(folder / "etc", {}).has_value());
    CHECK_FALSE(fs::exists(fs::symlink_status(folder / "etc/os-release")));
    CHECK_FALSE(fs::exists(folder / "etc/empty"));
}

}  // namespace shown_etc_test
