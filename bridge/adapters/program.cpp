#include "bridge/adapters/program.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace atl::adapter {
namespace {

struct Pipe {
    base::UniqueFd read_end;
    base::UniqueFd write_end;
};

bool open_pipe(Pipe& pipe) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
        return false;
    pipe.read_end.reset(ends[0]);
    pipe.write_end.reset(ends[1]);
    return true;
}

[[noreturn]] void become(char* const* argv, pid_t parent, int input, int output, int errors, int failures) {
    // A parent that ended before this call is not told (prctl(2), PR_SET_PDEATHSIG).
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && dup2(input, STDIN_FILENO) >= 0 &&
        dup2(output, STDOUT_FILENO) >= 0 && dup2(errors, STDERR_FILENO) >= 0) {
        signal(SIGPIPE, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
        execvp(argv[0], argv);
    }
    const int error = errno;
    static_cast<void>(!write(failures, &error, sizeof error));
    _exit(127);
}

}  // namespace

Program start_program(const std::vector<std::string>& argv) {
    Program program;
    Pipe input;
    Pipe output;
    Pipe errors;
    Pipe failures;
    if (!open_pipe(input) || !open_pipe(output) || !open_pipe(errors) || !open_pipe(failures)) {
        program.pid = -errno;
        return program;
    }
    std::vector<char*> arguments;
    for (const std::string& argument : argv)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    const pid_t parent = getpid();
    program.pid = fork();
    if (program.pid == 0)
        become(arguments.data(), parent, input.read_end.get(), output.write_end.get(), errors.write_end.get(),
               failures.write_end.get());
    if (program.pid < 0) {
        program.pid = -errno;
        return program;
    }
    failures.write_end.reset();
    int error = 0;
    if (read(failures.read_end.get(), &error, sizeof error) == sizeof error) {
        waitpid(program.pid, nullptr, 0);
        program.pid = -error;
        return program;
    }
    fcntl(input.write_end.get(), F_SETFL, O_NONBLOCK);
    fcntl(output.read_end.get(), F_SETFL, O_NONBLOCK);
    fcntl(errors.read_end.get(), F_SETFL, O_NONBLOCK);
    program.input = std::move(input.write_end);
    program.output = std::move(output.read_end);
    program.errors = std::move(errors.read_end);
    return program;
}

}  // namespace atl::adapter
