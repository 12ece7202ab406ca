#include "tests/support/stuck_processes.hpp"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/base/ids.hpp"
#include "tests/support/deadline.hpp"

namespace atl::test {
namespace {

namespace fs = std::filesystem;

const fs::path k_freezer = "/sys/fs/cgroup/freezer";

bool write_line(const fs::path& file, const std::string& text) {
    std::ofstream out(file);
    out << text;
    out.flush();
    return out.good();
}

std::string first_word(const fs::path& file) {
    std::string word;
    std::ifstream(file) >> word;
    return word;
}

}  // namespace

bool StuckProcesses::can_be_made() {
    return ::access((k_freezer / "cgroup.procs").c_str(), W_OK) == 0;
}

StuckProcesses::StuckProcesses() : folder_(k_freezer / ("atoll-test-" + base::new_id())) {
    fs::create_directory(folder_);
}

StuckProcesses::~StuckProcesses() {
    write_line(folder_ / "freezer.state", "THAWED");
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (::rmdir(folder_.c_str()) != 0 && std::chrono::steady_clock::now() < deadline) {
        std::ifstream members(folder_ / "cgroup.procs");
        for (std::string pid; members >> pid;)
            write_line(k_freezer / "cgroup.procs", pid);
        std::this_thread::yield();
    }
}

void StuckProcesses::hold(pid_t pid) {
    if (!write_line(folder_ / "cgroup.procs", std::to_string(pid)))
        throw std::runtime_error("process " + std::to_string(pid) + " cannot be moved to " +
                                 folder_.string());
    set_state("FROZEN");
}

void StuckProcesses::let_go() {
    set_state("THAWED");
}

void StuckProcesses::set_state(const char* wanted) {
    const fs::path file = folder_ / "freezer.state";
    const auto deadline = std::chrono::steady_clock::now() + k_client_deadline;
    while (first_word(file) != wanted) {
        if (!write_line(file, wanted) || std::chrono::steady_clock::now() > deadline)
            throw std::runtime_error(file.string() + " does not become " + wanted);
        std::this_thread::yield();
    }
}

}  // namespace atl::test
