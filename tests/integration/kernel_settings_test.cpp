// Behaviour that depends on settings of the whole kernel. The tests are hidden, since only the virtual
// machine of tests/vm may change these settings.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/api_client.hpp"

namespace kernel_settings_test {

using namespace atl::test;

namespace {

/// A setting of the kernel, put back with the object.
class Setting {
  public:
    Setting(const char* path, const std::string& value) : path_(path) {
        // Never on a host: others use it.
        REQUIRE(std::filesystem::exists("/vm/runs"));
        std::ifstream in(path_);
        std::getline(in, before_);
        write(value);
    }
    ~Setting() { std::ofstream(path_) << before_ << std::endl; }
    Setting(const Setting&) = delete;
    Setting& operator=(const Setting&) = delete;
    void write(const std::string& value) const {
        std::ofstream out(path_);
        out << value << std::endl;
        REQUIRE(out.good());
    }

  private:
    std::string path_;
    std::string before_;
};

std::multiset<std::string> lines(const std::filesystem::path& file) {
    std::multiset<std::string> all;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
        all.insert(line);
    return all;
}

/// Crashes outside with no core dumps allowed, and waits until the handler has been there `times` times.
bool crash_outside(const std::filesystem::path& handled, std::size_t times) {
    REQUIRE(std::system("ulimit -c 0; sh -c 'kill -SEGV $$' crash-outside") != 0);
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (lines(handled).size() < times && std::chrono::steady_clock::now() < deadline)
        ::sched_yield();
    return lines(handled).size() >= times;
}

}  // namespace

// [serial]: it changes a setting of the kernel.
TEST_CASE("A crash in a sandbox does not run the kernel's handler of core dumps",
          "[.][kernel-settings][serial]") {
    const TempDir dir;
    const auto handler = dir.path() / "handler";
    const auto handled = dir.path() / "handled";
    std::ofstream(handler) << "#!/bin/bash\necho \"$1\" >>" << handled.string() << "\n";
    std::filesystem::permissions(handler, std::filesystem::perms(0755));
    const Setting pattern("/proc/sys/kernel/core_pattern", "|" + handler.string() + " %u");
    // The control: a limit of 0 does not keep the handler away.
    REQUIRE(crash_outside(handled, 1));
    for (const auto privilege : {Privilege::as_started, Privilege::rootless}) {
        const std::size_t before = lines(handled).size();
        ServerOptions options;
        options.privilege = privilege;
        const ServerProcess server(std::move(options));
        ApiClient api(server);
        const std::string id = api.create()["id"];
        const Turn turn = api.message(id, "bash -c 'ulimit -c 0; kill -SEGV $$'; echo status $?");
        CHECK(turn.output.find("status 139") != std::string::npos);
        // The handler of the crash inside, which came first, would have been started before this one's.
        REQUIRE(crash_outside(handled, before + 1));
        CHECK(lines(handled).size() == before + 1);
    }
}

// [serial]: it changes a setting of the kernel.
TEST_CASE("Where the kernel has no memory for filters, a create says so", "[.][kernel-settings][serial]") {
    const ServerProcess server;
    ApiClient api(server);
    api.create();
    {
        const Setting budget("/proc/sys/net/core/bpf_jit_limit", "1");
        const auto answer = api.http().request("POST", "/v1/conversations", "{}");
        INFO(answer.body);
        CHECK(answer.status >= 500);
        CHECK(answer.body.find("net.core.bpf_jit_limit") != std::string::npos);
    }
    api.create();
}

}  // namespace kernel_settings_test
