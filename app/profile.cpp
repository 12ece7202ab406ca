#include <cstdlib>

#include "app/application.hpp"
#include "app/data_dir.hpp"
#include "app/host.hpp"
#include "core/base/asio_timers.hpp"
#include "core/base/limits.hpp"
#include "core/sandbox/env_policy.hpp"

namespace atl::app {

namespace {

/// A folder of its own, so that printing touches no server's data directory.
class Scratch {
  public:
    Scratch() {
        std::string pattern = (std::filesystem::temp_directory_path() / "atoll-profile-XXXXXX").string();
        if (::mkdtemp(pattern.data()) != nullptr)
            path_ = pattern;
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    const std::filesystem::path& path() const noexcept { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace

base::Result<std::string> print_profile(boost::asio::io_context& loop, const Config& config) {
    const Scratch scratch;
    auto data = DataDir::open(scratch.path());
    if (!data)
        return data.error();
    auto launcher_config = make_launcher_config(config, *data, {});
    if (!launcher_config)
        return launcher_config.error();
    base::AsioTimers timers(loop.get_executor());
    auto launcher = isolation::BubblewrapLauncher::create(loop.get_executor(), timers, *launcher_config);
    if (!launcher)
        return launcher.error();
    // A sandbox as any other; values of the host's environment are not shown.
    sandbox::Record example;
    example.id = "SANDBOX";
    example.conversation_id = "CONVERSATION";
    sandbox::LaunchSpec spec;
    spec.sandbox_id = example.id;
    spec.generation = 1;
    spec.host_uid = launcher_config->uid_mode == isolation::UidMode::private_uid ? base::k_first_host_uid : 0;
    spec.workspace = data->path() / "workspaces" / example.id;
    spec.env = sandbox::compose_env({{"PATH", "…"}}, example);
    return (*launcher)->profile(spec);
}

}  // namespace atl::app
