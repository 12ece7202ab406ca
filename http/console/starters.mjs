// The messages that an empty conversation offers to try: [{label, text}], each text a message for its agent. Pure.

const PAGE = '<!doctype html><h1>Hello from the sandbox</h1>';

export function startersOf({ agent, limits, preview, sandboxPublicUrl }) {
    const isShell = agent === 'shell';
    const starters = [
        { label: 'Show where I am', text: isShell ? 'pwd; id -un; uname -sr; nproc; ls -la' : 'Where are you? Tell me the folder, the user, the system and the files.' },
    ];
    const port = preview?.ports?.[0];
    if (typeof sandboxPublicUrl === 'string' && port !== undefined) {
        const serve = `echo '${PAGE}' > index.html\n(python3 -m http.server ${port} --bind 127.0.0.1 > server.log 2>&1 &)`;
        const ask = `Write a small web page, and start a server for it in the background, at port ${port} of 127.0.0.1.`;
        starters.push({ label: 'Serve a page', text: isShell ? serve : ask });
    }
    // More than the limit allows, all in memory: tail keeps a line until it ends.
    const gigabytes = Math.floor((limits?.memoryMb ?? 0) / 1024) + 1;
    const use = isShell ? `head -c ${gigabytes}G /dev/zero | tail > /dev/null` : `Run a program that takes ${gigabytes} GB of memory, and tell me what happens.`;
    if (limits?.memoryMb > 0) starters.push({ label: `Use ${gigabytes} GB and meet the limit`, text: use });
    return starters;
}
