// A program that takes as much of one resource as it gets. It runs on both sides: inside a sandbox, where a
// limit must stop it, and outside under the same rlimits as the positive control. Statically linked, free of
// sanitizers and of the product's libraries.
//
// Contract: an attack prints `taken KEY VALUE` for its loot and `refused KEY ERRNO` for the error that
// stopped it, then calls hold(). Every attack respects --max-count, --max-mb and --seconds, so that the
// control does no harm to the host. Not here: the expected results, which the tests know.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace atl::attack {

struct Options {
    std::vector<std::string> words;  // the rest of the command line
    std::chrono::seconds seconds{60};
    std::uint64_t max_mb = 64;
    std::uint64_t max_count = 1000;
};

struct Attack {
    std::string_view name;
    std::string_view usage;  // its words, and the meaning of --max-count and --max-mb
    void (*run)(const Options&);
};

/// Adds attacks to the program: a constant of this type in each file with attacks.
struct Registration {
    Registration(std::initializer_list<Attack> attacks);
};

void taken(std::string_view key, std::uint64_t value);
/// Says that errno stopped the attack.
void refused(std::string_view key);
/// Says that this error, and not the current errno, stopped the attack.
void refused(std::string_view key, int error);

/// True when --seconds have passed since the start of the program, less half a second for the rest.
bool is_late();

/// Says that all is taken, and keeps it until --seconds have passed or the process is killed.
void hold();

/// Starts a child that runs `body` and then keeps its resources until --seconds have passed or its parent
/// dies. Returns the pid, or -1 with errno set.
int child(const std::function<void()>& body);

/// A counter that this process shares with all children that it makes later.
class SharedCounter {
  public:
    SharedCounter();
    /// The value before the addition.
    std::uint64_t add(std::uint64_t count) const {
        return __atomic_fetch_add(value_, count, __ATOMIC_RELAXED);
    }
    std::uint64_t value() const { return __atomic_load_n(value_, __ATOMIC_RELAXED); }

  private:
    std::uint64_t* value_;
};

/// Ends the program with a sentence on stderr and status 2.
[[noreturn]] void give_up(const std::string& why);

}  // namespace atl::attack
