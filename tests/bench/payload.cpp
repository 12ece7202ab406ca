// The program in the sandbox of `create_cold_ms`'s floor. It says that it runs, then waits to be killed.
#include <unistd.h>

int main() {
    if (::write(STDOUT_FILENO, "r", 1) != 1)
        return 1;
    for (;;)
        ::pause();
}
