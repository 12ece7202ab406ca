#include "tests/bench/in_net_of.hpp"

#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace atl::bench {
namespace {

base::UniqueFd net_of(const std::string& process) {
    base::UniqueFd net(::open(("/proc/" + process + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
    if (!net)
        throw std::system_error(errno, std::generic_category(), "the net namespace of " + process);
    return net;
}

}  // namespace

InNetOf::InNetOf(std::optional<pid_t> process) {
    if (!process)
        return;
    before_ = net_of("self");
    if (::setns(net_of(std::to_string(*process)).get(), CLONE_NEWNET) != 0)
        throw std::system_error(errno, std::generic_category(), "setns: as root only");
}

InNetOf::~InNetOf() {
    if (before_)
        ::setns(before_.get(), CLONE_NEWNET);
}

}  // namespace atl::bench
