"""The self-test of scripts/check: each rule gets samples that it must refuse and samples that it must accept."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import budget
import rules
from source import Tree

# (rule, {path: text}): each must be refused by that rule.
BAD = [
    ("format", {"core/base/a.hpp": "int   f( );\n"}),
    ("layers", {"core/base/a.hpp": '#include "core/sandbox/types.hpp"\n'}),
    ("layers", {"core/egress/a.cpp": '#include "core/sandbox/types.hpp"\n'}),
    ("layers", {"core/egress/a.cpp": "#include <netdb.h>\n"}),
    ("layers", {"core/sandbox/a.cpp": '#include "core/isolation/launcher.hpp"\n'}),
    ("layers", {"core/conversation/a.cpp": '#include "core/store/store.hpp"\n'}),
    ("layers", {"core/store/a.cpp": '#include "core/isolation/a.hpp"\n'}),
    ("layers", {"core/isolation/a.cpp": '#include "core/conversation/a.hpp"\n'}),
    ("layers", {"core/sandbox/a.cpp": '#include "bridge/protocol.hpp"\n'}),
    ("layers", {"core/sandbox/a.cpp": "#include <unistd.h>\n"}),
    ("layers", {"core/conversation/a.cpp": "#include <sys/socket.h>\n"}),
    ("layers", {"bridge/a.cpp": '#include "http/server/server.hpp"\n'}),
    ("layers", {"bridge/a.cpp": '#include "bridge/guest/guest.hpp"\n'}),
    ("layers", {"bridge/guest/a.cpp": '#include "core/base/error.hpp"\n'}),
    ("layers", {"bridge/agents/a.cpp": '#include "bridge/p.hpp"\n', "bridge/p.hpp": '#include "core/base/log.hpp"\n'}),
    ("layers", {"cgroup/a.cpp": '#include "bridge/protocol.hpp"\n'}),
    ("layers", {"fs-guard/a.cpp": '#include "cgroup/cgroup.hpp"\n'}),
    ("layers", {"http/a.cpp": '#include "core/base/a.hpp"\n'}),
    ("layers", {"http/api/a.cpp": '#include "app/config.hpp"\n'}),
    ("layers", {"http/api/a.cpp": '#include "cgroup/cgroup.hpp"\n'}),
    ("layers", {"http/wire/a.cpp": '#include "http/access/a.hpp"\n'}),
    ("layers", {"http/wire/a.cpp": '#include "core/conversation/a.hpp"\n'}),
    ("layers", {"http/websocket/a.cpp": '#include "http/server/a.hpp"\n'}),
    ("layers", {"http/access/a.cpp": '#include "http/server/a.hpp"\n'}),
    ("layers", {"http/access/a.cpp": '#include "http/websocket/a.hpp"\n'}),
    ("layers", {"http/server/a.cpp": '#include "http/api/a.hpp"\n'}),
    ("layers", {"http/server/a.cpp": '#include "bridge/a.hpp"\n'}),
    ("layers", {"http/console/a.cpp": '#include "http/api/a.hpp"\n'}),
    ("layers", {"app/a.cpp": '#include "tests/support/a.hpp"\n'}),
    ("layers", {"app/a.cpp": '#include "config.hpp"\n'}),
    ("layers", {"core/base/a.cpp": '#include "../sandbox/b.hpp"\n', "core/sandbox/b.hpp": ""}),
    ("beast", {"http/a.hpp": "#include <boost/beast/http/wire/message.hpp>\n"}),
    ("beast", {"bridge/a.cpp": "#include <boost/beast/core/flat_buffer.hpp>\n"}),
    ("beast", {f"http/a{n}.cpp": "#include <boost/beast/http/read.hpp>\n" for n in range(6)}),
    ("whole-library", {"http/a.cpp": "#include <boost/asio.hpp>\n"}),
    ("detached", {"http/a.cpp": "void f() { asio::co_spawn(ex, g(), asio::detached); }\n"}),
    ("context-stop", {"app/a.cpp": "void f() { io_context.stop(); }\n"}),
    ("context-stop", {"app/a.cpp": "void f() { context_->stop(); }\n"}),
    ("sleep", {"tests/unit/a.cpp": "void f() { std::this_thread::sleep_for(10ms); }\n"}),
    ("sleep", {"tests/unit/a.cpp": "void f() { usleep(10); }\n"}),
    ("sleep", {"tests/unit/a.cpp": "void f() { ::sleep(1); }\n"}),
    ("python-sleep", {"tests/integration/a.py": "time.sleep(1)\n"}),
    ("mutex", {"core/base/a.hpp": "std::mutex m;\n"}),
    ("mutex", {"http/a.cpp": "auto s = asio::make_strand(ex);\n"}),
    ("co-await-temporary", {"http/a.cpp": "Task<> f() { co_await send(Message{text}); }\n"}),
    ("co-await-temporary", {"http/a.cpp": "Task<> f() { co_await send({.text = text}); }\n"}),
    ("co-await-temporary", {"http/a.cpp": "Task<> f() { co_await Timer{ex}; }\n"}),
    ("co-await-temporary", {"http/a.cpp": "Task<> f() { co_await asio::co_spawn(ex, [x]() { return g(x); }); }\n"}),
    ("co-await-temporary", {"http/a.cpp": "Task<> f() { co_await g([s = std::move(s)] { h(s); }); }\n"}),
    ("co-await-temporary", {"http/a.cpp": "Task<> f() { co_await g(a ? b : c); }\n"}),
    ("co-await-temporary", {"http/a.cpp": "Task<> f() { auto x = a ? co_await b() : std::string(); }\n"}),
    ("co-await-temporary", {"http/a.cpp": "Task<> f() { auto x = (co_await b()) ? std::string() : c; }\n"}),
    ("co-await-temporary", {"http/a.cpp": "Task<> f() { auto x = Pair{co_await a(), co_await b()}; }\n"}),
    ("co-await-operator", {"http/a.cpp": "Task<> f() { if (co_await a() && co_await b()) g(); }\n"}),
    ("co-await-operator", {"http/a.cpp": "#include <boost/asio/experimental/awaitable_operators.hpp>\n"}),
    ("long-file", {"core/base/a.cpp": "// line\n" * 601}),
    ("long-file", {"clients/js/a.js": "// line\n" * 601}),
    ("test-namespace", {"tests/unit/a_test.cpp": "#include <string>\n\nnamespace {\nint f() { return 1; }\n}\n"}),
    ("test-namespace", {"tests/unit/a_test.cpp": "namespace atl::test {\n}\n"}),
    ("test-namespace", {"tests/unit/a_test.cpp": "int f();\nnamespace a_test {\n}\n"}),
    ("readme", {"cgroup/a.cpp": ""}),
    ("readme", {"clients/js/a.js": "", "clients/README.md": "Clients.\n"}),
    ("readme", {"clients/a/a.py": "", "clients/README.md": "Clients.\n"}),
    ("readme", {"tests/unit/a.cpp": "", "tests/README.md": "Tests.\n"}),
    ("plain-words", {"docs/tools.md": "A word. " * 9 + "word " * 41}),
    ("plain-words", {"SECURITY.md": "word " * 18 + "word. Word " + "word " * 17}),
    ("script-usage", {"scripts/a": "#!/bin/sh\nexit 0\n"}),
    ("script-usage", {"scripts/a": "#!/bin/sh\necho Usage:; exit 1\n"}),
    ("files", {"README.md": "no sources\n"}),
]

# Each must be accepted by every rule that is named.
GOOD = [
    (["layers"], {
        "core/base/a.hpp": "#include <string>\n",
        "core/sandbox/a.hpp": '#include <sys/types.h>\n#include "core/base/a.hpp"\n',
        "core/conversation/a.hpp": '#include "core/sandbox/a.hpp"\n',
        "core/store/a.hpp": '#include "core/conversation/a.hpp"\n',
        "core/isolation/a.hpp": '#include "core/sandbox/a.hpp"\n',
        "bridge/a.hpp": '#include "core/plain/guest_limits.hpp"\n',
        "bridge/guest/a.cpp": '#include "bridge/a.hpp"\n#include "bridge/agents/a.hpp"\n',
        "http/wire/a.hpp": '#include "core/base/a.hpp"\n',
        "http/websocket/a.hpp": '#include "http/wire/a.hpp"\n',
        "http/access/a.hpp": '#include "http/wire/a.hpp"\n#include "core/sandbox/a.hpp"\n',
        "http/server/a.hpp": '#include "http/access/a.hpp"\n#include "http/websocket/a.hpp"\n',
        "http/console/a.hpp": '#include "http/server/a.hpp"\n',
        "http/api/a.hpp": '#include "bridge/a.hpp"\n#include "core/store/a.hpp"\n#include "http/console/a.hpp"\n',
        "app/a.cpp": '#include "http/api/a.hpp"\n#include "cgroup/a.hpp"\n#include "fs-guard/a.hpp"\n',
        "tests/unit/a.cpp": '#include "app/config.hpp"\n#include "../support/b.hpp"\n#include "c.hpp"\n',
        "tests/unit/c.hpp": "",
        "tests/support/b.hpp": "",
    }),
    (["beast", "whole-library"], {
        "http/a.cpp": "#include <boost/beast/http/read.hpp>\n#include <boost/asio/awaitable.hpp>\n",
        "core/base/boost_src.cpp": "#include <boost/beast/src.hpp>\n",
    }),
    (["sleep", "detached", "mutex"], {
        "tests/unit/a.cpp": '// never sleep_for(1ms) or asio::detached\nauto s = "sleep(1)"; auto r = R"(std::mutex)";\n',
        "core/base/a.hpp": "void f(int fd); int asleep(int n); auto n = 10'000; char c = '\"'; int g();\n",
    }),
    (["sleep"], {"tests/unit/a.cpp": "// check-allow: sleep shows how long the kernel takes\nusleep(1);\n"}),
    (["context-stop"], {"app/a.cpp": "void f() { timers_.stop(); session.stop(); }\n"}),
    (["co-await-temporary", "co-await-operator"], {
        "http/a.cpp": "Task<Result<int>> Server::f() {\n"
                      "    auto x = co_await g(named, std::move(other));\n"
                      "    if (auto y = co_await g(1); y && x) {\n        use(Message{y});\n    }\n"
                      "    while (!co_await h(this, [this] { return done_; })) {\n        n = a ? b : c;\n    }\n"
                      "    auto [ec, n] = co_await s.async_read_some(asio::buffer(data_), asio::as_tuple(token));\n"
                      "    if (co_await g(this, [&] { return 1; }))\n        use(a ? b : c);\n"
                      "    if (!(co_await g()))\n        co_return Message{};\n"
                      "    auto z = a ? b : c;\n    auto f = [x] { return x; };\n    co_await g(f);\n"
                      "    co_return std::string{};\n}\n",
    }),
    (["readme", "long-file"], {"cgroup/a.cpp": "// line\n" * 600, "cgroup/README.md": "Groups.\n"}),
    (["readme"], {"clients/a.js": "", "clients/README.md": "Clients.\n", "clients/node_modules/a/b.js": ""}),
    (["test-namespace"], {
        "tests/unit/a_test.cpp": "// A.\n#include <string>\n\n#include \"b.hpp\"\n\nnamespace a_test {\n}\n",
        "tests/unit/http/a_test.cpp": "namespace http_a_test {\n}\n",
        "tests/unit/c_test.cpp": "#include <string>\nnamespace atl::test::c_test {\n}\n",
    }),
    (["plain-words"], {
        "docs/files.md": f"{'word ' * 39}word. A word.\n\n    {'word ' * 50}\n\n| {'word ' * 50} |\n\n- {'word ' * 12}",
        "docs/other.md": "word " * 50,
    }),
    (["script-usage"], {"scripts/a": "#!/bin/sh\necho Usage: a\n", "scripts/README.md": "Scripts.\n"}),
    (["format", "files"], {"core/base/a.hpp": "int f();\n"}),
]

LONG, SHORT = "word " * 40 + "word. ", "word " * 30
CIRCLE = {
    "core/base/a.hpp": '#include "core/base/b.hpp"\n',
    "core/base/b.cpp": '#include "c.hpp"\n',
    "core/base/b.hpp": "",
    "core/base/c.hpp": '#include "core/base/a.hpp"\n#include "core/base/d.hpp"\n',
    "core/base/d.hpp": "",
}
# (rule, {path: text}, entry of the budget, the number that it has to be).
BUDGETED = [
    ("budget-lines", {"core/base/x/a.hpp": "\n// A.\n", "core/base/README.md": "A.\n"}, "core/base: lines of product", 2),
    ("budget-lines", {"tests/unit/http/a.cpp": "int a;\n", "tests/unit/data/a": "A.\n"}, "tests/unit: lines of tests", 1),
    ("budget-lines", {"clients/js/src/a.js": "let a;\n", "clients/js/b.json": "{}\n"}, "clients/js: lines of clients", 1),
    ("budget-lines", {"CMakeLists.txt": "project(a)\n"}, "CMakeLists.txt: lines of product", 1),
    ("budget-files", {"app/a.hpp": "", "app/a.cpp": "", "app/README.md": ""}, "app: files of product", 2),
    ("budget-exemptions", {"bridge/guest/a.hpp": "// check-allow: layers a reason\n// check-allow: sleep a reason\n"},
     "bridge/guest: exemptions from the layer rule", 1),
    ("budget-circles", CIRCLE, "core/base: circles of modules", 1),
    ("budget-circle-modules", CIRCLE, "core/base: modules in circles", 3),
    ("budget-functions", {"app/a.hpp": "std::function<void()> f; // std::function\n// std::function\n"},
     "app: lines with std::function", 1),
    ("budget-comments", {"app/a.cpp": "int a;  //"
     " Of it.\n/// What it is.\n// It is. Of it.\n// Often.\nint b = a * One;\n"}, "app: hanging comments", 2),
    ("budget-comments", {"scripts/a": '"""Whether it is."""\n# As it is.\n'}, "scripts: hanging comments", 2),
    ("budget-comments", {"clients/js/a.js": "/** Those. */\n/**\n * Whoever.\n */\n"}, "clients/js: hanging comments", 2),
    ("budget-sentences", {"SECURITY.md": f"{LONG}Short. {LONG}"}, "SECURITY.md: sentences over 40 words", 2),
    ("budget-sentences", {"docs/a.md": f"{LONG[:-2]}\n{LONG}"}, "docs: sentences over 40 words", 1),
    ("budget-sentences", {"docs/b/a.md": f"{LONG}\n- {LONG}\n- {'word ' * 30}\n  {'word ' * 30}\n"},
     "docs/b: sentences over 40 words", 3),
]
for name, files, entry, number in BUDGETED:
    BAD.append((name, {**files, budget.FILE: budget.written({entry: {"number": number - 1}})}))
    GOOD += [([name], {**files, budget.FILE: budget.written({entry: {"number": number + n}})}) for n in (0, 1)]
GOOD.append((["budget-sentences"], {
    "docs/a.md": f"```sh\n{LONG}\n```\n\n    {LONG}\n\n# {LONG}\n| {SHORT} | {SHORT} |\n| {SHORT} | {SHORT} |\n- {SHORT}\n- {SHORT}\n\n"
                 f"{SHORT}\n\n{SHORT}[`{LONG}`]({LONG})\n1. {SHORT}\n\n> {SHORT}\n>\n> {SHORT}<!-- {LONG} -->\n",
}))
BAD += [
    ("budget", {budget.FILE: '{\n"b: x": {"number": 1},\n"a: x": {"number": 1}\n}\n'}),
    ("budget", {budget.FILE: '{\n"a: x": {"number": one}\n}\n'}),
    ("budget", {budget.FILE: '{\n<<<<<<< a\n"a: x": {"number": 1}\n=======\n"a: x": {"number": 2}\n>>>>>>> b\n}\n'}),
]
GOOD.append((["budget"], {budget.FILE: budget.written({"a: x": {"number": 1}, "b: x": {"number": 1, "because": 'ü "\\'}})}))


def make(folder, files):
    """Writes the files into the folder."""
    for path, text in files.items():
        file = Path(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if path.startswith("scripts/") and not path.endswith(".md"):
            os.chmod(file, 0o755)


def refused(files, names):
    """The findings of the named rules in a tree of these files."""
    with tempfile.TemporaryDirectory() as folder:
        make(folder, files)
        Path(folder, ".clang-format").write_text("BasedOnStyle: Google\nIndentWidth: 4\n")
        return list(rules.findings(Tree(folder), names))


def settled(text, reason=None, files=None):
    """The entries after --lower, or after --raise REASON, of a budget for two files with two lines."""
    with tempfile.TemporaryDirectory() as folder:
        make(folder, {**(files or {"app/a.hpp": "int a;\n", "app/b.hpp": "int b;\n"}), budget.FILE: text})
        budget.settle(Tree(folder), reason)
        return json.loads(Path(folder, budget.FILE).read_text())


def wrong_settlements():
    """A sentence for each mistake of --lower and --raise."""
    files, lines, gone = "app: files of product", "app: lines of product", {"core: files of product": {"number": 3}}
    text = budget.written({files: {"number": 1}, lines: {"number": 5, "because": "old"}, **gone})
    lowered = {files: {"number": 1}, lines: {"number": 2, "because": "old"}}
    if settled(text) != lowered:
        yield "--lower writes other numbers than those that fell"
    if settled(text, "new") != {**lowered, files: {"number": 2, "because": "new"}}:
        yield "--raise writes other numbers than those that changed, or no reason"
    circle = {"app/a.hpp": '#include "app/b.hpp"\n', "app/b.hpp": '#include "app/a.hpp"\n'}
    if any("circle" in name for name in settled("{}", "new", circle)) or not refused(circle, ["budget-circles"]):
        yield "--raise lets a circle of modules in, or there is none in the sample"
    sides = [f'"{files}": {{"number": {number}, "because": "{number}"}},\n' for number in (1, 4, 3)]
    conflict = f'{{\n<<<<<<< HEAD\n{sides[0]}||||||| base\n{sides[1]}=======\n{sides[2]}>>>>>>> b\n"{lines}": {{"number": 2}}\n}}\n'
    if settled(conflict) != {files: {"number": 2, "because": "4"}, lines: {"number": 2}}:
        yield "--lower does not resolve a conflict"


def wrong_history():
    """A sentence for each rise that the rule `budget` judges wrongly. It looks at this commit and at the one before."""
    def judge(folder, entry, commit):
        make(folder, {budget.FILE: budget.written({"app: x": entry})})
        if commit:
            author = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
            for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "--no-verify", "-m", "a"]):
                subprocess.run(["git", "-C", folder, *command], check=True)
        return bool(list(rules.findings(Tree(folder), ["budget"])))

    samples = (
        ({"number": 5}, True, False),
        ({"number": 6}, False, True),
        ({"number": 6, "because": " "}, False, True),
        ({"number": 6, "because": "a"}, True, False),
        ({"number": 7, "because": "a"}, False, True),
        ({"number": 4, "because": "a"}, False, False),
        ({"number": 7, "because": "a"}, True, True),
    )
    with tempfile.TemporaryDirectory() as folder:
        for entry, commit, wanted in samples if shutil.which("git") else ():
            if judge(folder, entry, commit) != wanted:
                yield f"budget {'accepts' if wanted else 'refuses'} {entry} {'in' if commit else 'after'} a commit"


def run():
    failed = 0
    for sentence in [*wrong_settlements(), *wrong_history()]:
        failed += 1
        print(f"self-test: {sentence}")
    for name, files in BAD:
        if name == "format" and not judged_here():
            continue
        if not refused(files, [name]):
            failed += 1
            print(f"self-test: {name} accepts what it must refuse: {files}")
    for names, files in GOOD:
        for finding in refused(files, names):
            failed += 1
            print(f"self-test: {finding[0]} refuses what it must accept: {finding}")
    untested = set(rules.RULES) - {name for name, _ in BAD}
    for name in sorted(untested):
        failed += 1
        print(f"self-test: {name} has no sample that it must refuse")
    print(f"check --self-test: {len(BAD)} bad and {len(GOOD)} good samples, {failed} wrong", file=sys.stderr)
    return 1 if failed else 0


def judged_here():
    """True if this machine has the clang-format that decides; the rule prints a note where it has another."""
    program = shutil.which(f"clang-format-{rules.CLANG_FORMAT}") or shutil.which("clang-format")
    if program is None:
        return True
    return f"version {rules.CLANG_FORMAT}." in subprocess.run([program, "--version"], capture_output=True, text=True).stdout
