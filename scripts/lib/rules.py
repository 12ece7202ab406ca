"""The rules of scripts/check. Each is a function of a Tree that yields (path, line, sentence).

`// check-allow: RULE reason`, on the line or the one above, permits what a regex cannot judge.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import budget
from source import DATA_FOLDERS, FOLDERS

MAX_LINES = 600
MAX_BEAST_FILES = 5
MAX_MEAN_WORDS = 18
PLAIN_PAGES = (
    "SECURITY.md",
    "docs/code-mode.md",
    "docs/files.md",
    "docs/operations/limits-and-capacity.md",
    "docs/operations/service.md",
    "docs/previews.md",
    "docs/tools.md",
)
# Formatting differs between releases of clang-format: one of them decides.
CLANG_FORMAT = "14"

CORE = ("core/plain/", "core/base/", "core/egress/", "core/secrets/", "core/sandbox/", "core/conversation/", "core/store/", "core/isolation/", "core/execution/")
# The guest links nothing of the host's but this room.
SHARED = "core/plain/"
# First prefix that fits a file -> the folders that it may include, besides its own.
LAYERS = (
    (SHARED, ()),
    ("core/base/", (SHARED,)),
    ("core/egress/", (SHARED, "core/base/")),
    ("core/secrets/", (SHARED, "core/base/", "core/egress/")),
    ("core/sandbox/", (SHARED, "core/base/", "core/egress/")),
    ("core/conversation/", (SHARED, "core/base/", "core/egress/", "core/sandbox/")),
    ("core/store/", (SHARED, "core/base/", "core/egress/", "core/secrets/", "core/sandbox/", "core/conversation/")),
    ("core/isolation/", (SHARED, "core/base/", "core/egress/", "core/sandbox/")),
    ("core/execution/", (SHARED, "core/base/", "core/egress/", "core/sandbox/")),
    ("bridge/guest/", ("bridge/", SHARED)),
    ("bridge/agents/", ("bridge/", SHARED)),
    ("bridge/adapters/", ("bridge/", SHARED)),
    ("bridge/", CORE),
    ("cgroup/", CORE),
    ("fs-guard/", CORE),
    ("http/wire/", (SHARED, "core/base/")),
    ("http/websocket/", (SHARED, "core/base/", "http/wire/")),
    ("http/access/", CORE + ("http/wire/",)),
    ("http/server/", CORE + ("http/wire/", "http/websocket/", "http/access/")),
    ("http/proxy/", CORE + ("http/wire/", "http/access/", "http/server/")),
    ("http/egress/", CORE + ("http/wire/", "http/access/", "http/server/", "http/proxy/")),
    ("http/console/", (SHARED, "core/base/", "http/wire/", "http/server/")),
    ("http/api/", CORE + ("bridge/", "http/")),
    ("app/", CORE + ("bridge/", "cgroup/", "fs-guard/", "http/")),
    ("tests/", CORE + ("bridge/", "cgroup/", "fs-guard/", "http/", "app/")),
)
# Pure logic: it reaches the world only through ports.
PURE = ("core/egress/", "core/secrets/", "core/sandbox/", "core/conversation/")
KERNEL = re.compile(r"(?:sys|linux|net|netinet|arpa)/(?!types\.h)|(?:unistd|fcntl|signal|poll|spawn|sched|netdb|ifaddrs)\.h")
INSIDE = ("bridge/guest/", "bridge/agents/", "bridge/adapters/")
# Asio, Beast and Process are compiled there, once.
BOOST_SOURCE = "core/base/boost_src.cpp"


def layers(tree):
    """Includes follow the layers of the architecture; the guest's also through other headers."""
    for source in tree.sources:
        own, allowed = next(((p, a) for p, a in LAYERS if source.path.startswith(p)), (None, ()))
        if own is None:
            yield source.path, 1, "is in no known layer"
            continue
        for position, included, quoted in source.includes:
            line = source.line(position)
            if not quoted:
                if own in PURE and KERNEL.match(included):
                    yield source.path, line, f"{own} must not call the kernel: <{included}>"
                continue
            included = source.resolve(included, tree)
            if not included.startswith(tuple(folder + "/" for folder in FOLDERS)):
                yield source.path, line, f'"{included}" is none of our headers'
            elif own in INSIDE and included.startswith("core/"):
                continue  # reaches() tells it
            elif not included.startswith((own,) + tuple(allowed)):
                yield source.path, line, f"{own} must not include {included}"
            elif own == "bridge/" and included.startswith(INSIDE):
                yield source.path, line, f"the host's end of the bridge must not include {included}"
        if own in INSIDE:
            yield from reaches(tree, source)


