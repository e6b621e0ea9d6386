# make demo: the main job on the embedded default.   make picture: the README's figure.   make test: every check and every test.
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
DEMO   ?= runs/demo-$(shell date +%Y%m%d-%H%M%S)
INSTALLED := $(VENV)/.installed

.PHONY: demo picture docs test test-fast check format clean

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,reports,tasks,sweep,export,docs,dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/grpodyn record --run-dir $(DEMO)/full
	$(BIN)/grpodyn status $(DEMO)/full
	$(BIN)/grpodyn recommend-lora $(DEMO)/full --apply $(DEMO)/full -o $(DEMO)/next.yaml
	$(BIN)/grpodyn record $(DEMO)/next.yaml --run-dir $(DEMO)/lora
	$(BIN)/grpodyn compare $(DEMO)/full $(DEMO)/lora
	$(BIN)/grpodyn report $(DEMO)/full $(DEMO)/lora -o $(DEMO)/report --figures png
	@echo
	@echo "Look next at:"
	@echo "  $(DEMO)/report/report.html    verdicts and figures of both runs, in any browser"
	@echo "  $(DEMO)/next.yaml             the config that the advice produced"
	@echo "  grpodyn recommend-lora $(DEMO)/full --json     the advice for programs"
	@echo "  docs/lora-advice.md           what the advice rests on, and what it does not say"

# The README's figure.
picture:
	rm -rf runs/picture
	$(MAKE) demo DEMO=runs/picture
	cp runs/picture/report/figures/all-overview.png docs/figures/overview.png

# The docs as a site in build/site; a broken link ends it.
docs: $(INSTALLED)
	$(BIN)/python -m mkdocs build --strict

# Every core has its own tests, of which none needs more: processes that each use all cores wait for one another.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# In the order of the folders: small doctests come last, so that no core waits for a long file on another.
ALL_CORES  := --numprocesses logical --dist loadgroup --no-loadscope-reorder

test: check $(INSTALLED)
	$(ONE_THREAD) $(BIN)/python -m pytest $(ALL_CORES)

# Every kind of test once, for daily work.
test-fast: $(INSTALLED)
	$(ONE_THREAD) $(BIN)/python -m pytest $(ALL_CORES) -m "not slow"

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
