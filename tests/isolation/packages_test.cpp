// Programs as users run them: packages and sources come in through the proxy of a sandbox, and stay; requests
// over HTTPS have keys that the programs do not know.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "tests/isolation/lab.hpp"
#include "tests/isolation/package_host.hpp"

namespace packages_test {

using namespace atl::test;

namespace {

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

TEST_CASE("curl, git, Python and node get the key of a host's rule on ordinary HTTPS, and do not know it") {
    const PackageHost host;
    Lab lab(Privilege::as_started, {"--egress-private", "127.0.0.1/32:" + host.https_port, "--egress-ca",
                                    (host.folder.path() / "cert.pem").string()});
    const std::string rule = "localhost:" + host.https_port;
    lab.api.call(201, "PUT", "/v1/secrets/SAMPLE_KEY", R"({"value":"key-of-sample","hosts":["localhost"]})");
    Sandbox sandbox(lab, {{"network", reaching_packages({rule})},
                          {"env",
                           {{"NO_PROXY", "none.example"},
                            {"no_proxy", "none.example"},
                            {"GIT_TERMINAL_PROMPT", "0"},
                            {"PRIVATE", "https://" + rule + "/private"}}}});
    sandbox.put("upstream.pem", read_host_file(host.folder.path() / "cert.pem"));
    const std::string status = "curl --silent --output /dev/null --write-out '%{http_code}' ";
    const std::string direct = status + "--cacert /workspace/upstream.pem $PRIVATE/work/README";
    // A tunnel: the program itself verifies the upstream, which gets no key.
    CHECK(sandbox.output(direct) == "401");
    const Json headed{{"host", rule},
                      {"headers", {{"Authorization", {{"secret", "SAMPLE_KEY"}, {"prefix", "Bearer "}}}}},
                      {"methods", {"GET"}}};
    lab.api.call(200, "PATCH", "/v1/conversations/" + sandbox.id(),
                 Json{{"network", reaching_packages(Json::array({headed}))}}.dump());
    struct Fetch {
        const char* needed;
        const char* command;
    };
    for (const Fetch& fetch :
         {Fetch{"command -v curl", "curl --silent --fail -H 'Authorization: own' $PRIVATE/work/README"},
          Fetch{"command -v git", "git clone --quiet $PRIVATE/sample.git && cat sample/README"},
          Fetch{"python3 -c 'import requests'",
                "python3 -c 'import os, requests; print(requests.get(os.environ[\"PRIVATE\"] + "
                "\"/work/README\").text)'"},
          Fetch{"command -v python3",
                "python3 -c 'import os, urllib.request as u; print(u.urlopen(os.environ[\"PRIVATE\"] + "
                "\"/work/README\").read().decode())'"},
          Fetch{"node -e 'const [a, b] = process.versions.node.split(\".\"); process.exit(a == 22 && b > 20 "
                "|| a > 23 ? 0 : 1)'",
                "node -e 'fetch(process.env.PRIVATE + \"/work/README\").then(r => r.text())"
                ".then(t => console.log(t))' 2> /dev/null"}}) {
        INFO(fetch.command);
        if (sandbox.run(fetch.needed).exit_code == 0)
            CHECK(sandbox.output(fetch.command).starts_with("sample of git"));
        else
            WARN("sandboxes have what the host has below /usr: not this program");
    }
    // The sandbox's own issuer has made what a program sees, and nothing passes for another host or method.
    CHECK(sandbox.run(direct).exit_code == 60);
    CHECK(sandbox.output(status + "-H 'Host: other.example' $PRIVATE/work/README") == "403");
    CHECK(sandbox.output(status + "--request DELETE $PRIVATE/work/README") == "403");
    const std::string environment = sandbox.run("cat /proc/[0-9]*/environ | tr '\\0' '\\n'").output;
    CHECK(environment.find("none.example") != std::string::npos);  // the control
    CHECK(environment.find("key-of-sample") == std::string::npos);
}

}  // namespace packages_test
