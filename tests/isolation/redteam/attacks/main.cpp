// attack NAME [WORD...] [--seconds N] [--max-mb N] [--max-count N]
#include "tests/isolation/redteam/attacks/attack.hpp"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace atl::attack {
namespace {

constexpr std::uint64_t k_max_seconds = 60;
constexpr std::chrono::milliseconds k_margin{500};

std::chrono::steady_clock::time_point ends_at;

std::vector<Attack>& all_attacks() {
    static std::vector<Attack> attacks;
    return attacks;
}

std::chrono::milliseconds time_left() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(ends_at - std::chrono::steady_clock::now());
}

/// The kernel ends this process in time, even if it hangs. A child does not inherit the alarm (alarm(2)).
void end_in_time() {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(static_cast<unsigned>(std::max<std::int64_t>(1, (time_left().count() + 999) / 1000)));
}

std::uint64_t number(const char* text) {
    char* end = nullptr;
    errno = 0;
    const std::uint64_t value = ::strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
        give_up(std::string("not a number: ") + text);
    return value;
}

Options parse(int count, char** words) {
    Options options;
    for (int at = 2; at < count; ++at) {
        const std::string_view word = words[at];
        if (!word.starts_with("--max-") && word != "--seconds") {
            options.words.emplace_back(word);
            continue;
        }
        if (at + 1 == count)
            give_up(std::string(word) + " needs a number");
        const std::uint64_t value = number(words[++at]);
        if (word == "--max-mb")
            options.max_mb = value;
        else if (word == "--max-count")
            options.max_count = value;
        else if (word == "--seconds" && value >= 1 && value <= k_max_seconds)
            options.seconds = std::chrono::seconds(value);
        else
            give_up("unknown or out of range: " + std::string(word));
    }
    return options;
}

[[noreturn]] void tell_usage() {
    std::fprintf(stderr, "attack NAME [WORD...] [--seconds N] [--max-mb N] [--max-count N]\n");
    for (const Attack& attack : all_attacks()) {
        std::fprintf(stderr, "  %-24.*s %.*s\n", static_cast<int>(attack.name.size()), attack.name.data(),
                     static_cast<int>(attack.usage.size()), attack.usage.data());
    }
    std::_Exit(2);
}

}  // namespace

Registration::Registration(std::initializer_list<Attack> attacks) {
    all_attacks().insert(all_attacks().end(), attacks.begin(), attacks.end());
}

void taken(std::string_view key, std::uint64_t value) {
    std::printf("taken %.*s %llu\n", static_cast<int>(key.size()), key.data(),
                static_cast<unsigned long long>(value));
    std::fflush(stdout);
}

void refused(std::string_view key, int error) {
    const char* name = ::strerrorname_np(error);
    std::printf("refused %.*s %s\n", static_cast<int>(key.size()), key.data(), name != nullptr ? name : "?");
    std::fflush(stdout);
}

void refused(std::string_view key) {
    refused(key, errno);
}

bool is_late() {
    return time_left() < k_margin;
}

void hold() {
    std::puts("holding");
    std::fflush(stdout);
    while (time_left().count() > 0)
        ::pause();
}

int child(const std::function<void()>& body) {
    const pid_t parent = ::getpid();
    const pid_t made = ::fork();
    if (made != 0)
        return made;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
        std::_Exit(0);
    end_in_time();
    body();
    while (time_left().count() > 0)
        ::pause();
    std::_Exit(0);
}

SharedCounter::SharedCounter() {
    void* const page =
        ::mmap(nullptr, sizeof *value_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        give_up("no shared page");
    value_ = static_cast<std::uint64_t*>(page);
}

void give_up(const std::string& why) {
    std::fprintf(stderr, "attack: %s\n", why.c_str());
    std::_Exit(2);
}

}  // namespace atl::attack

int main(int count, char** words) {
    using namespace atl::attack;
    if (count < 2)
        tell_usage();
    const auto found = std::find_if(all_attacks().begin(), all_attacks().end(),
                                    [&](const Attack& attack) { return attack.name == words[1]; });
    if (found == all_attacks().end())
        tell_usage();
    const Options options = parse(count, words);
    ends_at = std::chrono::steady_clock::now() + options.seconds;
    end_in_time();
    found->run(options);
}
