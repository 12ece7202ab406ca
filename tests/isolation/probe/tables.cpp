// Resources with one kernel table for the whole host, or for each uid.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "tests/isolation/probe/probe.hpp"

namespace atl::probe {
namespace {

constexpr rlim_t k_most_files = 4096;

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

constexpr Command commands[] = {{"ptys", open_ptys}, {"watch", watch_folders}};

}  // namespace

std::span<const Command> table_commands() {
    return commands;
}

}  // namespace atl::probe
