#include "bridge/guest/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

namespace atl::guest {

Terminal open_terminal(const TerminalSize& size) {
    Terminal made;
    made.master.reset(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    int is_locked = 0;
    unsigned number = 0;
    termios settings{};
    const int master = made.master.get();
    if (master < 0 || ioctl(master, TIOCSPTLCK, &is_locked) != 0 || ioctl(master, TIOCGPTN, &number) != 0 ||
        tcgetattr(master, &settings) != 0)
        return made;
    settings.c_iflag |= IUTF8;
    settings.c_cc[VERASE] = 0x7f;
    if (tcsetattr(master, TCSANOW, &settings) != 0 || !resize_terminal(master, size))
        return made;
    const std::string path = "/dev/pts/" + std::to_string(number);
    made.holder.reset(open(path.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (made.holder)
        made.path = path;
    return made;
}

bool resize_terminal(int master, const TerminalSize& size) {
    winsize wanted{};
    wanted.ws_col = size.columns;
    wanted.ws_row = size.rows;
    return ioctl(master, TIOCSWINSZ, &wanted) == 0;
}

}  // namespace atl::guest
