// Secrets of a real server: where a value is not, and a start with another key.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/api_client.hpp"
#include "tests/support/file_search.hpp"

namespace secrets_test {

using namespace atl::test;
namespace fs = std::filesystem;

namespace {

const std::string k_path = "/v1/secrets/MODEL_KEY";
const std::string k_value = "sk-looked-for-4242424242";
const std::string k_body = R"({"value":")" + k_value + R"(","hosts":["api.example.com"],"userId":"alice"})";

/// The folder in which this process and its children are, and their bound of core dumps, as long as the
/// object lives.
class CoreFolder {
  public:
    explicit CoreFolder(const fs::path& folder) : folder_(folder), before_(fs::current_path()) {
        REQUIRE(::getrlimit(RLIMIT_CORE, &limit_) == 0);
        const rlimit most{limit_.rlim_max, limit_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_CORE, &most) == 0);
        fs::current_path(folder);
    }
    ~CoreFolder() {
        fs::current_path(before_);
        ::setrlimit(RLIMIT_CORE, &limit_);
    }
    CoreFolder(const CoreFolder&) = delete;
    CoreFolder& operator=(const CoreFolder&) = delete;

    bool has_core() const {
        return std::any_of(fs::directory_iterator(folder_), fs::directory_iterator(), [](const auto& entry) {
            return entry.path().filename().string().starts_with("core");
        });
    }

  private:
    const fs::path folder_;
    const fs::path before_;
    rlimit limit_{};
};

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

TEST_CASE("A server that a signal ends leaves no core dump") {
    const TempDir dir;
    const CoreFolder folder(dir.path());
    {
        ServerProcess server;
        ApiClient(server).call(201, "PUT", k_path, k_body);
        server.signal(SIGABRT);
        CHECK(server.stop() != 0);
    }
    CHECK_FALSE(folder.has_core());
    // The control.
    REQUIRE(std::system("sh -c 'kill -ABRT $$' 2> /dev/null") != 0);  // NOLINT: the text is fixed
    if (!folder.has_core())
        SKIP("this host writes core dumps elsewhere, or none (kernel.core_pattern, ulimit -H -c)");
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
