# Every target builds .venv itself: Python 3.11 or newer and make are enough.
# uv is used when it is on PATH. PYTHON=... chooses the interpreter.

.DEFAULT_GOAL := help
.NOTPARALLEL: # the installs share one .venv
.PHONY: help demo docs test test-all test-whole test-torch test-aim test-adapters check bench reproduce audits paper constraints clean

PYTHON ?=
ARGS ?=
# A file of exact versions, as CI has it: CONSTRAINTS=constraints.txt. Without one, the newest
# versions that pyproject.toml allows are installed.
CONSTRAINTS ?=

# One thread, so that timings and the last digits do not depend on the machine's cores.
PINS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMEXPR_NUM_THREADS=1

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.core ## run the demonstration audit
	@.venv/bin/proxyguard demo --dir demo-audit

# Compiled files are kept, whatever the environment says: tests start a hundred processes. Files are
# taken in their order: by numbers of tests, a long one of few tests would be run last and alone.
pytest = $(PINS) PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

test: .venv/.dev ## run the tests and the docstring examples, long ones reduced; ARGS="-k name" selects
	@$(pytest) $(ARGS)

test-all: .venv/.dev ## run everything whole, as CI does: a quarter of an hour on two cores
	@$(pytest) --effort whole $(ARGS)

# What `make test` does less of, whole: both together are all that test-all runs.
test-whole: .venv/.dev ## run whole what make test reduces or leaves out, and nothing else
	@$(pytest) --effort rest $(ARGS)

# The other targets skip these where torch is not in .venv, and say so.
test-torch: .venv/.torch ## install torch into .venv and run, whole, what needs it
	@$(pytest) --effort whole -m torch $(ARGS)

# Likewise without OpenDP's mbi.
test-aim: .venv/.aim ## install what AIM needs into .venv and run, whole, what needs it
	@$(pytest) --effort whole -m aim $(ARGS)

# Several minutes and 4 GB of disk while it runs; not part of `make test`.
test-adapters: ## run the adapters with the real ctgan, SDV and smartnoise-synth, and ours beside them
	@$(PINS) PYTHON="$(PYTHON)" tests/adapters/real/run $(ARGS)

docs: .venv/.dev ## build the site into build/site, strictly, and run every block of code and every example
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet
	@$(pytest) --effort whole tests/docs $(ARGS)
	@echo "The site: build/site/index.html"

check: .venv/.dev ## check format, lint and types
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy

bench: .venv/.dev ## run every benchmark in order
	@set -e; for script in benchmarks/bench_*.py; do \
	  test -e "$$script" || { echo "no benchmarks/bench_*.py"; break; }; \
	  echo "== $$script"; $(PINS) .venv/bin/python "$$script"; \
	done

reproduce: .venv/.reproduction ## run every study and write docs/reproduction.md with its figures
	@$(PINS) .venv/bin/python -m reproduction study reproduce --jobs 2 $(ARGS)

# Data come from PROXYGUARD_DATA, or from where `python -m reproduction data fetch` put them.
audits: .venv/.reproduction ## run the paper's real-data audits and write docs/audits.md; ARGS="NAME" selects
	@$(PINS) .venv/bin/python -m reproduction.audits.reproduce $(ARGS)
	@$(PINS) .venv/bin/python -m reproduction.paper.page

paper: .venv/.reproduction ## write docs/reading-the-paper.md: every part of the paper, and what became of it
	@$(PINS) .venv/bin/python -m reproduction.paper.page

# A fresh environment, so that nothing that happens to be installed gets in; what it finds newest
# is what CI installs from then on. A few hundred megabytes are loaded.
constraints: ## write constraints.txt anew: the newest versions that pyproject.toml allows
	@set -e; $(find-python); folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	"$$python" -m venv "$$folder/venv"; \
	"$$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
	  -e ".[dev]" -e ./reproduction; \
	{ echo "# Exact versions of all that make test installs, as CI has them; made by: make constraints"; \
	  echo "# with Python $$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"; \
	  "$$folder/venv/bin/python" -m pip freeze --exclude-editable --disable-pip-version-check; \
	} >"$$folder/constraints.txt"; \
	mv "$$folder/constraints.txt" constraints.txt; echo "constraints.txt: $$(grep -c == constraints.txt) packages"

