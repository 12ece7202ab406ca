// atolld: see application.hpp. Exit status 0 after a graceful end, 1 if the server cannot start, 2 for a
// wrong command line.
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "app/application.hpp"
#include "app/backup_command.hpp"
#include "app/check_command.hpp"
#include "app/config.hpp"
#include "app/keys_command.hpp"
#include "app/memory_privacy.hpp"
#include "app/memory_trim.hpp"
#include "app/orphans_command.hpp"
#include "app/rootless.hpp"
#include "core/base/log_output.hpp"

namespace {

using atl::app::Application;
using atl::app::Config;

void set_up_logging(const Config& config) {
    auto logger =
        std::make_shared<spdlog::logger>("atolld", std::make_shared<atl::base::LogSink>(STDERR_FILENO));
    // RFC 3339 in UTC, as the API writes times.
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v", spdlog::pattern_time_type::utc);
    logger->set_level(spdlog::level::from_str(config.log_level));
    spdlog::set_default_logger(std::move(logger));
}

int fail(const atl::base::Error& error) {
    std::fprintf(stderr, "atolld cannot start: %s\n", error.detail().c_str());
    return 1;
}

int tell(const char* command, const atl::base::Result<atl::app::CommandOutput>& done) {
    if (!done) {
        std::fprintf(stderr, "atolld %s: %s\n", command, done.error().detail().c_str());
        return 1;
    }
    std::fputs(done->note.c_str(), stderr);
    std::fputs(done->text.c_str(), stdout);
    return 0;
}

int run(Config config) {
    // A peer that goes away is an error of the write, not a signal (signal(7)).
    std::signal(SIGPIPE, SIG_IGN);
    // So is a file that may not grow (setrlimit(2), RLIMIT_FSIZE).
    std::signal(SIGXFSZ, SIG_IGN);
    // Sandboxes must be able to reach their files; secret files get a mode of their own (umask(2)).
    ::umask(022);
    if (config.check_config)
        return tell("--check-config", atl::app::check_configuration(config));
    if (config.keys)
        return tell("keys", atl::app::run_keys_command(config));
    if (config.backup)
        return tell("backup", atl::app::run_backup_command(config));
    // Before anything is made.
    if (auto good = config.orphans ? atl::base::Result<void>() : atl::app::check_start(config); !good)
        return fail(good.error());
    if (auto taken = atl::app::take_subordinate_ids(config); !taken)
        return fail(taken.error());
    if (config.orphans)
        return tell("orphans", atl::app::run_orphans_command(config));
    atl::app::keep_memory_private();
    // Only this thread runs the loop and posts to it, so it needs no locks (Asio, "Concurrency Hints").
    boost::asio::io_context loop(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    if (config.print_profile) {
        const auto profile = atl::app::print_profile(loop, config);
        if (!profile)
            return fail(profile.error());
        std::fputs(profile->c_str(), stdout);
        return 0;
    }
    auto application = Application::open(loop, config);
    if (!application)
        return fail(application.error());
    (*application)->start();
    // It serves: from now on nothing waits for a reader.
    atl::base::LogOutput(STDERR_FILENO).write((*application)->warning());
    atl::base::LogOutput(STDOUT_FILENO).write((*application)->usage());
    (*application)->run();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    atl::app::return_large_blocks();
    const auto parsed = atl::app::parse_config(argc, argv);
    if (!parsed.config) {
        std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
        return parsed.exit_code;
    }
    set_up_logging(*parsed.config);
    try {
        return run(*parsed.config);
    } catch (const std::exception& error) {
        atl::base::LogOutput(STDERR_FILENO)
            .write("atolld ended by a defect: " + std::string(error.what()) + "\n");
        return 70;
    }
}
