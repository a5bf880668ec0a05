"""Makes empty stand-ins for TensorRT's libraries, so that its bindings can be imported without TensorRT."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_NEEDED = re.compile(r"\(NEEDED\).*\[(lib(?:nv|tensorrt)\w+\.so\.\d+)\]")
_SYMBOL = re.compile(
    r"\bUND (\w*(?:_INTERNAL|PluginRegistry|NvOnnxParserVersion|NvInferPlugins))\s*$", re.MULTILINE
)


def make_stubs(bindings: Path, folder: Path) -> list[str]:
    """Compile a library for each that the bindings need, with the functions that they call; give the sonames.

    Every function gives back 0, a null pointer to the bindings: a builder that cannot be made.
    """
    (module,) = bindings.glob("tensorrt*_bindings/tensorrt*.so")
    sonames = _NEEDED.findall(_readelf("-d", module))
    symbols = sorted(set(_SYMBOL.findall(_readelf("--dyn-syms", module))))
    assert sonames and symbols, f"{module} needs none of TensorRT's libraries"
    source = folder / "stub.c"
    source.write_text("".join(f"void *{symbol}(void) {{ return 0; }}\n" for symbol in symbols))
    for soname in sonames:
        command = [
            "gcc",
            "-shared",
            "-fPIC",
            f"-Wl,-soname,{soname}",
            str(source),
            "-o",
            str(folder / soname),
        ]
        subprocess.run(command, check=True)
    return sonames


def _readelf(option: str, module: Path) -> str:
    return subprocess.run(
        ["readelf", "-W", option, str(module)], capture_output=True, text=True, check=True
    ).stdout
