// Children that do not outlive the test, however it ends.
import { spawn } from 'node:child_process';

/** spawn(), with a SIGTERM for the child when this process ends, also by SIGKILL (PR_SET_PDEATHSIG, prctl(2)). */
export function spawnTied(command, args, options) {
    return spawn('setpriv', ['--pdeathsig', 'TERM', '--', command, ...args], options);
}
