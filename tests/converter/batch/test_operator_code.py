"""An engine of outdated operator code is never taken from the cache, wherever the code is."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from tests.converter.batch.driving import Told
from tests.converter.batch.zoo.zoos import tasks_of, write_model
from tests.converter.models import written
from trtsmith.converter.batch import driver, machine
from trtsmith.converter.batch.child import ChildSetup
from trtsmith.converter.batch.driver import BatchRequest, BatchResult, run_batch
from trtsmith.converter.batch.local import LocalExecutor
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.operators import used_files

WORKER = """
import ctypes, json, sys
from pathlib import Path
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.operators.loading import operators_in_force
from trtsmith.converter.operators.own_process import own_process
from trtsmith.importers.registry import packages_in_force

def work(request, events, log_path):
    asked = json.loads(request)
    ops = [asked["words"][i + 1] for i, word in enumerate(asked["words"]) if word == "--ops"]
    libraries = [asked["words"][i + 1] for i, word in enumerate(asked["words"]) if word == "--plugins"]
    text = " ".join(f"K = {ctypes.CDLL(path).k()}" for path in libraries)
    with own_process(), operators_in_force(ops):
        for package in packages_in_force():
            (operator,) = package.operators
            text = " ".join([operator.doc, *operator.check({}, {})])
    Path(asked["folder"], "model.plan").write_text(text)
    return {"exit_code": 0, "problems": [], "death": None, "warnings": [], "bench": None, "tune": None, "seconds": {},
            "versions": {}, "report": {"converted": True, "engine": None, "verdict": None, "warnings": [], "seconds": {}}}

if __name__ == "__main__":
    serve(sys.argv[1:], work, spent=lambda: True)
"""

DEFINITION = """
from dataclasses import replace
from tests_of_operators import LOG_ODDS
OPERATORS = (replace(LOG_ODDS, doc=f"K = {K}"),)
"""

LATER = """
from dataclasses import replace
from pathlib import Path
from tests_of_operators import LOG_ODDS
FILE = Path(__file__).parent.parent / "k.txt"
OPERATORS = (replace(LOG_ODDS, check=lambda fields, shapes: [f"K = {FILE.read_text()}"]),)
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    # Python takes bytecode for that of the source if its size and the second of its last change are the same
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def compiled(path: Path, text: str) -> None:
    """A module without its source."""
    source = path.with_suffix(".py")
    write(source, text)
    py_compile.compile(str(source), str(path), doraise=True)
    source.unlink()


def unchecked(path: Path, text: str) -> None:
    """A module that Python takes from its cache whatever the source says."""
    write(path, "K = 2")
    write(path.with_name("other.py"), text)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(
        str(path.with_name("other.py")),
        cache_from_source(str(path)),
        invalidation_mode=mode,
    )
    path.with_name("other.py").unlink()


def in_the_environment(path: Path, text: str) -> None:
    os.environ["ACME_K"] = text


@dataclass(frozen=True)
class Code:
    """files: of the package, and around it. k: the file that has K, as text makes it. keyed: whether there is a key."""

    files: dict[str, str]
    k: str
    text: str = "K = {}\n"
    ops: str = "pkg"
    variable: bool = False
    links: dict[str, str] = field(default_factory=dict)
    make: Callable[[Path, str], None] = write
    keyed: bool = True


def beside(name: str) -> str:
    return f"from pathlib import Path\nK = (Path(__file__).parent / {name!r}).read_text()\n{DEFINITION}"


