// The server put together: every part made in the order of its dependencies, started, and ended in the
// opposite order. Holds no logic of its own beyond that order.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/config.hpp"
#include "core/base/error.hpp"

namespace atl::app {

class Application {
  public:
    /// Opens everything: data directory, database, listeners, leftovers of the last run. Errors name the
    /// fault of the host or the configuration, and its fix. `loop` must outlive the application.
    static base::Result<std::unique_ptr<Application>> open(boost::asio::io_context& loop,
                                                           const Config& config);
    ~Application();
    Application(const Application&) = delete;
    Application& operator=(const Application&) = delete;

    /// Serves. SIGTERM and SIGINT begin the graceful end, after which the loop has no work left.
    void start();
    /// Runs the loop until no work is left, metered if the configuration asks for it.
    void run();
    /// For the operator at the terminal: what the server lacks and does without, and the commands that bring
    /// it, each a line of base::fix_line(); empty where it lacks nothing.
    std::string warning() const;
    /// The bound addresses, and how to use the server: for the operator at the terminal.
    std::string usage() const;

  private:
    struct Parts;
    explicit Application(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

/// The isolation profile that this host and configuration give a sandbox, as text.
base::Result<std::string> print_profile(boost::asio::io_context& loop, const Config& config);

}  // namespace atl::app
