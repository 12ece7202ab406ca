#include "tests/bench/nginx.hpp"

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "tests/bench/http_client.hpp"
#include "tests/bench/sockets.hpp"

namespace atl::bench {
namespace {

constexpr const char* k_nginx = "/usr/sbin/nginx";
constexpr double k_start_ms = 10'000;

}  // namespace

Nginx::Nginx(const Settings& settings, std::optional<pid_t> net_of) {
    const InNetOf inside(net_of);
    port_ = LoopbackListener().port;  // free a moment ago
    const std::string folder = dir_.path();
    const std::string conf = folder + "/nginx.conf";
    const std::string log = folder + "/error.log";
    std::ofstream(conf) << "user root; daemon off; master_process off; pid " << folder << "/pid; error_log "
                        << log << "; worker_rlimit_nofile 20000; events { worker_connections 8000; }\n"
                        << "http { access_log off; client_body_temp_path " << folder << "/body;\n"
                        << settings(folder, "127.0.0.1:" + std::to_string(port_)) << " }\n";
    child_.emplace([&] {
        ::execl(k_nginx, k_nginx, "-p", folder.c_str(), "-c", conf.c_str(), "-e", log.c_str(), nullptr);
        throw std::system_error(errno, std::generic_category(), k_nginx);
    });
    await_answer();
}

void Nginx::await_answer() const {
    for (const auto began = Clock::now(); ms_since(began) < k_start_ms;) {
        try {
            Connection(port_).exchange(request_text("GET", "/", "", ""));
            return;
        } catch (const std::exception&) {
            if (child_->has_ended())
                throw std::runtime_error("nginx did not start");
        }
    }
    throw std::runtime_error("nginx does not answer");
}

}  // namespace atl::bench
