"""The resources of the host that a server holds, as the host counts them, and those that may not grow."""

import os
from pathlib import Path

MB = 1024 * 1024
# The allowed growth since the first measurement, as a factor and on top. The allocator keeps what it was given once,
# and logs of sandboxes that are gone may fill their bound; all else comes and goes with the sandboxes.
ALLOWED = {
    "resident_bytes": (1.25, 12 * MB),
    "descriptors": (1, 4),
    "processes": (1, 2),  # zygotes that wait for a sandbox are made one by one
    "cgroups": (1, 4),
    "mounts": (1, 0),
    "workspaces": (1, 0),
    "trash": (1, 0),
    "sockets": (1, 0),
    "database_bytes": (1.5, 4 * MB),
    "log_bytes": (1, 20 * MB),  # of SQLite; its bound is 16 MB
}


def children(pid):
    """Every process below `pid`, now."""
    found = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += [int(child), *children(int(child))]
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
    return found


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def cgroups(instance):
    """Groups below the server's own, in every hierarchy."""
    roots = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()]
    own = [root / f"atoll-{instance}" for root in roots if root.is_dir()]
    return sum(1 for group in own if group.is_dir() for entry in group.iterdir() if entry.is_dir())


def size(path):
    return path.stat().st_size if path.exists() else 0


def entries(folder):
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def measure(server, samples):
    """By the names of ALLOWED. `samples` are the server's own metrics of the same moment."""
    instance = (server.data / "instance-id").read_text().strip()
    database = server.data / "atoll.db"
    return {
        "resident_bytes": int(samples["process_resident_memory_bytes"]),
        "descriptors": entries(Path(f"/proc/{server.pid}/fd")),
        "processes": len(children(server.pid)),
        "cgroups": cgroups(instance),
        "mounts": len(Path(f"/proc/{server.pid}/mountinfo").read_text().splitlines()),
        "workspaces": entries(server.data / "workspaces"),
        "trash": entries(server.data / "trash"),
        # On a tmpfs of the server's own, where it is root.
        "sockets": entries(Path(f"/proc/{server.pid}/root{server.data}/run")),
        "database_bytes": size(database),
        "log_bytes": size(Path(f"{database}-wal")),
    }


def report(first, last):
    """Prints both and returns the names of the resources that grew too much."""
    grown = []
    print(f"{'what':16} {'after a fifth':>14} {'at the end':>14} {'allowed':>14}")
    for name, (factor, extra) in ALLOWED.items():
        most = int(first[name] * factor + extra)
        if last[name] > most:
            grown.append(name)
        verdict = "  GREW" if last[name] > most else ""
        print(f"{name:16} {first[name]:14,} {last[name]:14,} {most:14,}{verdict}")
    return grown
