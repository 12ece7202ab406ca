// The key of secrets in the data directory, and what a server's memory is protected by.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>

#include "app/data_dir.hpp"
#include "app/memory_privacy.hpp"
#include "core/isolation/user_namespace.hpp"
#include "core/secrets/sealer.hpp"
#include "tests/support/result_printer.hpp"
#include "tests/support/server_process.hpp"

namespace secrets_key_test {

using namespace atl;
namespace fs = std::filesystem;

TEST_CASE("the key of secrets is made once, of mode 0600, and stays") {
    const test::TempDir dir;
    const auto file = dir.path() / "secrets.key";
    const auto data = app::DataDir::open(dir.path()).value();
    // The rest of a start that was interrupted.
    fs::create_symlink("/nowhere", dir.path() / "secrets.key.new");
    const std::string key(data.secrets_key().value().text());
    CHECK(key.size() == secrets::k_key_bytes);
    CHECK(key != std::string(secrets::k_key_bytes, '\0'));
    CHECK(data.secrets_key().value().text() == key);
    struct stat status {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777U) == 0600U);
    CHECK_FALSE(fs::exists(fs::symlink_status(dir.path() / "secrets.key.new")));

    fs::permissions(file, fs::perms::group_read, fs::perm_options::add);
    CHECK(data.secrets_key().error().detail().find("chmod 600") != std::string::npos);
    fs::permissions(file, fs::perms::group_read, fs::perm_options::remove);
    CHECK(data.secrets_key().value().text() == key);
    fs::resize_file(file, 31);
    CHECK(data.secrets_key().error().detail().find("does not hold a key") != std::string::npos);
    fs::remove(file);
    CHECK(data.secrets_key().value().text() != key);
}

TEST_CASE("a server leaves no core dump, and cannot be read by others where it is the host's root") {
    const pid_t child = ::fork();
    if (child == 0) {
        app::keep_memory_private();
        rlimit limit{};
        ::getrlimit(RLIMIT_CORE, &limit);
        const bool is_root = ::geteuid() == 0 && !isolation::is_in_user_namespace();
        const bool is_private = !is_root || ::prctl(PR_GET_DUMPABLE) == 0;
        ::_exit((limit.rlim_cur <= 1 ? 0 : 1) + (is_private ? 0 : 2));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace secrets_key_test
