# make run [TARGET=http://host:8000]   the daemon, on an embedded simulated engine unless TARGET names one
# make test                            linters, types and every test; what they need is installed first
# make fuzz [SECONDS=60]               fuzz the access-log parsers, guided by coverage
# make bench                           ratios against the real alternatives (docs/performance.md)
# make rules [RUNBOOK_BASE=https://…]  write rules/, and the PrometheusRule in deploy/kubernetes
# make dashboards [RUNBOOK_BASE=…]     write grafana/dashboards, and the ConfigMaps in deploy/kubernetes
# make metrics                         write docs/metrics.md
# make image                           build the container image with buildah, podman or docker, and run it
# make lock                            refresh the hashed requirements files

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate
DEBIAN_PACKAGES := chromium curl dnsmasq-base fonts-dejavu-core libatomic1 nginx-light prometheus prometheus-alertmanager victoria-metrics

.PHONY: run test lint unit fuzz bench rules dashboards metrics image lock debian clean

run: $(VENV)/.runtime
ifdef TARGET
	@PYTHONPATH=exporter exec $(BIN)/python -m vllm_advisor serve --target=$(TARGET)
else
	@PYTHONPATH=exporter exec $(BIN)/python -m vllm_advisor demo
endif

test: lint unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/.dev debian
	$(BIN)/pytest

bench: $(VENV)/.dev debian
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-bench.txt
	$(BIN)/python bench/run.py

fuzz: $(VENV)/.dev
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-fuzz.txt
	$(BIN)/python tests/fuzz/fuzz_access_logs.py -max_total_time=$(or $(SECONDS),60) -max_len=6000 -timeout=10 -rss_limit_mb=800 -artifact_prefix=$(VENV)/

rules dashboards metrics: $(VENV)/.dev
	@PYTHONPATH=tools $(BIN)/python -m monitoring $@ $(if $(RUNBOOK_BASE),--runbook-base=$(RUNBOOK_BASE))

image:
	@tools/image.sh

debian:
	@missing=$$(for p in $(DEBIAN_PACKAGES); do dpkg -s $$p >/dev/null 2>&1 || echo $$p; done); \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else echo "These Debian packages are needed by the tests: run 'apt-get install" $$missing"' as root." >&2; exit 1; fi

lock: $(VENV)/.dev
	$(BIN)/pip install --quiet "uv>=0.5"
	$(LOCK) --output-file requirements.txt pyproject.toml
	$(LOCK) --output-file requirements-dev.txt --group dev --constraints requirements.txt pyproject.toml
	$(LOCK) --output-file requirements-bench.txt --group bench
	$(LOCK) --output-file requirements-fuzz.txt --group fuzz

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV) || { echo "python3 with its venv module is needed: run 'apt-get install python3-venv' as root." >&2; exit 1; }

$(VENV)/.runtime: requirements.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.runtime $@

clean:
	rm -rf $(VENV)
