"""Writes the headers of our operators' definitions, which their bindings include. The build of the libraries runs it.

    python -m trtsmith.converter.compile.definitions.write_definitions FOLDER DEPFILE NAME ...

NAME: an operator of ours in snake_case, of which NAME.hpp is made. DEPFILE gets the modules that the headers are made from.
"""

from __future__ import annotations

import sys
from pathlib import Path

from trtsmith.converter.compile.definitions.definition_source import definition_header
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import OPS


def main(argv: list[str]) -> int:
    folder, depfile = map(Path, argv[:2])
    operators = {op.snake_name: op for op in OPS}
    missing = [name for name in argv[2:] if name not in operators]
    if missing:
        problem = Problem(
            f"{missing[0]} has a binding and no definition",
            f"plugins_cpp/ops/{missing[0]}.cpp",
            "an OpDef in importers/registry.py whose name in snake_case is that of the binding's file",
            "add the definition to the list, or rename the binding's file",
        )
        print(problem, file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    headers = [folder / f"{name}.hpp" for name in argv[2:]]
    for header in headers:
        text = definition_header(operators[header.stem])
        # A header that stays as it was compiles nothing anew.
        if not header.is_file() or header.read_text(encoding="utf-8") != text:
            header.write_text(text, encoding="utf-8")
    ours = (m.__file__ for name, m in list(sys.modules.items()) if name.partition(".")[0] == "trtsmith")
    files = sorted({file.replace(" ", "\\ ") for file in (__file__, *ours) if file is not None})
    depfile.write_text(f"{headers[0]}: {' '.join(files)}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
