// Resources with one kernel table for the whole host, or for each uid.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

constexpr rlim_t k_most_files = 4096;
constexpr int k_kept_files = 16;

rlim_t raise_open_files() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min(limit.rlim_max, k_most_files);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

/// ptys COUNT: opens so many pseudoterminals, and tells how many it got.
void open_ptys(const Arguments& words) {
    raise_open_files();
    const int wanted = std::stoi(words.at(0));
    int opened = 0;
    while (opened < wanted && ::posix_openpt(O_RDWR | O_NOCTTY) >= 0)
        ++opened;
    say("ptys", std::to_string(opened));
}

// Registers each of its files with each of its sets, again and again: a registration that becomes free is
// taken at once.
[[noreturn]] void fill_epoll(int told, unsigned seconds) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(seconds);
    const int half = static_cast<int>(raise_open_files() - k_kept_files) / 2;
    std::vector<int> sets;
    std::vector<int> files;
    for (int i = 0; i < half; ++i) {
        sets.push_back(::epoll_create1(0));
        files.push_back(::eventfd(0, 0));
    }
    epoll_event nothing{};
    bool is_full = false;
    for (;;) {
        for (const int set : sets) {
            for (const int file : files) {
                if (::epoll_ctl(set, EPOLL_CTL_ADD, file, &nothing) == 0 || errno != ENOSPC)
                    continue;
                if (!is_full && ::write(told, "f", 1) != 1)
                    ::_exit(1);
                is_full = true;
            }
        }
        if (!is_full)
            ::_exit(1);
    }
}

/// fill-epoll SECONDS: takes all epoll registrations of its uid, tells when none is left, and goes on taking.
void fill_epoll_table(const Arguments& words) {
    const auto seconds = static_cast<unsigned>(std::stoul(words.at(0)));
    unsigned long table = 0;
    std::ifstream("/proc/sys/fs/epoll/max_user_watches") >> table;
    const unsigned long of_one = k_most_files / 2 * (k_most_files / 2 - k_kept_files);
    int ends[2];
    if (table == 0 || ::pipe(ends) != 0)
        give_up("no table, or no pipe");
    for (unsigned long child = 0; child <= table / of_one; ++child) {
        if (::fork() == 0)
            fill_epoll(ends[1], seconds);
    }
    ::close(ends[1]);
    char byte = 0;
    say("table", ::read(ends[0], &byte, 1) == 1 ? "full" : "not-full");
    while (::wait(nullptr) > 0) {
    }
}

/// watch FILE FOLDER...: writes the name of each file that is opened in these folders to FILE.
void watch_folders(const Arguments& words) {
    std::ofstream out(words.at(0));
    const int watcher = ::inotify_init1(IN_CLOEXEC);
    for (std::size_t at = 1; at < words.size(); ++at) {
        if (::inotify_add_watch(watcher, words[at].c_str(), IN_OPEN) < 0)
            give_up("cannot watch " + words[at]);
    }
    say("watching", "OK");
    alignas(inotify_event) char buffer[64 * 1024];
    for (ssize_t size = 0; (size = ::read(watcher, buffer, sizeof buffer)) > 0;) {
        for (const char* at = buffer; at < buffer + size;) {
            const auto* event = reinterpret_cast<const inotify_event*>(at);
            if (event->len > 0)
                out << event->name << std::endl;
            at += sizeof *event + event->len;
        }
    }
}

constexpr Command commands[] = {
    {"ptys", open_ptys}, {"fill-epoll", fill_epoll_table}, {"watch", watch_folders}};

}  // namespace

std::span<const Command> table_commands() {
    return commands;
}

}  // namespace atl::probe
