"""The budget of scripts/check: numbers of each room that may fall but not rise.

A room is a folder of the first or second level, with all below it; a file at the top is a room of its own. budget.json
has one line for each number, sorted: the most that it may be, and the reason of its last rise. A number that is 0 has
no line.
"""

import functools
import json
import posixpath
import re
import shutil
import subprocess
from typing import Callable, NamedTuple

from source import ALLOW

FILE = "scripts/lib/budget.json"
ENTRY = re.compile(r'^"([^"]+)": (\{"number": [1-9]\d*(?:, "because": "(?:[^"\\]|\\["\\])*")?\}),?$', re.M)
WORDS = ("Of", "One", "Those", "What", "Whoever", "Whether", "As")
# The beginning of a comment, of a line in one, or of a docstring.
COMMENT = re.compile(r'(?:(?<!\S)(?://[/!<]*|#+|/\*+|""")|^[ \t]*\*)[ \t]*(?:' + "|".join(WORDS) + r")\b", re.M)
MAX_WORDS = 40
MAX_SHOWN = 9


class Place(NamedTuple):
    """A place that counts as `number`."""

    path: str
    line: int
    text: str = ""
    number: int = 1

    def __str__(self):
        return self.text or f"{self.path}:{self.line}"


class Measure(NamedTuple):
    """A number of each room: the sum of its places."""

    unit: str
    advice: str
    places: Callable


def lines(tree):
    """Lines of code, with comments and blank ones. JSON, Markdown, pictures and data of tests are no code."""
    for path, text in tree.code.items():
        number = text.count("\n")
        yield Place(path, 1, f"{path} {number}", number)


def files(tree):
    """Files of code."""
    for path in tree.code:
        yield Place(path, 1, path)


def exemptions(tree):
    """Lines that permit an include against the layers."""
    for source in tree.sources:
        for match in ALLOW.finditer(source.text):
            if match[1] == "layers":
                yield Place(source.path, source.line(match.start()))


def modules(tree):
    """Module of the product -> modules that it includes. A module is a header with its source file."""
    graph = {}
    for source in tree.sources:
        if not source.path.startswith("tests/"):
            included = (source.resolve(path, tree) for _, path, quoted in source.includes if quoted)
            name = posixpath.splitext(source.path)[0]
            graph.setdefault(name, set()).update(posixpath.splitext(path)[0] for path in included if path in tree.by_path)
    return graph


def strongly_connected(graph):
    """The strongly connected components of a graph, by Tarjan's algorithm."""
    order, lowest, stack, components = {}, {}, [], []

    def visit(node):
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for following in graph.get(node, ()):
            if following not in order:
                visit(following)
            if following in stack:
                lowest[node] = min(lowest[node], lowest[following])
        if lowest[node] == order[node]:
            position = stack.index(node)
            components.append(sorted(stack[position:]))
            del stack[position:]

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return components


def cycles(tree):
    """Lists of modules that include each other, at least through others."""
    return sorted(component for component in strongly_connected(modules(tree)) if len(component) > 1)


def circles(tree):
    """Circles of modules, each in the room of its first module."""
    for cycle in cycles(tree):
        yield Place(cycle[0], 1, " <-> ".join(cycle))


def circle_modules(tree):
    """Modules in circles: the number of circles alone would let a circle grow, or two become one."""
    for module in sum(cycles(tree), []):
        yield Place(module, 1, module)


def functions(tree):
    """Lines with std::function."""
    for source in tree.sources:
        if "std::function" in source.text:
            for number, line in enumerate(source.code.split("\n"), 1):
                if "std::function" in line:
                    yield Place(source.path, number)


def comments(tree):
    """Lines of comments that begin with a word of WORDS: half a sentence, whose noun the reader has to find."""
    for path, text in tree.code.items():
        for match in COMMENT.finditer(text):
            yield Place(path, text.count("\n", 0, match.start()) + 1)


