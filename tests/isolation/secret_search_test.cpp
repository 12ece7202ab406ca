// Secrets that programs inside use, and never have: the values are looked for everywhere.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>

#include "tests/isolation/lab.hpp"
#include "tests/isolation/package_host.hpp"
#include "tests/support/deadline.hpp"
#include "tests/support/file_search.hpp"

namespace secret_search_test {

using namespace atl::test;

namespace {

// That package_host.py takes.
const std::string k_value = "key-of-sample";

// Has the secret set in a tunnel and by a route, and stays, with a text that it has in memory alone.
constexpr const char* k_user = R"(
import os, time, urllib.request as u
own = u.build_opener(u.ProxyHandler({}))
answers = [u.urlopen(os.environ["PRIVATE"]).read(), own.open("http://127.0.0.1:3129/sample/private/work/README").read()]
canary = "-".join(["canary", "of", "memory"])
open("/workspace/answers", "wb").write(b"".join(answers))
while True:
    time.sleep(60)
)";

Json using_secret(const std::string& upstream) {
    const Json headers{{"Authorization", {{"secret", "SAMPLE_KEY"}, {"prefix", "Bearer "}}}};
    const Json host{{"host", upstream}, {"headers", headers}};
    const Json route{{"name", "sample"}, {"upstream", "https://" + upstream}, {"headers", headers}};
    return {
        {"network", {{"mode", "egress"}, {"allow", Json::array({host})}, {"routes", Json::array({route})}}},
        {"env",
         {{"NO_PROXY", "none.example"},
          {"no_proxy", "none.example"},
          {"CANARY", "canary-of-environment"},
          {"PRIVATE", "https://" + upstream + "/private/work/README"}}}};
}

/// All that the server says about a sandbox and its secret.
std::string answers_about(Lab& lab, const Sandbox& sandbox) {
    std::string all = lab.api.http().request("GET", "/metrics").body;
    const std::string conversation = "/v1/conversations/" + sandbox.id();
    const std::string box = "/v1/sandboxes/" + sandbox.sandbox_id();
    for (const std::string& path :
         {std::string("/v1/secrets"), std::string("/v1/secrets/SAMPLE_KEY"), std::string("/v1/system"),
          conversation, conversation + "/events", box, box + "/logs", box + "/processes"})
        all += lab.api.call(200, "GET", path).dump();
    return all;
}

bool has_text(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "A secret that programs inside use is in no memory, environment or file of theirs, and in nothing that "
    "the server writes or says") {
    bool was_memory_read = true;
    for (const Privilege privilege : privileges()) {
        const PackageHost host;
        const TempDir folder;
        std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
        const std::string requests = folder.path() / "egress.log";
        Lab lab(privilege, {"--egress-private", "127.0.0.1/32:" + host.https_port, "--egress-ca",
                            (host.folder.path() / "cert.pem").string(), "--egress-log", requests});
        INFO(lab.name);
        lab.api.call(201, "PUT", "/v1/secrets/SAMPLE_KEY",
                     Json{{"value", k_value}, {"hosts", {"localhost"}}}.dump());
        Sandbox sandbox(lab, using_secret("localhost:" + host.https_port));
        lab.api.call(201, "POST", "/v1/sandboxes/" + sandbox.sandbox_id() + "/processes",
                     Json{{"argv", {"python3", "-c", k_user}}}.dump());
        // The host gives this only for the secret.
        REQUIRE(eventually([&] {
            return sandbox.run("cat /workspace/answers").output == "sample of git\nsample of git\n";
        }));

        // Each search finds what is there.
        const Findings found = sandbox.find({{"secret", k_value},
                                             {"file", "sample of git\nsample of git\n"},
                                             {"environment", "canary-of-environment"},
                                             {"memory", "canary-of-memory"}});
        CHECK(found.at("secret").empty());
        CHECK(found.at("file").contains("/workspace/answers"));
        CHECK(has_place(found.at("environment"), "/environ"));
        was_memory_read = was_memory_read && has_place(found.at("memory"), "/mem");

        const std::filesystem::path data = lab.server.data_dir();
        CHECK(files_with(data, k_value).empty());
        CHECK_FALSE(files_with(data, "SAMPLE_KEY").empty());
        CHECK_FALSE(has_text(lab.server.log(), k_value));
        CHECK(has_text(lab.server.log(), sandbox.sandbox_id()));
        CHECK_FALSE(has_text(read_host_file(requests), k_value));
        CHECK(has_text(read_host_file(requests), "\"route\":\"sample\""));
        const std::string answers = answers_about(lab, sandbox);
        CHECK_FALSE(has_text(answers, k_value));
        CHECK(has_text(answers, "SAMPLE_KEY"));
        CHECK(has_text(answers, "egress_closed"));
    }
    if (!was_memory_read)
        SKIP("this host lets no program read the memory of another one (kernel.yama.ptrace_scope)");
}

}  // namespace secret_search_test
