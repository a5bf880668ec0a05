"""Writes the package files of an operator without a kernel, or with one in Triton."""

from __future__ import annotations

from collections.abc import Iterable

from trtsmith.converter.operators.package_files import FUNCTION_FILE
from trtsmith.converter.scaffold.draft import TORCH_NAMES, Draft
from trtsmith.converter.scaffold.quoting import code_span, literal
from trtsmith.converter.scaffold.render import render
from trtsmith.importers.opdef import Attr, Field, Port

_TOLERANCE = '{"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}'
"""Wide tolerances, as the computation is unknown; the author tightens them."""


_WITHOUT_KERNEL = (
    "    # There is no kernel yet: TensorRT computes the expansion. With a kernel in plugins.cmake, remove this line.\n"
    "    by_expansion=True,\n"
)

_WITHOUT = '''
def _without(node: AliasedNode) -> Refusal | None:
    """Refuses nodes with an input that the example left out."""
    wrong = sorted(node.present.intersection({absent}))
    if not wrong:
        return None
    fix = f"write the package again, with an example of it: --example {{wrong[0]}}=SHAPE"
    return Refusal(f"input {{wrong[0]!r}} is connected", "none: the operator was written without it", fix)

'''

_COMPUTED_IN = {
    FUNCTION_FILE: "a copy of your function's file, and the one to edit: the original is not read any more, nor `body.py` "
    "once this differs",
    "body.py": "the computation in operators of ONNX, as it was exported",
}
"""By file of Draft.files, its row of the README."""


def draft_files(draft: Draft) -> dict[str, bytes]:
    """Writes every file of the package, by its path in the folder."""
    snake = draft.names.snake
    values = draft.names.placeholders() | _definition_values(draft) | _readme_values(draft)
    # a function's operator is named in its definition alone; one of a model must take the model's own node
    values["example"] = "OPERATORS[0]" if draft.torch_line else 'FOLDER / "example.onnx"'
    templates = {
        ".gitignore": "gitignore",
        "pyproject.toml": "pyproject.toml",
        "README.md": "triton_README.md" if draft.triton else "draft_README.md",
        "plugins.cmake": "triton_plugins.cmake" if draft.triton else "draft_plugins.cmake",
        f"{snake}/__init__.py": "package.py",
        f"{snake}/definition.py": "draft_definition.py",
        f"tests/test_{snake}.py": "draft_test.py",
    }
    files = {path: render(name, values) for path, name in templates.items()}
    kernel = {f"kernels/{snake}_triton.py": draft.triton} if draft.triton else {}
    return {**files, **kernel, "example.onnx": draft.example, **(draft.files or {})}


def definition_file(draft: Draft) -> bytes:
    """Writes the definition alone."""
    return render("draft_definition.py", draft.names.placeholders() | _definition_values(draft))


def _definition_values(draft: Draft) -> dict[str, str]:
    known = {port.name: port.type for port in draft.inputs}
    absent = tuple(name for name in draft.node_inputs if name not in known)
    cases = [
        f"    Case({literal(name)}, {literal(draft.values)}, _inputs("
        + ", ".join(f"{port}=({literal(shape)}, {literal(known[port])})" for port, shape in shapes.items())
        + ")),\n"
        for name, shapes in draft.cases.items()
    ]
    return {
        "origin": draft.origin,
        "command": draft.command,
        "imports": draft.imports,
        "own_imports": draft.own_imports,
        "equal": literal(draft.equal),
        "fixed": literal(draft.fixed),
        "shape": _shape(draft),
        "reference": draft.reference.strip("\n") + "\n",
        "cases": "".join(cases),
        "doc": literal(draft.doc),
        "inputs": "".join(f"        {_port(port)},\n" for port in draft.inputs),
        "outputs": "".join(f"        {_port(port)},\n" for port in draft.outputs),
        "fields": _lines(map(_field, draft.fields), 8),
        "torch_line": draft.torch_line + _rare_lines(draft),
        "without_kernel": "" if draft.triton or draft.has_kernel else _WITHOUT_KERNEL,
        "opset": str(draft.opset),
        "alias_domain": literal(draft.alias[0]),
        "alias_op_type": literal(draft.alias[1]),
        "alias_inputs": _items(map(literal, _node_inputs(draft))),
        "guard": "            guard=_without,\n" if absent else "",
        "without": _WITHOUT.format(absent=literal(absent)) if absent else "",
        "alias_attributes": _lines(map(_attribute, draft.attributes), 16),
        "alias_source": literal(draft.source),
        "tolerance": _TOLERANCE if any(port.type in "TF" for port in draft.outputs) else "{}",
    }


