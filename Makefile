# flambeau's commands. `make demo` and `make test` need only python >= 3.11, g++ >= 12 and make;
# everything else is installed into .venv from the versions pinned in pyproject.toml.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export PYTHONPATH := python
# All checkouts share the results of compilation.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

say = @printf '\033[1m==> %s\033[0m\n' "$(1)"

.PHONY: help
help:  ## this list
	@echo "flambeau: a tensor framework generated from two YAML files"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-24s %s\n", $$1, $$2}'

# --- environment ---------------------------------------------------------------------------------
.PHONY: preflight
preflight:
	@command -v $(PYTHON) >/dev/null || { echo "flambeau needs Python 3.11 or newer; '$(PYTHON)' was not found. Install it, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "flambeau needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | cut -d' ' -f2). Name another: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "flambeau needs Python's venv module; on Debian: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { echo "flambeau needs Python's headers (Python.h); on Debian: apt install python3-dev" >&2; exit 1; }
	@command -v $${CXX:-g++} >/dev/null || { echo "flambeau needs a C++20 compiler, g++ 12 or newer; '$${CXX:-g++}' was not found. Install it, or name one: make CXX=/path/to/g++" >&2; exit 1; }
	@echo 'int main() { auto f = []<typename T>(T x) { return x; }; return f(0); }' | $${CXX:-g++} -std=c++20 -x c++ -fsyntax-only - 2>/dev/null || { echo "flambeau needs a C++20 compiler, g++ 12 or newer; '$${CXX:-g++}' is $$($${CXX:-g++} -dumpfullversion)" >&2; exit 1; }

# One stamp per group of requirements; the hash of pyproject.toml's pins is make's own time check.
# The machine is examined once, before the environment is made: `make codegen` has 0.2 s in all.
$(VENV)/bin/python:
	@$(MAKE) preflight
	$(call say,Making the environment in $(VENV))
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -c 'import site, pathlib; pathlib.Path(site.getsitepackages()[0], "flambeau-source.pth").write_text(str(pathlib.Path("python").resolve()) + "\n")'

$(VENV)/.%.installed: pyproject.toml python/build_support/requirements.py | $(VENV)/bin/python
	$(call say,Installing the packages of '$*')
	@$(PY) python/build_support/requirements.py $* > $(VENV)/$*.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check -r $(VENV)/$*.txt
	@touch $@

.PHONY: env
env: $(VENV)/.build.installed $(VENV)/.cache.installed  ## the build environment

# --- generate and build -----------------------------------------------------------------------------
.PHONY: codegen
codegen: env  ## write torchgen_out/ and its MANIFEST from the YAML files
	@$(PY) -m codegen generate --manifest

.PHONY: codegen-check
codegen-check: env  ## check the YAML files; verify that outputs reproduce the committed MANIFEST
	$(call say,Checking the YAML files and the manifest of generated files)
	@$(PY) -m codegen check
	@$(PY) -m codegen matrix
	@$(PY) -m codegen schemas --check
	@$(PY) -m codegen generate --check

.PHONY: where
where: env  ## every place of an operator: make where OP=softmax
	@$(PY) -m codegen where $(OP)

# Runs before CMake and ninja, so that the diagnostics of a mistake are the last lines of the output.
.PHONY: generated
generated: env
	@$(PY) -m codegen generate

build/build.ninja: CMakeLists.txt | env generated
	$(call say,Configuring)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/cmake -S . -B build -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja -DFLAMBEAU_ISA=$(ISA) --log-level=WARNING > build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
	@mv build-configure.log build/configure.log

# The instruction sets of build/ follow ISA: switching compiles loops only.
# TARGET: what ninja builds, all by default.
.PHONY: build
build: env generated build/build.ninja  ## the package, in place; ISA=native: loops for this machine only
	@[ "$$(sed -n 's/^FLAMBEAU_ISA:STRING=//p' build/CMakeCache.txt)" = "$(ISA)" ] || { \
	  $(VENV)/bin/cmake -DFLAMBEAU_ISA=$(ISA) build > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }; \
	  grep Loops build/configure.log || true; }
	$(call say,Compiling (the first time takes minutes, later ones seconds))
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/ninja -C build flambeau_generated > build/generated.log || { cat build/generated.log; exit 1; }
	@$(PY) python/build_support/explain_build.py $(VENV)/bin/ninja build $(TARGET)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/ninja -C build -j $(JOBS) $(TARGET)

.PHONY: extension
extension:  ## what `import flambeau` loads, without the library of the C++ interface, which extensions and programs link
	@$(MAKE) build TARGET=extension

# --- the two commands -------------------------------------------------------------------------------
.PHONY: demo
demo: build $(VENV)/.demo.installed  ## build everything, train a network on handwritten digits
	$(call say,Training a convolutional network on handwritten digits)
	@$(PY) examples/digits.py --output build/demo

.PHONY: test
test: build cpp-test $(VENV)/.test.installed  ## build everything, run the test suite
	$(call say,Running the Python tests)
	@$(PY) -m pytest -n $(JOBS) --dist worksteal test