CODES = {
    "a linked subpackage": Code(
        {"pkg/__init__.py": "from .inner.consts import K" + DEFINITION, "far/__init__.py": ""},
        "far/consts.py",
        links={"pkg/inner": "far"},
    ),
    "a folder inside a package": Code(
        {"pkg/__init__.py": "", "pkg/ops/__init__.py": "from ..consts import K" + DEFINITION},
        "pkg/consts.py",
        ops="pkg/ops",
    ),
    "a module without source": Code(
        {"pkg/__init__.py": "from .consts import K" + DEFINITION}, "pkg/consts.pyc", make=compiled
    ),
    "the same of TRTSMITH_OPS": Code(
        {"pkg/__init__.py": "from .consts import K" + DEFINITION},
        "pkg/consts.pyc",
        make=compiled,
        variable=True,
    ),
    "a linked subpackage of TRTSMITH_OPS": Code(
        {"pkg/__init__.py": "from .inner.consts import K" + DEFINITION, "far/__init__.py": ""},
        "far/consts.py",
        links={"pkg/inner": "far"},
        variable=True,
    ),
    "a dotfile": Code({"pkg/__init__.py": beside(".k")}, "pkg/.k", text="{}"),
    "a file of the package": Code({"pkg/__init__.py": beside("k.txt")}, "pkg/k.txt", text="{}"),
    "a folder with a dot": Code({"pkg/__init__.py": beside(".d/k")}, "pkg/.d/k", text="{}"),
    "a file beside a module": Code(
        {"ops.py": beside("k.txt")}, "k.txt", text="{}", ops="ops.py", keyed=False
    ),
    "the same of TRTSMITH_OPS, a module": Code(
        {"ops.py": beside("k.txt")}, "k.txt", text="{}", ops="ops.py", keyed=False, variable=True
    ),
    "a file that is read when the operator is called": Code(
        {"pkg/__init__.py": LATER},
        "k.txt",
        text="{}",
        keyed=False,
    ),
    "a module elsewhere": Code(
        {"pkg/__init__.py": "from consts_elsewhere import K" + DEFINITION},
        "consts_elsewhere.py",
        keyed=False,
    ),
    "a cache that Python takes unchecked": Code(
        {"pkg/__init__.py": "from .consts import K" + DEFINITION},
        "pkg/consts.py",
        make=unchecked,
        keyed=False,
    ),
    "what a program prints": Code(
        {
            "pkg/__init__.py": "import subprocess\nfrom pathlib import Path\n"
            "K = subprocess.check_output(['cat', Path(__file__).parent.parent / 'k.txt'], text=True)\n"
            + DEFINITION
        },
        "k.txt",
        text="{}",
        keyed=False,
    ),
    "a variable": Code(
        {"pkg/__init__.py": "import os\nK = os.environ.get('ACME_K', 1)\n" + DEFINITION},
        "k",
        text="{}",
        make=in_the_environment,
        keyed=False,
    ),
    "nothing but itself": Code({}, "pkg/__init__.py", text="K = {}\n" + DEFINITION),
}


@dataclass
class Batches:
    """Batches of one model with operators, each into a folder of its own, with one cache."""

    folder: Path
    said: list[str] = field(default_factory=list)
    number: int = 0

    def run(self, ops: str | None) -> tuple[str, str]:
        """(the engine, where it came from)."""
        done, told = self.do('[[model]]\npath = "net.onnx"\n' + (f'ops = "{ops}"\n' if ops else ""))
        assert done.passed, [record.problems for record in done.records()]
        return (done.folder / "net/model.plan").read_text(), told.ends[0][2]

    def run_library(self) -> tuple[str, str]:
        done, told = self.do('[[model]]\npath = "net.onnx"\nplugins = "libmine.so"\n')
        return (done.folder / "net/model.plan").read_text(), told.ends[0][2]

    def refused(self, ops: str) -> str:
        """Where the result came from of a conversion by the worker of a batch, which finds no compiled plugin."""
        done, told = self.do(f'[[model]]\npath = "net.onnx"\nops = "{ops}"\n', ChildSetup())
        assert [status.value for status in done.statuses.values()] == ["refused"], [*done.records()]
        return told.ends[0][2]

    def do(self, zoo: str, setup: ChildSetup | None = None) -> tuple[BatchResult, Told]:
        self.number += 1
        told = Told()
        setup = setup or ChildSetup("operator_worker", [self.folder])
        out = self.folder / f"out{self.number}"
        request = BatchRequest(
            tasks_of(self.folder, zoo),
            out,
            cache=self.folder / "cache",
            executor=lambda scratch: LocalExecutor(scratch, setup, gpus=()),
        )
        return run_batch(request, told, self.said.append), told


