"""The C++ sources of a tree as the checks see them: text, text without comments and strings, includes."""

import functools
import posixpath
import re
from pathlib import Path

FOLDERS = ("app", "core", "bridge", "http", "cgroup", "fs-guard", "tests")
# Data, not source: seeds of fuzz targets, recorded transcripts.
DATA_FOLDERS = {"corpus", "seeds", "data"}
# Folders of packages and caches, which git ignores.
MADE_FOLDERS = {"__pycache__", "node_modules"}
# Prose, data and pictures; every other file is code.
NO_CODE = {".md", ".json", ".png", ".svg", ".typed"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
ALLOW = re.compile(r"//\s*check-allow:\s*([a-z-]+)\s+\S")
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      |(?P<raw>\bR"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
      |(?P<string>"(?:\\.|[^"\\\n])*")
      |(?P<number>\b[0-9][0-9a-zA-Z'.]*)
      |(?P<char>'(?:\\.|[^'\\\n])+')""",
    re.S | re.X,
)


def blank(match):
    if match["number"]:
        return match[0]
    return re.sub(r"[^\n]", " ", match[0])


class Source:
    """A source file. Positions in `code` are positions in `text`."""

    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8")

    @functools.cached_property
    def code(self):
        return TOKEN.sub(blank, self.text)

    @functools.cached_property
    def includes(self):
        """(position, path, is_quoted) of each."""
        return [(m.start(), m[1] or m[2], m[1] is not None) for m in INCLUDE.finditer(self.text)]

    def resolve(self, included, tree):
        """The path from the root that a quoted include means: relative to this file, else to the root."""
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), included))
        return beside if beside in tree.by_path else included

    @functools.cached_property
    def allowed(self):
        """Line number -> rules that a `// check-allow: RULE reason` there or on the line above permits."""
        lines = {}
        for number, line in enumerate(self.text.split("\n"), 1):
            for match in ALLOW.finditer(line):
                lines.setdefault(number, set()).add(match[1])
                lines.setdefault(number + 1, set()).add(match[1])
        return lines

    def line(self, position):
        return self.text.count("\n", 0, position) + 1


class Tree:
    """The sources below `root`."""

    def __init__(self, root):
        self.root = Path(root)
        self.sources = [
            Source(self.root, path)
            for folder in FOLDERS
            for path in sorted((self.root / folder).rglob("*"))
            if path.suffix in (".hpp", ".cpp", ".def") and path.is_file()
        ]
        self.by_path = {source.path: source for source in self.sources}

    @functools.cached_property
    def own_files(self):
        """Every file of ours that people read: sources, clients and scripts."""
        return [
            path
            for folder in FOLDERS + ("clients", "scripts", ".ci")
            for path in sorted((self.root / folder).rglob("*"))
            if path.is_file() and not MADE_FOLDERS.intersection(path.parts)
        ]

    @functools.cached_property
    def code(self):
        """Path -> text of each file of code, in any language."""
        texts = {}
        for path in [*self.own_files, self.root / "CMakeLists.txt"]:
            name = path.relative_to(self.root)
            made = any(part.endswith(".egg-info") for part in name.parts)
            if not made and not DATA_FOLDERS.intersection(name.parts) and path.suffix not in NO_CODE and path.name != "LICENSE":
                source = self.by_path.get(name.as_posix())
                if source or path.is_file():
                    texts[name.as_posix()] = source.text if source else path.read_text("utf-8", "replace")
        return texts
