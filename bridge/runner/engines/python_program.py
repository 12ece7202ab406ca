"""Turns the text of a program into code: top-level `await` and `return`, the last expression as the result.

The names that the changed code needs live in the program's builtins and not among its globals. Line numbers stay those of
the text as sent.
"""

import ast
import re

FILE_NAME = "<program>"
VALUE = "__atoll_value__"
GUARD = "__atoll_guard__"
MAIN = "__atoll_main__"

_FENCE = re.compile(r"\A\s*(```+|~~~+)[^\n`]*\n(.*?)\n?[ \t]*\1[ \t]*\s*\Z", re.DOTALL)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def unwrapped(code):
    """The text inside one code fence that surrounds all of it, moved to the lines that it had; else the text."""
    code = code.removeprefix("\ufeff").replace("\r\n", "\n")
    found = _FENCE.match(code)
    if not found:
        return code
    return "\n" * code.count("\n", 0, found.start(2)) + found.group(2)


class _Names(ast.NodeTransformer):
    """Makes each assignment to `codemode` raise: the target becomes an attribute of a read-only object."""

    def visit_Name(self, node):
        if node.id != "codemode" or isinstance(node.ctx, ast.Load):
            return node
        guard = ast.copy_location(ast.Name(GUARD, ast.Load()), node)
        return ast.copy_location(ast.Attribute(guard, "codemode", node.ctx), node)

    def visit_Global(self, node):
        node.names = [name for name in node.names if name != "codemode"]
        return node if node.names else ast.copy_location(ast.Pass(), node)

    def _named(self, node):
        bound = getattr(node, "name", None)
        if isinstance(node, ast.alias):
            bound = node.asname or node.name.split(".")[0]
        if bound == "codemode":
            line = getattr(node, "lineno", 1)
            raise SyntaxError("codemode cannot be reassigned", (FILE_NAME, line, 1, None))
        return self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _named
    visit_alias = visit_ExceptHandler = visit_MatchAs = visit_MatchStar = _named


def _top_level(node):
    """The nodes of the outermost scope. Bodies of functions and classes are not entered."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _top_level(child)


def _bound_names(node):
    names = set()
    for child in _top_level(node):
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
            names.add(child.id)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(child.name)
        elif isinstance(child, ast.alias):
            names.add(child.asname or child.name.split(".")[0])
        elif isinstance(child, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and child.name:
            names.add(child.name)
        elif isinstance(child, ast.MatchMapping) and child.rest:
            names.add(child.rest)
    for child in _top_level(node):
        if isinstance(child, ast.comprehension):
            names -= {name.id for name in ast.walk(child.target) if isinstance(name, ast.Name)}
    return names


class _Plain(ast.NodeTransformer):
    """`return x` as `return (x,)`, which is not None, and `x: int = 1` of the outermost scope without its annotation.

    A name that is global cannot have one.
    """

    def visit_AnnAssign(self, node):
        if not isinstance(node.target, ast.Name):
            return node
        plain = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        return ast.copy_location(plain, node)

    def visit_Return(self, node):
        if node.value is not None:
            node.value = ast.copy_location(ast.Tuple([node.value], ast.Load()), node.value)
        return node

    def _closed(self, node):
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _closed


def _sole_function(tree):
    """The only statement beside a docstring, or a `main` that nobody names, if that is a function without required parameters."""
    body = tree.body[1:] if len(tree.body) > 1 and ast.get_docstring(tree, clean=False) is not None else tree.body
    only = body[0] if len(body) == 1 else None
    if only is None and body and not isinstance(body[-1], ast.Expr):
        mains = [one for one in body if getattr(one, "name", None) == "main"]
        is_named = any(isinstance(one, ast.Name) and one.id == "main" for one in ast.walk(tree))
        only = mains[0] if len(mains) == 1 and not is_named else None
    node = only.value if isinstance(only, ast.Expr) and isinstance(only.value, ast.Lambda) else only
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return None
    needed = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)
    if needed or any(default is None for default in node.args.kw_defaults):
        return None
    return node


def _call_sole_function(tree, node):
    if isinstance(node, ast.Lambda):
        called = tree.body.pop().value
    elif node.decorator_list:
        return
    else:
        called = ast.Name(node.name, ast.Load())
    tree.body.append(ast.copy_location(ast.Expr(ast.Call(called, [], [])), node))


def _keep_last(tree):
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body[-1] = ast.copy_location(ast.Assign([ast.Name(VALUE, ast.Store())], last.value), last)


def _as_function(tree):
    """The program as the body of one function whose names are all global, which allows `return`."""
    body = tree.body
    first = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    rest = [node for node in body if node not in first]
    for node in _top_level(tree):
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            raise SyntaxError("'yield' outside function", (FILE_NAME, node.lineno, node.col_offset + 1, None))
    held = _Plain().visit(ast.Module(rest, []))
    names = sorted(_bound_names(held) | {VALUE})
    arguments = ast.arguments([], [], None, [], [], None, [])
    is_async = any(isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for node in _top_level(held)) or any(
        isinstance(node, ast.comprehension) and node.is_async for node in _top_level(held)
    )
    kind = ast.AsyncFunctionDef if is_async else ast.FunctionDef
    main = kind(MAIN, arguments, [ast.Global(names), *held.body], [], None)
    main.type_params = []
    return ast.Module([*first, main], [])


def compiled(code):
    """(code object, whether it defines MAIN with a `return`). Raises SyntaxError, ValueError, RecursionError."""
    tree = ast.parse(unwrapped(code), FILE_NAME)
    sole = _sole_function(tree)
    if sole is not None:
        _call_sole_function(tree, sole)
    tree = _Names().visit(tree)
    _keep_last(tree)
    returns = any(isinstance(node, ast.Return) for node in _top_level(tree))
    if returns:
        tree = _as_function(tree)
    ast.fix_missing_locations(tree)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(tree, FILE_NAME, "exec", flags=flags, dont_inherit=True), returns