@pytest.fixture
def batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Batches:
    monkeypatch.delenv("TRTSMITH_OPS", raising=False)
    monkeypatch.setenv("ACME_K", "")
    monkeypatch.setenv("TRTSMITH_OPS_TIMEOUT", "600")  # a busy machine is no finding
    monkeypatch.setattr(machine, "_installed", dict)  # the same for all of these, and slow
    monkeypatch.setattr(machine, "rules_digest", lambda **_: "rules")
    write_model(tmp_path / "net.onnx", 1, 3)
    (tmp_path / "operator_worker.py").write_text(WORKER)
    return Batches(tmp_path)


@pytest.mark.parametrize("name", CODES)
def test_the_cache_gives_no_engine_of_old_operator_code(
    name: str, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, home = CODES[name], batches.folder
    definition = (Path(__file__).parents[2] / "outside/mixing.py").read_text()
    definition = definition.replace("from __future__ import annotations\n", "")
    for path, text in code.files.items():
        write(home / path, _with(definition, text))
    for link, target in code.links.items():
        (home / link).symlink_to(home / target)
    if code.variable:
        monkeypatch.setenv("TRTSMITH_OPS", str(home / code.ops))

    def run(k: int) -> tuple[str, str]:
        shutil.rmtree(home / "pkg/__pycache__", ignore_errors=True)
        code.make(home / code.k, _with(definition, code.text.replace("{}", str(k))))
        return batches.run(None if code.variable else code.ops)

    first, source = run(2)
    assert "K = 2" in first and source == "run"
    assert bool(batches.said) != code.keyed, batches.said
    again, source = run(2)
    assert "K = 2" in again and source == ("cache" if code.keyed and code.make is write else source)
    last, source = run(5)
    assert "K = 5" in last and source == "run"


def _with(definition: str, text: str) -> str:
    """The module with the definition of an operator in it."""
    return text.replace("from tests_of_operators import LOG_ODDS", definition)


def test_a_conversion_with_operators_that_import_pytorch_has_a_key(batches: Batches) -> None:
    """The worker that converts: nothing that it, onnxruntime and PyTorch read counts as the operators'."""
    definition = (Path(__file__).parents[2] / "outside/mixing.py").read_text()
    write(batches.folder / "pkg/__init__.py", f"{definition}\nimport torch\n")
    written(
        batches.folder / "net.onnx", "(float[2,3] x) => (float[2,3] y) { [odds] y = mycompany.Logit (x) }"
    )
    for source in ("run", "cache"):
        assert batches.refused("pkg") == source
    assert batches.said == []


def test_what_has_no_key_is_said_once(batches: Batches) -> None:
    """And tasks of the same batch without those operators have theirs."""
    definition = (Path(__file__).parents[2] / "outside/mixing.py").read_text()
    text = definition.replace("from __future__ import annotations\n", "")
    write(batches.folder / "k.txt", "2")
    write(batches.folder / "ops.py", _with(text, beside("k.txt")))
    for name in "abc":
        write_model(batches.folder / f"{name}.onnx", 1, ord(name))
    models = "".join(f'[[model]]\npath = "{name}.onnx"\nops = "ops.py"\n' for name in "abc")
    batches.do(models)
    (said,) = batches.said
    assert f"{batches.folder / 'k.txt'}" in said and "--ops FOLDER" in said


def link(folder: Path, k: int, helper: Path) -> None:
    """libmine.so in the folder, whose k() is that of the helper that it links."""
    helper.parent.mkdir(exist_ok=True)
    build = ["gcc", "-shared", "-fPIC", "-x", "c", "-"]
    subprocess.run([*build, "-o", helper], input=f"int deep() {{ return {k}; }}", text=True, check=True)
    if not (folder / "libmine.so").exists():
        run_path = "-Wl,-rpath,$ORIGIN" if helper.parent == folder else "-Wl,--no-as-needed"
        subprocess.run(
            [*build, "-o", folder / "libmine.so", "-x", "none", f"-L{helper.parent}", "-lhelper", run_path],
            input="int deep(); int k() { return deep(); }",
            text=True,
            check=True,
        )


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("where", ["beside", "LD_LIBRARY_PATH"])
def test_a_library_that_a_plugin_library_links_counts(
    where: str, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = batches.folder
    helper = home / ("libhelper.so" if where == "beside" else "more/libhelper.so")
    if where != "beside":
        monkeypatch.setenv("LD_LIBRARY_PATH", str(helper.parent))
    link(home, 2, helper)
    assert batches.run_library() == ("K = 2", "run")
    assert batches.run_library() == ("K = 2", "run" if where == "beside" else "cache"), batches.said
    link(home, 5, helper)
    assert batches.run_library() == ("K = 5", "run")
    (said,) = {*batches.said} if where == "beside" else {""}
    assert said.partition("\n")[0].endswith(f": {helper}") or not said
    assert bool(batches.said) == (where == "beside")


def test_code_that_is_written_anew_while_the_batch_runs_is_not_kept(
    batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is of what TRTSMITH_OPS was when the batch began."""
    definition = (Path(__file__).parents[2] / "outside/mixing.py").read_text()
    text = definition.replace("from __future__ import annotations\n", "")
    package = batches.folder / "pkg/__init__.py"
    write(package, _with(text, f"K = 2\n{DEFINITION}"))
    monkeypatch.setenv("TRTSMITH_OPS", str(package.parent))
    hashed = driver.Keys.read

    def read(keys: driver.Keys, tasks: Iterable[BatchTask]) -> None:
        hashed(keys, tasks)
        write(package, _with(text, f"K = 5\n{DEFINITION}"))

    monkeypatch.setattr(driver.Keys, "read", read)
    assert batches.run(None) == ("K = 5", "run")
    monkeypatch.setattr(driver.Keys, "read", hashed)
    write(package, _with(text, f"K = 2\n{DEFINITION}"))
    assert batches.run(None) == ("K = 2", "run")


def test_a_package_installed_as_links_is_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by `uv pip install --link-mode symlink`; a file that no distribution lists is not."""
    site, store = tmp_path / "site-packages", tmp_path / "store/listed"
    write(store / "__init__.py", "")
    write(site / "listed-1.dist-info/RECORD", "listed/__init__.py,,\nlisted/lib.so.1,,\n")
    write(store / "lib.so.1", "")
    write(site / "other.py", "")
    (site / "listed").symlink_to(store)
    record = tmp_path / "work/record"
    write(
        record,
        "".join(f'["file", "{site / name}"]\n' for name in ("listed/__init__.py", "other.py")),
    )
    monkeypatch.setattr(used_files, "_installed_folders", lambda: (f"{site}{os.sep}",))
    distributions = list(metadata.distributions(path=[str(site)]))
    monkeypatch.setattr(used_files.metadata, "distributions", lambda: distributions)
    monkeypatch.setattr(used_files, "_recorded", used_files._recorded.__wrapped__)
    assert used_files.uncovered(record, ()) == [str(site / "other.py")]
    mine, mapped = (
        tmp_path / "libmine.so",
        (tmp_path / name for name in ("libmine.so", "store/listed/lib.so.1")),
    )
    record.write_text("".join(f'["library", "{path}"]\n' for path in mapped))
    assert used_files.uncovered(record, [mine]) == []