clean: ## remove .venv, caches and built files
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps say what is installed: .core the product and what an audit needs, .reproduction the
# paper's package with it, .dev both and all that the tests need, .torch and .aim these and more.
projects := pyproject.toml reproduction/pyproject.toml
comma := ,

.venv/.core: $(projects) $(CONSTRAINTS)
	@$(call install,-e ".[audit]",.venv/.core)

.venv/.reproduction: $(projects) $(CONSTRAINTS)
	@$(call install,-e ".[audit]" -e ./reproduction,.venv/.core .venv/.reproduction)

.venv/.dev: $(projects) $(CONSTRAINTS)
	@$(call install,-e ".[dev]" -e ./reproduction,.venv/.core .venv/.reproduction .venv/.dev)

# Its version is named: the extra alone takes whichever there is, and the last bits of a neural
# release depend on it. TORCH=torch==2.12.0 chooses another.
TORCH ?= torch==2.13.0

.venv/.torch: $(projects) $(CONSTRAINTS)
	@$(call install,-e ".[dev$(comma)torch]" -e ./reproduction $(TORCH),.venv/.core .venv/.reproduction .venv/.dev .venv/.torch)

.venv/.aim: $(projects) $(CONSTRAINTS)
	@$(call install,-e ".[dev$(comma)aim]" -e ./reproduction,.venv/.core .venv/.reproduction .venv/.dev .venv/.aim)

# A stamp is not enough: an install may have been cut short (.installing is still there), the
# interpreter replaced, the checkout moved, or another PYTHON or other CONSTRAINTS asked for. Then
# start over.
probe := import importlib.util as u, os, sys; \
  s = u.find_spec("proxyguard"); \
  sys.exit(not (s and os.path.samefile(list(s.submodule_search_locations)[0], "src/proxyguard")))
usable := { test ! -e .venv/.installing && .venv/bin/python -I -c '$(probe)' && \
  { test -z "$(PYTHON)" || test "$$(cat .venv/.python)" = "$(PYTHON)"; } && \
  { test -z "$(CONSTRAINTS)" || cmp "$(CONSTRAINTS)" .venv/.constraints; }; } >/dev/null 2>&1
$(shell $(usable) || rm -f .venv/.core .venv/.reproduction .venv/.dev .venv/.torch .venv/.aim)

recent := import sys; sys.exit(sys.version_info < (3, 11))
candidates := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)

define find-python
python=; for name in $(candidates); do \
  if "$$name" -c '$(recent)' >/dev/null 2>&1; then python=$$name; break; fi; \
done; \
if test -z "$$python"; then \
  echo "ProxyGuard needs Python 3.11 or newer; tried: $(candidates)." >&2; \
  echo "Name one with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
  exit 1; \
fi
endef

# $(call install,REQUIREMENTS,STAMPS): install from this checkout, editable, into .venv. The log
# is shown only on failure. A second make waits for the first and then finds nothing to do.
define install
set -e; \
if command -v flock >/dev/null; then exec 9<pyproject.toml; flock 9; fi; \
if $(usable) && test $@ -nt pyproject.toml && test $@ -nt reproduction/pyproject.toml; then exit 0; fi; \
$(find-python); \
echo "installing proxyguard into .venv (once)"; \
$(usable) || rm -rf .venv; \
log=$$(mktemp); \
if command -v uv >/dev/null; then \
  { test -d .venv || uv venv --python "$$python" .venv; } && touch .venv/.installing && \
  uv pip install --python .venv/bin/python $(addprefix -c ,$(CONSTRAINTS)) $(1); \
else \
  { test -d .venv || "$$python" -m venv .venv; } && touch .venv/.installing && \
  { .venv/bin/python -m pip --version || .venv/bin/python -m ensurepip; } && \
  .venv/bin/python -m pip install --disable-pip-version-check \
    $(addprefix -c ,$(CONSTRAINTS)) $(1); \
fi >"$$log" 2>&1 || { cat "$$log" >&2; rm -f "$$log"; exit 1; }; \
rm -f "$$log"; \
test -e .venv/.python || echo "$$python" >.venv/.python; \
$(if $(CONSTRAINTS),cp "$(CONSTRAINTS)" .venv/.constraints; )\
touch $(2); rm .venv/.installing
endef
