// Pseudoterminals (pty(7)): the guest holds the master, a program gets the other end as its controlling
// terminal.
#pragma once

#include <cstdint>
#include <string>

#include "core/plain/unique_fd.hpp"

namespace atl::guest {

struct TerminalSize {
    std::uint16_t columns = 80;
    std::uint16_t rows = 24;
};

struct Terminal {
    base::UniqueFd master;  // does not block
    base::UniqueFd holder;  // of the other end: while it is open no reader of the master sees a hang-up
    std::string path;       // of the other end; empty: there is no terminal, and errno says why
};

/// A new terminal that takes UTF-8. Without libc's functions, which look names up in a database.
Terminal open_terminal(const TerminalSize& size);

/// The foreground processes of the terminal get SIGWINCH (ioctl_tty(2), TIOCSWINSZ).
bool resize_terminal(int master, const TerminalSize& size);

}  // namespace atl::guest
