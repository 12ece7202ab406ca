#include "http/egress/egress_log.hpp"

#include <fcntl.h>

#include <cerrno>
#include <utility>

namespace atl::http {
namespace {

constexpr mode_t k_egress_log_mode = 0640;  // it names users, and what they reach

}  // namespace

base::Result<std::unique_ptr<EgressLog>> EgressLog::open(std::filesystem::path path) {
    std::unique_ptr<EgressLog> made(new EgressLog(std::move(path)));
    if (auto opened = made->reopen(); !opened)
        return opened.error();
    return made;
}

base::Result<void> EgressLog::reopen() {
    base::UniqueFd fd(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                             k_egress_log_mode));
    if (!fd)
        return base::Error(base::Errc::storage_failed,
                           "--egress-log: " + base::errno_text("open " + path_.string(), errno));
    output_.emplace(fd.get());
    fd_ = std::move(fd);
    return {};
}

void EgressLog::write(std::string_view line) {
    if (!output_->write(line))
        ++dropped_;
}

}  // namespace atl::http