.PHONY: test-page
test-page: build $(VENV)/.test.installed  ## follow docs/adding-an-operator.md in a clone: build it, run its operators' tests
	$(call say,Building the examples of docs/adding-an-operator.md in a clone)
	@$(PY) -m pytest test/docs/page_in_a_clone.py

.PHONY: test-isa
test-isa: build $(VENV)/.test.installed  ## a sample of the operator tests per instruction set: make test-isa [SAMPLE=8]
	$(call say,Running operator tests with capped instruction sets)
	@PYTHONPATH=python:test:test/ops $(PY) -m instruction_sets --jobs $(JOBS) --sample $(or $(SAMPLE),8)

.PHONY: cpp-test
cpp-test: env  ## C++ tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer
	$(call say,Building and running the C++ tests under sanitizers)
	@for kind in address,undefined thread; do \
	  dir=build/sanitize-$${kind%%,*}; \
	  [ -f $$dir/build.ninja ] || PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/cmake -S . -B $$dir -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja -DFLAMBEAU_TESTS=ON -DFLAMBEAU_INPLACE=OFF -DFLAMBEAU_SANITIZE=$$kind --log-level=WARNING > /dev/null; \
	  PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/ninja -C $$dir -j $(JOBS) cpp_tests; \
	  $(VENV)/bin/ctest --test-dir $$dir --output-on-failure; \
	done

.PHONY: lint
lint: env $(VENV)/.lint.installed  ## what CI lints
	$(call say,Linting)
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	@$(PY) -m codegen generate > /dev/null && cp -r torchgen_out/stubs/. torchgen_out/package/. python/flambeau/
	@$(VENV)/bin/mypy codegen python/build_support python/flambeau
	@$(VENV)/bin/yamllint -s native_functions.yaml derivatives.yaml codegen
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs $(VENV)/bin/clang-format --dry-run --Werror
	@$(VENV)/bin/gersemi --check --diff CMakeLists.txt cmake examples/cpp examples/extension_yaml test/cpp/CMakeLists.txt test/extensions/program

.PHONY: format
format: env $(VENV)/.lint.installed  ## format all handwritten files
	@$(VENV)/bin/ruff check --fix-only -q . ; $(VENV)/bin/ruff format -q .
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs $(VENV)/bin/clang-format -i
	@$(VENV)/bin/gersemi -i CMakeLists.txt cmake examples/cpp examples/extension_yaml test/cpp/CMakeLists.txt test/extensions/program

.PHONY: cuda-check
cuda-check: env  ## compile the generated CUDA kernels (needs nvcc, no GPU)
	@if command -v $${NVCC:-nvcc} >/dev/null; then \
	  printf '\033[1m==> Compiling the CUDA kernels with %s\033[0m\n' "$$($${NVCC:-nvcc} --version | tail -1)"; \
	  $(PY) -m codegen generate; \
	  $(PY) python/build_support/cuda_check.py --nvcc $${NVCC:-nvcc} --jobs $(JOBS); \
	else echo "cuda-check: skipped, no nvcc on the PATH (name one: make cuda-check NVCC=/path/to/nvcc)"; fi

.PHONY: opencl
opencl: build $(VENV)/.test.installed $(VENV)/.demo.installed  ## the package backends/opencl and its tests, where OpenCL has headers, a loader and a device
	@echo '#include <CL/cl.h>' | $${CXX:-g++} -E -x c - > /dev/null 2>&1 || { echo "opencl: skipped: CL/cl.h was not found; on Debian: apt install ocl-icd-opencl-dev pocl-opencl-icd"; exit 0; }; \
	  cd backends/opencl && PYTHONPATH=$(CURDIR)/python $(CURDIR)/$(PY) setup.py --quiet build_ext --inplace && cd $(CURDIR) && \
	  { PYTHONPATH=python:backends/opencl $(PY) -c 'import flambeau_opencl' 2>&1 | grep 'OpenCL found no device' && { echo "opencl: skipped"; exit 0; } || true; } && \
	  PYTHONPATH=python:.:backends/opencl $(PY) -m pytest -q backends/opencl/tests && \
	  PYTHONPATH=python:. $(PY) -W ignore backends/opencl/operators.py && \
	  PYTHONPATH=python:.:backends/opencl $(PY) -W ignore examples/digits.py --device opencl --epochs 6 --output build/demo-opencl

.PHONY: oracle
oracle: $(VENV)/.oracle.installed  ## install PyTorch, which comparison tests and benchmarks use when present

.PHONY: bench
bench: build $(VENV)/.test.installed  ## time against PyTorch when it is installed (make oracle)
	@$(PY) benchmarks/run.py --output build/bench

.PHONY: survey
survey: build $(VENV)/.test.installed $(VENV)/.oracle.installed  ## time small calls of every operator in nine dtypes: make survey [OPS="special.* mm"]
	@$(PY) benchmarks/survey.py $(if $(OPS),$(foreach op,$(OPS),'$(op)')) --output build/survey

.PHONY: parity
parity: build $(VENV)/.test.installed $(VENV)/.oracle.installed  ## run PyTorch's operator database: make parity [OPS="linalg.* fft.*"]
	@PYTHONPATH=python:test $(PY) -m parity $(OPS) $(PARITY)

