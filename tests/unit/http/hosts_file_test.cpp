#include "http/egress/hosts_file.hpp"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/temp_dir.hpp"

namespace hosts_file_test {

using namespace atl;
using Texts = std::vector<std::string>;

namespace {

Texts found(http::HostsFile& file, std::string_view name) {
    Texts texts;
    for (const auto& address : file.find(name))
        texts.push_back(address.to_string());
    return texts;
}

}  // namespace

TEST_CASE("Lines of a hosts file have an address, names and comments, and others are passed over") {
    const bench::TempDir folder;
    const auto path = folder.path() / "hosts";
    std::ofstream(path) << "# first\n\n127.0.0.1 localhost\r\n  192.0.2.1\tA.example  a # alone\n"
                           "::1 localhost ip6-localhost\nfe80::1%lo0 zoned\nname 192.0.2.2\n192.0.2.3\n"
                           "#192.0.2.4 a\n::ffff:192.0.2.5 mapped\n192.0.2.6 last";
    http::HostsFile file(path);
    CHECK(found(file, "localhost") == Texts{"127.0.0.1", "::1"});
    CHECK(found(file, "a.example") == Texts{"192.0.2.1"});
    CHECK(found(file, "a") == Texts{"192.0.2.1"});
    CHECK(found(file, "ip6-localhost") == Texts{"::1"});
    CHECK(found(file, "mapped") == Texts{"192.0.2.5"});
    CHECK(found(file, "last") == Texts{"192.0.2.6"});
    for (const char* name : {"alone", "#", "zoned", "name", "192.0.2.2", "b", ""})
        CHECK(found(file, name).empty());
    http::HostsFile missing(folder.path() / "none");
    CHECK(found(missing, "localhost").empty());
}

TEST_CASE("What lies beyond the bounds of a hosts file does not count, and the log says so once") {
    const bench::TempDir folder;
    const auto path = folder.path() / "hosts";
    std::ofstream(path) << "192.0.2.1 a b\n192.0.2.2 c\n192.0.2.3 d\n";
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    http::HostsFile whole(path, {38, 4});
    CHECK(found(whole, "d") == Texts{"192.0.2.3"});
    CHECK(log.str().empty());
    http::HostsFile of_names(path, {1000, 2});
    CHECK(found(of_names, "b") == Texts{"192.0.2.1"});
    CHECK(found(of_names, "c").empty());
    http::HostsFile of_bytes(path, {37, 100});
    CHECK(found(of_bytes, "c") == Texts{"192.0.2.2"});
    CHECK(found(of_bytes, "d").empty());
    std::ofstream(path, std::ios::app) << "192.0.2.4 e\n";
    CHECK(found(of_bytes, "e").empty());
    spdlog::set_default_logger(before);
    const std::string told = log.str();
    CHECK(told.find("evt=etc_cut") != std::string::npos);
    CHECK(told.find(path.string() + " the first 1000 bytes and 2 names count") != std::string::npos);
    const std::string second = "the first 37 bytes";
    CHECK(told.find(second) != std::string::npos);
    CHECK(told.find(second) == told.rfind(second));
}

}  // namespace hosts_file_test
