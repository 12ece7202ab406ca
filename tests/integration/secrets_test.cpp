// Secrets of a real server: where a value is not, and a start with another key.
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/api_client.hpp"

namespace secrets_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

const std::string k_path = "/v1/secrets/MODEL_KEY";
const std::string k_value = "sk-looked-for-4242424242";
const std::string k_body = R"({"value":")" + k_value + R"(","hosts":["api.example.com"],"userId":"alice"})";

std::string bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The regular files below `folder` that have this text.
std::vector<fs::path> files_with(const fs::path& folder, const std::string& text) {
    std::vector<fs::path> found;
    for (const auto& entry :
         fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied))
        if (entry.is_regular_file() && bytes_of(entry.path()).find(text) != std::string::npos)
            found.push_back(entry.path());
    return found;
}

}  // namespace

TEST_CASE("A secret's value is in no file, log or answer of the server, and its key is in no backup") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path() / "data";
    fs::create_directory(options.data_dir);
    ServerProcess server(options);
    ApiClient api(server);
    api.call(201, "PUT", k_path, k_body);
    const Json made = api.create({{"agent", "shell"}, {"userId", "alice"}});
    CHECK(api.message(made["id"], "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'").output.find(k_value) ==
          std::string::npos);
    CHECK(api.call(200, "GET", k_path + "?userId=alice").dump().find(k_value) == std::string::npos);
    CHECK(server.log().find(k_value) == std::string::npos);
    CHECK(files_with(options.data_dir, k_value).empty());
    // The control: what is stored in the open is found.
    CHECK_FALSE(files_with(options.data_dir, "api.example.com").empty());
    const fs::path backup = dir.path() / "backup.db";
    REQUIRE(run_server({"backup", backup.string(), "--data-dir", options.data_dir.string()}).status == 0);
    const std::string key = bytes_of(options.data_dir / "secrets.key");
    REQUIRE(key.size() == 32);
    CHECK(files_with(options.data_dir, key) == std::vector<fs::path>{options.data_dir / "secrets.key"});
    CHECK(bytes_of(backup).find(key) == std::string::npos);
    CHECK(bytes_of(backup).find(k_value) == std::string::npos);
    CHECK(bytes_of(backup).find("api.example.com") != std::string::npos);
    std::ifstream limits("/proc/" + std::to_string(server.pid()) + "/limits");
    std::string line;
    while (std::getline(limits, line) && !line.starts_with("Max core file size")) {
    }
    std::string soft;
    std::istringstream(line.substr(line.find("size") + 4)) >> soft;
    CHECK((soft == "0" || soft == "1"));
}

TEST_CASE("A start without the key of secrets says which must be put again, and goes on") {
    const TempDir dir;
    ServerOptions options;
    options.data_dir = dir.path() / "data";
    fs::create_directory(options.data_dir);
    {
        ServerProcess before(options);
        ApiClient(before).call(201, "PUT", k_path, k_body);
        REQUIRE(before.stop() == 0);
    }
    {
        ServerProcess same(options);
        CHECK(same.log().find("secret_unusable") == std::string::npos);
        CHECK(ApiClient(same).call(200, "GET", k_path + "?userId=alice")["usable"] == true);
        REQUIRE(same.stop() == 0);
    }
    REQUIRE(fs::remove(options.data_dir / "secrets.key"));
    ServerProcess other(options);
    ApiClient api(other);
    CHECK(other.log().find("the secret MODEL_KEY of the user alice must be put again") != std::string::npos);
    CHECK(api.call(200, "GET", k_path + "?userId=alice")["usable"] == false);
    CHECK(api.call(200, "PUT", k_path, k_body)["usable"] == true);
}

}  // namespace secrets_test