def blocks(text, cells):
    """(line, text) of each piece of prose in Markdown: a paragraph, an item of a list and, if `cells`, a cell of a table.

    Code blocks (fenced or indented), HTML comments and headings are left out. A paragraph or an item goes on until a blank
    line, a heading, a table, a code block or the next item.
    """
    found, is_open, fence = [], False, None
    text = re.sub(r"<!--.*?-->", lambda match: "\n" * match[0].count("\n"), text, flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        content = re.sub(r"^(?:>\s?)+", "", line.strip())
        mark = re.match(r"`{3,}|~{3,}", content)
        item = re.match(r"(?:[-*+]|\d+[.)])\s+(.*)", content)
        if fence or mark:
            if fence is None:
                fence = mark[0]
            elif mark and mark[0].startswith(fence):
                fence = None
            is_open = False
        elif not content or re.match(r"#+\s", content):
            is_open = False
        elif content.startswith("|"):
            found += [(number, cell) for cell in re.split(r"(?<!\\)\|", content) if cells]
            is_open = False
        elif is_open and not item:
            found[-1] = (found[-1][0], found[-1][1] + "\n" + content)
        elif item or not line.startswith("    "):
            found.append((number, item[1] if item else content))
            is_open = True
    return found


def sentences_of(text, cells=True):
    """(line, words) of each sentence in Markdown.

    A sentence ends at a full stop, a question mark or an exclamation mark, if a blank and no small letter follow. It also
    ends with its paragraph, item or cell, but not at a colon or a semicolon. Words stand between blanks and have a letter
    or a digit. `code` counts as one word, and a link as the words of its text.
    """
    for line, prose in blocks(text, cells):
        prose = re.sub(r"`+[^`]+`+", lambda match: "`…`" + "\n" * match[0].count("\n"), prose)
        prose = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", prose)
        for match in re.finditer(r"\S.*?(?:(?<!e\.g)(?<!i\.e)[.!?][\"')*_\]]*(?=\s+[^\sa-z]|\s*$)|\s*\Z)", prose, re.S):
            yield line + prose.count("\n", 0, match.start()), re.findall(r"\S*[\w`]\S*", match[0])


def sentences(tree):
    """Sentences of docs/ and SECURITY.md over MAX_WORDS words."""
    for path in [*sorted((tree.root / "docs").rglob("*.md")), tree.root / "SECURITY.md"]:
        for line, words in sentences_of(path.read_text("utf-8")) if path.is_file() else ():
            if len(words) > MAX_WORDS:
                name = path.relative_to(tree.root).as_posix()
                yield Place(name, line, f"{name}:{line} ({len(words)} words: {' '.join(words[:5])} …)")


MEASURES = {
    "budget-lines": Measure("lines of {kind}", "shorten or delete code", lines),
    "budget-files": Measure("files of {kind}", "put it into a file that is there", files),
    "budget-exemptions": Measure("exemptions from the layer rule", "move what is included to a lower layer", exemptions),
    "budget-circles": Measure("circles of modules", "take an include out of the circle", circles),
    "budget-circle-modules": Measure("modules in circles", "take an include out of the circle", circle_modules),
    "budget-functions": Measure("lines with std::function", "use a coroutine or an interface", functions),
    "budget-comments": Measure("hanging comments", f"begin with no {', '.join(WORDS)}", comments),
    "budget-sentences": Measure(f"sentences over {MAX_WORDS} words", "split them", sentences),
}


def room(path):
    return "/".join(path.split("/")[:-1][:2]) or path


def kind(name):
    first = name.split("/")[0]
    return first if first in ("tests", "clients") else "product"


@functools.cache
def by_room(measure, tree):
    """Room -> its places."""
    rooms = {}
    for place in measure.places(tree):
        rooms.setdefault(room(place.path), []).append(place)
    return rooms


def key(name, measure):
    return f"{name}: {measure.unit.format(kind=kind(name))}"


def numbers(tree):
    """The entry of each number -> what it is now."""
    return {
        key(name, measure): sum(place.number for place in places)
        for measure in MEASURES.values()
        for name, places in by_room(measure, tree).items()
    }


def read(text):
    """The entries. Marks of a conflict are skipped; of an entry that both sides have, the larger number is taken."""
    entries = {}
    for match in ENTRY.finditer(text):
        name, entry = match[1], json.loads(match[2])
        if name not in entries or entry["number"] > entries[name]["number"]:
            entries[name] = entry
    return entries


def written(entries):
    rows = (f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in sorted(entries.items()))
    return "{\n" + ",\n".join(rows) + "\n}\n"


def text_of(tree):
    path = tree.root / FILE
    return path.read_text("utf-8") if path.is_file() else written({})


def refusing(name, measure):
    """The rule that no room has more than the budget says."""

    def rule(tree):
        entries = read(text_of(tree))
        for where, places in sorted(by_room(measure, tree).items()):
            entry = key(where, measure)
            most, number = entries.get(entry, {"number": 0})["number"], sum(place.number for place in places)
            if number > most:
                change = f"{most:,} {entry.partition(': ')[2]}, {number:,} now"
                shown = ", ".join(map(str, places)) if len(places) <= MAX_SHOWN else f"see scripts/check --places {name}"
                yield where, 1, f"{change}: {measure.advice}, or scripts/check --raise REASON. Counted: {shown}"

    rule.__doc__ = f"No room has more {measure.unit.format(kind='product, tests or clients')} than {FILE} says."
    return rule


def fallen(tree):
    """How many numbers are lower than the budget has them."""
    now = numbers(tree)
    return sum(now.get(name, 0) < entry["number"] for name, entry in read(text_of(tree)).items())


def sums(tree):
    """Unit -> the sum over all rooms."""
    units = {}
    for entry, number in numbers(tree).items():
        unit = entry.partition(": ")[2]
        units[unit] = units.get(unit, 0) + number
    return units


def before(root, text):
    """The budget before `text`: in HEAD, or in the commit before where HEAD has this one. None without such a commit."""
    for commit in ("HEAD", "HEAD~1") if shutil.which("git") else ():
        shown = subprocess.run(["git", "-C", root, "show", f"{commit}:./{FILE}"], capture_output=True, encoding="utf-8")
        if shown.returncode != 0 or shown.stdout != text:
            return shown.stdout if shown.returncode == 0 else None
    return None


def form(tree):
    """The budget is as --lower writes it, and has a new reason for each number that rose since the last commit."""
    text = text_of(tree)
    entries = read(text)
    if text != written(entries):
        yield FILE, 1, "is not as scripts/check --lower writes it, which also takes the marks of a conflict away"
    old = before(tree.root, text)
    past = read(old) if old else entries
    for name, entry in entries.items():
        earlier = past.get(name, {"number": 0})
        if entry["number"] > earlier["number"] and entry.get("because", "").strip() in ("", earlier.get("because")):
            yield FILE, 1, f'"{name}" rose from {earlier["number"]:,} to {entry["number"]:,}: a new "because" has to say why'


RULES = {"budget": form, **{name: refusing(name, measure) for name, measure in MEASURES.items()}}


# No reason raises these.
FIXED = {MEASURES[rule].unit for rule in ("budget-exemptions", "budget-circles", "budget-circle-modules")}


def settle(tree, reason=None):
    """Writes every number that fell; with a reason also those that rose and may. Returns a sentence for each."""
    text = text_of(tree)
    entries, now, changes = read(text), numbers(tree), []
    for name in sorted({*entries, *now}):
        entry, number = entries.get(name, {"number": 0}), now.get(name, 0)
        if number < entry["number"] or (number > entry["number"] and reason and name.split(": ")[-1] not in FIXED):
            changes.append(f"{name}: {entry['number']:,} before, {number:,} now")
            because = {"because": " ".join(reason.split())} if number > entry["number"] else {}
            entries[name] = {**entry, "number": number, **because}
    after = written({name: entry for name, entry in entries.items() if entry["number"]})
    if after != text:
        (tree.root / FILE).write_text(after, "utf-8")
    return changes
