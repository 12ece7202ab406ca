// What the floor of `create_cold_ms` runs in its sandbox: says that it runs, then waits to be killed.
#include <unistd.h>

int main() {
    if (::write(STDOUT_FILENO, "r", 1) != 1)
        return 1;
    for (;;)
        ::pause();
}