def reaches(tree, source):
    """Headers of the host that a file of the guest includes through headers of the bridge."""
    seen, queue = set(), [(p, source.resolve(i, tree)) for p, i, quoted in source.includes if quoted]
    while queue:
        position, included = queue.pop()
        if included in seen:
            continue
        seen.add(included)
        # Includes of another file of the guest are reported there.
        if included in tree.by_path and not included.startswith(INSIDE):
            header = tree.by_path[included]
            queue += [(position, header.resolve(i, tree)) for _, i, quoted in header.includes if quoted]
        if not included.startswith(("bridge/", SHARED)):
            yield source.path, source.line(position), f"the guest must not reach {included}"


def beast(tree):
    """Beast is heavy to compile: only in .cpp files of http (and of tests), and in few of them."""
    users = []
    for source in tree.sources:
        lines = [source.line(p) for p, included, _ in source.includes if included.startswith("boost/beast")]
        if not lines or source.path == BOOST_SOURCE:
            continue
        if not (source.path.startswith(("http/", "tests/")) and source.path.endswith(".cpp")):
            yield source.path, lines[0], "Beast belongs into .cpp files of http"
        elif source.path.startswith("http/"):
            users.append(source.path)
    if len(users) > MAX_BEAST_FILES:
        yield users[-1], 1, f"{len(users)} files of http include Beast, at most {MAX_BEAST_FILES} may"


def whole_library_include(tree):
    """<boost/asio.hpp> and its like triple the time to compile a file."""
    whole = ("boost/asio.hpp", "boost/beast.hpp", "boost/process.hpp", "boost/process/v2.hpp")
    for source in tree.sources:
        for position, included, _ in source.includes:
            if included in whole and source.path != BOOST_SOURCE:
                yield source.path, source.line(position), f"<{included}>: include the narrow headers"


def search(pattern, sentence, where=lambda path: True):
    """A rule that a pattern must not occur in code."""
    compiled = re.compile(pattern)

    def rule(tree):
        for source in tree.sources:
            if where(source.path):
                for match in compiled.finditer(source.code):
                    yield source.path, source.line(match.start()), sentence

    rule.__doc__ = sentence
    return rule


def product(path):
    return not path.startswith("tests/")


def unclosed(code, start, end):
    """Positions of the parentheses that are open at `end`, outermost first."""
    opened = []
    for position in range(start, end):
        if code[position] == "(":
            opened.append(position)
        elif code[position] == ")" and opened:
            opened.pop()
    return opened


def statements_with_co_await(source):
    """(position, statement, operand) of each co_await: the statement or condition that it is in, and what follows it."""
    code = source.code
    for match in re.finditer(r"\bco_await\b", code):
        start = max(code.rfind(c, 0, match.start()) for c in ";{}") + 1
        opened = unclosed(code, start, match.start())
        end, depth, operand_end = match.end(), 0, None
        while end < len(code):
            depth += (code[end] in "([{") - (code[end] in ")]}")
            if depth < 0:
                operand_end = operand_end or end
                if code[end] != ")" or not opened:
                    break
                if re.search(r"\b(?:if|while|for|switch)\s*(?:constexpr\s*)?$", code[: opened.pop()]):
                    break
                depth = 0
            if depth == 0 and code[end] == ";":
                break
            end += 1
        yield match.start(), code[start:end], code[match.end() : operand_end or end]