# An environment of its own, without PyTorch; the comparison runs PyTorch in the usual one.
build/programs/made: pyproject.toml test/programs/constraints.txt python/build_support/programs.py
	$(call say,Installing the libraries that make programs runs)
	@$(PY) python/build_support/programs.py build/programs/venv
	@touch $@

.PHONY: programs
programs: build build/programs/made  ## programs over public libraries: make programs [NAMES="timm/ bert"]
	@PYTHONPATH=python:test $(PY) -m programs $(NAMES) $(PROGRAMS)

.PHONY: api
api: build $(VENV)/.test.installed $(VENV)/.oracle.installed  ## compare public names and parameters with PyTorch's: make api [MODULES="nn.utils hub"]
	@PYTHONPATH=python:test $(PY) -m api $(MODULES) $(if $(MODULES),--list,--page)

.PHONY: fuzz
fuzz: build $(VENV)/.test.installed  ## random calls, walks over shared memory, damaged files: make fuzz [OPS="Tensor.add linalg.*"] [EXAMPLES=200] [STATEMENTS=100000] [SEED=]
	$(call say,Calling operators with random arguments)
	@PYTHONPATH=python:test:. $(PY) -m fuzz $(OPS) --examples $(or $(EXAMPLES),200) --seed $(or $(SEED),$$RANDOM)
	$(call say,Walking at random over tensors that share memory)
	@PYTHONPATH=python:test:. $(PY) -m fuzz.walk --statements $(or $(STATEMENTS),100000) --seed $(or $(SEED),$$RANDOM)
	$(call say,Loading damaged files)
	@PYTHONPATH=python:test:. $(PY) -m fuzz.files --seed $(or $(SEED),$$RANDOM)

# The library of AddressSanitizer must be loaded before Python, together with libstdc++, whose exceptions it
# intercepts. Allocations of more than a gigabyte, or of three in all, fail. The build checks those kinds of
# undefined behaviour that do not crash by themselves and do not double the compilation time; the C++ tests
# check all kinds.
UNDER_ASAN = FLAMBEAU_PACKAGE=build/asan/package LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so) $$($${CXX:-g++} -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:soft_rss_limit_mb=3072 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=build/asan/package:test:.
.PHONY: fuzz-asan
fuzz-asan: env $(VENV)/.test.installed  ## the same under AddressSanitizer and UndefinedBehaviorSanitizer, seed 0 if none is given
	$(call say,Compiling with sanitizers)
	@[ -f build/asan/build.ninja ] || PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/cmake -S . -B build/asan -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja -DFLAMBEAU_INPLACE=OFF -DFLAMBEAU_ONE_ISA=ON -DFLAMBEAU_SANITIZE=address,signed-integer-overflow,integer-divide-by-zero,shift,bounds,bool,enum,return,unreachable -DCMAKE_INSTALL_PREFIX=$(CURDIR)/build/asan/package/flambeau --log-level=WARNING > /dev/null
	@mkdir -p build/asan/package/flambeau && cp -r python/flambeau build/asan/package/ && rm -f build/asan/package/flambeau/*.so
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/ninja -C build/asan -j $(JOBS) install > build/asan/install.log || { tail -30 build/asan/install.log; exit 1; }
	$(call say,Calling operators with random arguments under sanitizers)
	@$(UNDER_ASAN) $(PY) -m fuzz $(OPS) --examples $(or $(EXAMPLES),100) --seed $(or $(SEED),0) --minutes $(or $(MINUTES),60)
	@$(UNDER_ASAN) $(PY) -m fuzz.walk --alone --statements $(or $(STATEMENTS),100000) --seed $(or $(SEED),0) --minutes $(or $(MINUTES),60)
	@$(UNDER_ASAN) $(PY) -m fuzz.files --seed $(or $(SEED),0)

.PHONY: docs
docs: build $(VENV)/.docs.installed  ## build/docs/site: guides and reference with a search, links checked
	$(call say,Building the documentation)
	@$(PY) python/build_support/docs_site.py build/docs

.PHONY: sizes
sizes: env  ## lines by layer, long files and functions, repeated runs of lines
	@$(PY) python/build_support/sizes.py

.PHONY: wheel
wheel: env generated $(VENV)/.wheel.installed  ## dist/: the wheel and the source distribution, tried in fresh environments
	$(call say,Building the source distribution and the wheel)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) python/build_support/wheel.py --output dist
	$(call say,Trying them in fresh environments)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" FLAMBEAU_DIST=$(CURDIR)/dist FLAMBEAU_PYTORCH_SITE="$$($(PY) -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0][:-6] if s else "")')" $(PY) -m pytest -n $(JOBS) test/package/wheel_in_environments.py

.PHONY: reproducible
reproducible: env  ## build twice in two directories and compare sha256 of extension and wheel
	@$(PY) python/build_support/reproducible.py

.PHONY: clean
clean:  ## remove everything built, keep the environment
	@rm -rf build build-* dist python/flambeau/*.so python/flambeau/lib python/flambeau/include
	@git clean -qfdX torchgen_out
