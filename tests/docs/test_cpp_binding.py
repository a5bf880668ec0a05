"""The C++ binding's page: its example compiles, and it lists every type variable."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from trtsmith.importers.opdef import TYPE_VARIABLES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "cpp-binding.md").read_text(encoding="utf-8")
AROUND = """
#include <string>
#include "core/dims.hpp"
#include "core/fields.hpp"
#include "core/signature.hpp"
#include "core/tensor.hpp"
using cudaError_t = int;
using cudaStream_t = void*;
struct WindowSumParams { trtsmith::DType type; const void* x; void* y; int32_t window; };
cudaError_t windowSum(const WindowSumParams&, int64_t, int64_t, cudaStream_t);
%s
int main() {
    using trtsmith::Shape;
    const auto in = Shape<int64_t>::of(int64_t{7}, int64_t{5});
    Shape<int64_t> out;
    trtsmith::WindowSum::shape<int64_t>({2}, &in, 1, &out);
    trtsmith::WindowSum::run({2}, {}, nullptr, nullptr);
    return trtsmith::constantLike(in[0], 4) + trtsmith::smaller(in[0], in[1]) + trtsmith::product(in) +
           trtsmith::upTo(in[0]).typical + trtsmith::kZeroOrOne.has(1) + trtsmith::atLeast(1).has(1);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_the_example_compiles(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```cpp\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    struct = re.sub(r"^(#include .*|TRTSMITH_BIND.*)$", "", example, flags=re.MULTILINE)
    (tmp_path / "page.cpp").write_text(AROUND % struct, encoding="utf-8")
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'plugins_cpp'}", str(tmp_path / "page.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_every_type_variable_is_there() -> None:
    said = re.sub(r"\s+", " ", PAGE.partition("## Type variables")[2].partition("##")[0])
    assert {f"k{name}" for name in TYPE_VARIABLES} == set(re.findall(r"\bk[A-Z]\b", said))