def co_await_temporary(tree):
    """GCC 12 destroys some temporaries of a co_await expression twice: give them a name first."""
    harmless = r"\s*(?:this|&\s*\w*(?:\s*,\s*&\s*\w+)*)?\s*\]"
    owning_lambda = re.compile(r"[(,\s]\[(?!" + harmless + r")[^\]\n]*\]\s*[({]")
    aggregate = re.compile(r"[(,]\s*\{|\b[A-Z]\w*(?:<[^;{}()]*>)?\s*\{")
    aggregate_around = re.compile(r"\b[A-Z]\w*(?:<[^;{}()]*>)?\s*\{[^;{}]*\bco_await\b")
    ternary = re.compile(r"\?[^:;]*(?:::[^:;]*)*(?<!:):(?!:)")
    for source in tree.sources:
        for match in aggregate_around.finditer(source.code):
            yield source.path, source.line(match.start()), "a co_await inside an aggregate"
        for position, statement, operand in statements_with_co_await(source):
            line = source.line(position)
            if owning_lambda.search(operand):
                yield source.path, line, "a lambda with captures inside a co_await expression"
            if aggregate.search(operand):
                yield source.path, line, "an aggregate inside a co_await expression"
            if ternary.search(statement):
                yield source.path, line, "a ternary inside a co_await expression"


def co_await_operator(tree):
    """`co_await a && co_await b` breaks GCC 12, and awaitable operators swallow exceptions of a branch."""
    both = re.compile(r"\bco_await\b[^;{}]*(?:&&|\|\|)[^;{}]*\bco_await\b")
    for source in tree.sources:
        for match in both.finditer(source.code):
            yield source.path, source.line(match.start()), "two co_awaits joined by && or ||: one statement each"
        for position, included, _ in source.includes:
            if included.endswith("awaitable_operators.hpp"):
                yield source.path, source.line(position), "awaitable operators lose errors: use parallel_group"


def long_file(tree):
    """A file that needs a table of contents is two files."""
    for path in tree.own_files:
        data = DATA_FOLDERS.intersection(path.relative_to(tree.root).parts)
        if data or path.suffix not in (".hpp", ".cpp", ".py", ".js", ".mjs", ".ts", ".sh", ".txt", ".cmake", ""):
            continue
        lines = path.read_bytes().count(b"\n")
        if lines > MAX_LINES:
            yield path.relative_to(tree.root).as_posix(), 1, f"{lines} lines, at most {MAX_LINES}: split it"


def readme(tree):
    """Every folder with files has a README.md."""
    folders = {path.parent for path in tree.own_files}
    for folder in sorted(folders):
        name = folder.relative_to(tree.root)
        # The unit tests mirror the folders of the source: one README tells it.
        mirrored = name.parts[:2] == ("tests", "unit") and len(name.parts) > 2
        if name.parts[0].startswith(".") or mirrored or DATA_FOLDERS.intersection(name.parts):
            continue
        if not (folder / "README.md").is_file():
            yield name.as_posix(), 1, "has no README.md"


