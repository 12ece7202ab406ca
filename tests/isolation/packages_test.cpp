// Programs as users run them: packages and sources come in through the proxy of a sandbox, and stay.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "tests/isolation/lab.hpp"
#include "tests/support/paths.hpp"

namespace packages_test {

using namespace atl::test;

namespace {

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

Json reaching_packages(const Json& allow) {
    return {{"mode", "egress"}, {"allow", allow}};
}

// The network, and the addresses that the commands use.
Json request_for_packages(const PackageHost& host) {
    // Without a NO_PROXY of their own, programs take the host's loopback for the sandbox's.
    return {{"network", reaching_packages(Json::array())},
            {"env",
             {{"NO_PROXY", "none.example"},
              {"no_proxy", "none.example"},
              {"PACKAGES", "http://localhost:" + host.http_port},
              {"SOURCES", "https://localhost:" + host.https_port},
              {"GIT_SSL_CAINFO", "/workspace/issuer.pem"}}}};
}

// `install` works where the list has the host, and `use` prints `printed` then, and after a pause.
void check_kept(const std::string& needed, const std::string& install, const std::string& use,
                const std::string& printed) {
    const PackageHost host;
    Lab lab(Privilege::as_started, {"--egress-private", "127.0.0.1/32:" + host.http_port, "--egress-private",
                                    "127.0.0.1/32:" + host.https_port});
    Sandbox sandbox(lab, request_for_packages(host));
    if (sandbox.run(needed).exit_code != 0)
        SKIP("sandboxes have what the host has below /usr: no " << needed);
    sandbox.put("issuer.pem", read_host_file(host.folder.path() / "cert.pem"));
    const std::string status = "curl --silent --output /dev/null --write-out '%{http_code}' $PACKAGES/";
    CHECK(sandbox.run(status).output == "403");
    const std::string conversation = "/v1/conversations/" + sandbox.id();
    const Json listed = {"localhost:" + host.http_port, "localhost:" + host.https_port};
    lab.api.call(200, "PATCH", conversation, Json{{"network", reaching_packages(listed)}}.dump());
    CHECK(sandbox.run(status).output == "200");
    sandbox.output(install);
    CHECK(sandbox.output(use) == printed);
    lab.api.call(200, "POST", conversation + "/pause", R"({"mode":"cold"})");
    CHECK(sandbox.output(use) == printed);
    CHECK(sandbox.run(status).output == "200");
}

}  // namespace

TEST_CASE("pip installs through the way out of a sandbox, and the program is there after a pause") {
    check_kept("python3 -c 'import pip'",
               "python3 -m pip install --disable-pip-version-check --index-url $PACKAGES/simple atoll-sample",
               "pip-sample", "sample of pip");
}

TEST_CASE("npm installs through the way out of a sandbox, and the program is there after a pause") {
    check_kept("command -v npm",
               "npm install --global --no-audit --no-fund --no-update-notifier --registry $PACKAGES/npm/ "
               "atoll-sample",
               "npm-sample", "sample of npm");
}

TEST_CASE("git clones over https through the way out of a sandbox, and the files are there after a pause") {
    check_kept("command -v git", "git clone --quiet $SOURCES/sample.git", "cat sample/README",
               "sample of git");
}

}  // namespace packages_test