def _node_inputs(draft: Draft) -> list[str]:
    """Inputs of the alias; a "?" marks those that a node may lack."""
    optional = {port.name: port.optional for port in draft.inputs}
    return [name + "?" * optional.get(name, True) for name in draft.node_inputs or optional]


def _rare_lines(draft: Draft) -> str:
    version = f"    version={literal(draft.version)},\n" if draft.version != "1" else ""
    return version + "    workspace=True,\n" * draft.workspace


def _readme_values(draft: Draft) -> dict[str, str]:
    state = (
        "It is not finished: the model does not say what the operator computes. If you have the computation in PyTorch, "
        f"{code_span(draft.torch_command(f'../{draft.names.snake}'))} writes another package with all of it, "
        f"{TORCH_NAMES}. Otherwise:\n\n"
        f"1. Write {', '.join(map(code_span, draft.unwritten))} in `{draft.names.snake}/definition.py`, in this order.\n"
        "2. `trtsmith op example .` writes `example.onnx` anew, with the shapes that follow.\n"
        "3. `pytest .` compares what you wrote; until then it fails, and names what is missing."
        if draft.unwritten
        else "It works as it is: TensorRT computes the operator's expansion, which is made of standard operators."
    )
    alias = code_span("::".join(part for part in draft.alias if part))
    rows = (
        f"| `{path}` | {_COMPUTED_IN[path.rpartition('/')[2]]} |\n"
        for path in sorted(draft.files or {}, reverse=True)
    )
    return {
        "state": state,
        "alias": alias,
        "domain": draft.domain,
        "computed_in": "".join(rows),
        "first_step": "example" if draft.unwritten else "build",
    }


def _shape(draft: Draft) -> str:
    if draft.rules is None:
        return draft.no_rule or (
            f'    raise NotImplementedError("write {", ".join(draft.unwritten)} in {draft.names.snake}/definition.py, then '
            "run trtsmith op example: the model does not say how the outputs' shapes follow\")\n"
        )
    names = [
        port.name
        for port in draft.inputs
        if any(f"{port.name}[" in e for r in draft.rules.values() for e in r)
    ]
    lines = [f'    {name} = shapes["{name}"]' for name in names]
    shapes = ", ".join(f'"{name}": {_tuple(rule)}' for name, rule in draft.rules.items())
    return "\n".join([*lines, f"    return {{{shapes}}}"]) + "\n"


def _port(port: Port) -> str:
    optional = ", optional=True" * port.optional
    return f"Port({literal(port.name)}, {literal(port.type)}, {port.rank}, {literal(port.doc)}{optional})"


def _field(field: Field) -> str:
    length = f", length={field.length}" if field.length is not None else ""
    default = f", default={literal(field.default)}" if field.default is not None else ""
    minimum = f", minimum={literal(field.minimum)}" if field.minimum is not None else ""
    allowed = f", allowed={literal(field.allowed)}" if field.allowed else ""
    return f"Field({literal(field.name)}, Kind.{field.kind.name}, {literal(field.doc)}{length}{default}{minimum}{allowed})"


def _attribute(attribute: Attr) -> str:
    default = f", {literal(attribute.default)}" if attribute.default is not None else ""
    return f"Attr({literal(attribute.name)}, Kind.{attribute.kind.name}{default})"


def _lines(items: Iterable[str], indent: int) -> str:
    """Elements of a tuple, each on a line of its own; nothing for an empty one."""
    rows = "".join(f"{' ' * indent}{item},\n" for item in items)
    return f"\n{rows}{' ' * (indent - 4)}" if rows else ""


def _tuple(items: Iterable[str]) -> str:
    return f"({_items(items)})"


def _items(items: Iterable[str]) -> str:
    """Elements of a tuple, with the comma that one alone needs."""
    texts = [*items]
    return ", ".join(texts) + "," * (len(texts) == 1)
