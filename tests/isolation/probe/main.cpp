// probe COMMAND [ARGUMENT...]
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {

void say(const std::string& name, const std::string& result) {
    std::printf("%s %s\n", name.c_str(), result.c_str());
    std::fflush(stdout);
}

std::string outcome(long returned) {
    if (returned >= 0)
        return "OK";
    const char* name = ::strerrorname_np(errno);
    return name != nullptr ? name : std::to_string(errno);
}

void tell(const std::string& name, long returned) {
    say(name, outcome(returned));
}

std::string signal_name(int signal_number) {
    const char* name = ::sigabbrev_np(signal_number);
    return "SIG" + (name != nullptr ? std::string(name) : std::to_string(signal_number));
}

void give_up(const std::string& why) {
    std::fprintf(stderr, "probe: %s\n", why.c_str());
    std::_Exit(2);
}

std::string in_child(const std::function<long()>& attempt) {
    int ends[2];
    if (::pipe(ends) != 0)
        give_up("no pipe");
    const pid_t child = ::fork();
    if (child < 0)
        give_up("no child");
    if (child == 0) {
        const std::string result = outcome(attempt());
        ::_exit(::write(ends[1], result.data(), result.size()) == static_cast<ssize_t>(result.size()) ? 0
                                                                                                      : 1);
    }
    ::close(ends[1]);
    char buffer[64];
    const ssize_t count = ::read(ends[0], buffer, sizeof buffer);
    ::close(ends[0]);
    int status = 0;
    if (::waitpid(child, &status, 0) != child)
        give_up("lost a child");
    if (WIFSIGNALED(status))
        return signal_name(WTERMSIG(status));
    return std::string(buffer, count > 0 ? static_cast<std::size_t>(count) : 0);
}

void tell_in_child(const std::string& name, const std::function<long()>& attempt) {
    say(name, in_child(attempt));
}

bool run_command(const Arguments& words) {
    for (const auto commands :
         {call_commands(), exploit_commands(), file_commands(), guest_commands(), namespace_commands(),
          process_commands(), socket_commands(), status_commands(), table_commands()}) {
        for (const Command& command : commands) {
            if (command.name == words.front()) {
                command.run(Arguments(words.begin() + 1, words.end()));
                return true;
            }
        }
    }
    return false;
}

}  // namespace atl::probe

int main(int count, char** words) {
    if (count < 2 || !atl::probe::run_command({words + 1, words + count}))
        atl::probe::give_up("no such command");
}
