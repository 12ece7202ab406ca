// The host of packages of package_host.py, which runs as long as the object lives.
#pragma once

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>

#include "tests/isolation/outside.hpp"
#include "tests/support/paths.hpp"

namespace atl::test {

struct PackageHost {
    PackageHost()
        : process(
              {"/usr/bin/python3", source_path("tests/isolation/package_host.py"), folder.path().string()},
              ::geteuid()) {
        std::istringstream told(process.read_until("ports "));
        std::string word;
        told >> word >> http_port >> https_port;
        REQUIRE_FALSE(https_port.empty());
    }

    TempDir folder;
    HostProcess process;
    std::string http_port;
    std::string https_port;
};

}  // namespace atl::test
