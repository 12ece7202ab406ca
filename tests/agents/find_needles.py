"""Usage: find_needles.py [FILE [PID...]]

Looks for texts inside a sandbox: in every file but those of /usr, in the environment, the command line and the memory of every process;
with PIDs in those processes alone, as the host's root can. FILE, else stdin: an object of texts by names, in hexadecimal, so that nobody
else has them. stdout: an object of the places of each, by the names.
"""

import json
import os
import sys

# Files that are read in pieces overlap by this.
OVERLAP = 256
PIECE = 1 << 20
# An entry of pagemap is 8 bytes; a page that is not in memory has nothing to be found.
PAGE = os.sysconf("SC_PAGE_SIZE")
PAGES_AT_ONCE = PIECE // PAGE
# The texts in this program itself are no finding.
SELF = str(os.getpid())


def pieces(path):
    with open(path, "rb") as file:
        tail = b""
        while piece := file.read(PIECE):
            yield tail + piece
            tail = piece[-OVERLAP:]


def memory(process):
    """Pieces of what it has in memory."""
    with open(f"/proc/{process}/maps") as lines:
        ranges = [line.split()[:2] for line in lines if "[v" not in line]
    with open(f"/proc/{process}/mem", "rb", 0) as bytes_of, open(f"/proc/{process}/pagemap", "rb", 0) as pages_of:
        for addresses, rights in ranges:
            begin, end = (int(address, 16) for address in addresses.split("-"))
            for at in range(begin, end if rights[0] == "r" else begin, PIECE):
                size = min(PIECE, end - at)
                pages_of.seek(at // PAGE * 8)
                if not any(pages_of.read(size // PAGE * 8)):
                    continue
                try:
                    bytes_of.seek(at)
                    yield bytes_of.read(size)
                except OSError:
                    pass


def places(processes):
    """(name of a place, its pieces)"""
    for folder, folders, names in [] if processes else os.walk("/"):
        if folder == "/":
            folders[:] = [name for name in folders if name not in ("proc", "sys", "usr", "lib", "lib64", "bin", "sbin")]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path, pieces(path)
    for process in processes or filter(str.isdigit, os.listdir("/proc")):
        if process != SELF:
            for name in ("environ", "cmdline"):
                yield f"/proc/{process}/{name}", pieces(f"/proc/{process}/{name}")
            yield f"/proc/{process}/mem", memory(process)


def main():
    source = open(sys.argv[1]) if len(sys.argv) > 1 else sys.stdin
    needles = {name: bytes.fromhex(text) for name, text in json.load(source).items()}
    found = {name: [] for name in needles}
    for place, texts in places(sys.argv[2:]):
        try:
            for text in texts:
                for name, needle in needles.items():
                    if needle in text and place not in found[name]:
                        found[name].append(place)
        except OSError:
            pass
    print(json.dumps(found))


main()
