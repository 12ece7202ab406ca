// The first processes of a server's sandboxes, which a test stops or kills.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/server_process.hpp"

namespace atl::test {

/// The guests of the sandboxes that live now: each is process 1 of a pid namespace.
inline std::vector<pid_t> guests(const ServerProcess& server) {
    std::vector<pid_t> found = descendants(server.pid());
    std::erase_if(found, [](pid_t pid) {
        std::ifstream file("/proc/" + std::to_string(pid) + "/status");
        for (std::string line; std::getline(file, line);)
            if (line.starts_with("NSpid:"))
                return !line.ends_with("\t1");
        return true;
    });
    return found;
}

}  // namespace atl::test