def script_usage(tree):
    """Every script prints its usage with -h."""
    scripts = tree.root / "scripts"
    for path in sorted(scripts.iterdir()) if scripts.is_dir() else ():
        if not path.is_file() or path.suffix == ".md":
            continue
        name = path.relative_to(tree.root).as_posix()
        if not os.access(path, os.X_OK):
            yield name, 1, "is not executable"
            continue
        result = subprocess.run([path, "-h"], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
        if result.returncode != 0 or not result.stdout.startswith("Usage:"):
            yield name, 1, "does not print its usage with -h"


def test_namespace(tree):
    """Test files are compiled several as one: what each declares is in a namespace of its own, named after the file."""
    for source in tree.sources:
        path = Path(source.path)
        if not source.path.startswith("tests/") or not path.name.endswith("_test.cpp"):
            continue
        after_includes = re.sub(r"(?m)^\s*#\s*include\b.*$", "", source.code).lstrip()
        if not re.match(rf"namespace (?:atl::\w+::)?(?:{path.parent.name}_)?{path.stem} \{{", after_includes):
            yield source.path, 1, f"is in no namespace of its own: namespace {path.stem} {{ around all after the includes"


def python_sleep(tree):
    """A test waits for a condition, never for time to pass."""
    for path in tree.own_files:
        if path.suffix == ".py" and path.is_relative_to(tree.root / "tests"):
            for number, line in enumerate(path.read_text().split("\n"), 1):
                if re.search(r"\btime\.sleep\(|\basyncio\.sleep\((?!0\))", line):
                    yield path.relative_to(tree.root).as_posix(), number, "wait for a condition, not for time"


def formatting(tree):
    """All sources are formatted by .clang-format."""
    program = shutil.which(f"clang-format-{CLANG_FORMAT}") or shutil.which("clang-format")
    if program is None:
        yield ".clang-format", 1, "clang-format is missing: run scripts/setup --tests"
        return
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    if f"version {CLANG_FORMAT}." not in version:
        print(f"note: formatting is judged by clang-format {CLANG_FORMAT}; here is {version.strip()}: not judged")
        return
    files = [source.path for source in tree.sources]
    result = subprocess.run([program, "--dry-run", "-Werror", *files], cwd=tree.root, capture_output=True, text=True)
    seen = set()
    for match in re.finditer(r"^([^:\n]+):(\d+):\d+: error", result.stderr, re.M):
        if match[1] not in seen:
            seen.add(match[1])
            yield match[1], int(match[2]), "is not formatted: clang-format -i"
    if result.returncode != 0 and not seen:
        yield ".clang-format", 1, f"clang-format failed: {result.stderr.strip()[:300]}"


def plain_words(tree):
    """The sentences of the longest pages have few words. Code, tables and the targets of links do not count."""
    for page in PLAIN_PAGES:
        text = (tree.root / page).read_text("utf-8") if (tree.root / page).is_file() else ""
        lengths = []
        for line, words in budget.sentences_of(text, cells=False):
            lengths.append(len(words))
            if len(words) > budget.MAX_WORDS:
                yield page, line, f"a sentence of {len(words)} words, at most {budget.MAX_WORDS}: split it"
        if sum(lengths) > MAX_MEAN_WORDS * len(lengths):
            mean = sum(lengths) / len(lengths)
            yield page, 1, f"{mean:.1f} words a sentence, at most {MAX_MEAN_WORDS} on average: one fact a sentence"


def nothing_found(tree):
    """A check over no files would pass for the wrong reason."""
    if not tree.sources:
        yield ".", 1, "no source files found"


RULES = {
    "files": nothing_found,
    "format": formatting,
    "layers": layers,
    "beast": beast,
    "whole-library": whole_library_include,
    "detached": search(r"\bdetached\b", "spawn through a task group: asio::detached loses errors"),
    "context-stop": search(
        r"\b(?:\w*_)?(?:io|ioc|ctx|context|io_context)_?\s*(?:\.|->|\(\)\.)\s*stop\s*\(",
        "io_context::stop() drops work: run() returns when none is left",
    ),
    "sleep": search(
        r"\bsleep_(?:for|until)\b|\b(?:u|nano|clock_nano)?sleep\s*\(",
        "wait for a condition with a deadline, not for time to pass",
    ),
    "python-sleep": python_sleep,
    "mutex": search(
        r"\bstd::(?:recursive_|shared_|timed_|recursive_timed_)?mutex\b|\b(?:make_)?strand\b",
        "one thread: no mutexes and no strands",
        product,
    ),
    "co-await-temporary": co_await_temporary,
    "co-await-operator": co_await_operator,
    "long-file": long_file,
    "test-namespace": test_namespace,
    "readme": readme,
    "plain-words": plain_words,
    "script-usage": script_usage,
    **budget.RULES,
}


def findings(tree, names):
    """(rule, path, line, sentence) of everything that the named rules refuse, without exempted lines."""
    for name in names:
        for path, line, sentence in RULES[name](tree):
            source = tree.by_path.get(path)
            if source is None or name not in source.allowed.get(line, ()):
                yield name, path, line, sentence
