.DEFAULT_GOAL := help
.PHONY: help test test-all quick lint demo live torture soak clean

VENV := .venv
TOX := $(VENV)/bin/tox
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)

help:  ## the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: $(TOX)  ## lint, then a test of every guarantee (docs/test-tiers.md) on Spark 3.5; at the end, the time of each part
	@rm -f .tox/times-*.json .tox/result.json; \
	$(TOX) run -e test --result-json .tox/result.json; code=$$?; \
	$(VENV)/bin/python .ci/times.py .tox; exit $$code

test-all: $(TOX)  ## lint, then the whole suite on Spark 3.5, and a part of it on Spark 4.1
	@envs=test-all; \
	if $(JAVA) --list-modules 2>/dev/null | grep -q '^jdk.incubator.vector'; then envs=$$envs,spark41; \
	else echo "SPARK 4.1 IS LEFT OUT: it needs a whole JDK, 17 or 21, in JAVA_HOME or on the PATH" >&2; fi; \
	rm -f .tox/times-*.json .tox/result.json; \
	echo "$(TOX) run -e $$envs"; $(TOX) run -e $$envs --result-json .tox/result.json; code=$$?; \
	$(VENV)/bin/python .ci/times.py .tox; exit $$code

quick: $(TOX)  ## lint, the tests that start neither a JVM nor a server, and every step of a batch in one JVM
	$(TOX) run -e quick

lint: $(TOX)  ## ruff, mypy --strict, import-linter
	$(TOX) run -e lint

demo: $(VENV)/.installed  ## a real run on this machine: change events in, lakehouse tables out
	$(VENV)/bin/headrace demo

live: $(VENV)/.installed-test  ## a live database on this machine: PostgreSQL, Debezium and Kafka, into lakehouse tables
	$(VENV)/bin/headrace live

torture: $(VENV)/.installed-test  ## hours: hundreds of histories, 100 kills, and every server killed under load; every row is compared
	HEADRACE_HISTORIES=330 $(VENV)/bin/python -m pytest --dist load tests/core/upsert/test_histories.py
	HEADRACE_HISTORIES=100 $(VENV)/bin/python -m pytest --dist load tests/core/engine/test_end_to_end_histories.py
	$(VENV)/bin/python -m benchmarks.torture --work .torture --kills 100

soak: $(VENV)/.installed-test  ## hours: 10,000 commits into Iceberg and Hudi with maintenance on and 50 kills, every row is compared after each thousand commits
	$(VENV)/bin/python -m benchmarks.soak --work .soak

.PHONY: dev hooks
dev: $(VENV)/.installed-dev  ## an editable install with the tools of tests and lint, and the git hooks

hooks: $(VENV)/.installed-dev  ## every git hook on every file: what lint checks, and spelling
	$(VENV)/bin/pre-commit run --all-files

clean:  ## remove the files of the other targets (the jars under ~/.cache/headrace stay)
	rm -rf $(VENV) .tox .torture .soak build dist site sbom .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name '*.egg-info' -prune -exec rm -rf {} +
	find . -name __pycache__ -prune -exec rm -rf {} +

# The first Python of 3.11 or newer; a name on the PATH may be a shim without a Python behind it.
$(VENV)/bin/python:
	@for python in python3.11 python3 python3.12 python3.13; do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "$$python -m venv $(VENV)"; exec $$python -m venv $(VENV); \
	  fi; \
	done; \
	echo "headrace needs Python 3.11 or newer; none is on the PATH" >&2; exit 1

$(TOX): | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet 'tox>=4.20'

$(VENV)/.installed: setup.cfg core/headrace/__init__.py | $(VENV)/bin/python
	@echo "installing headrace with PySpark and a Java into $(VENV) (once: about 400 MB)"
	$(VENV)/bin/python -m pip install --quiet -e plugins/demo-data -e '.[spark,demo]'
	@touch $@

$(VENV)/.installed-test: setup.cfg core/headrace/__init__.py | $(VENV)/bin/python
	@echo "installing headrace with PySpark, a Java and clients of the test servers into $(VENV) (once: about 500 MB)"
	$(VENV)/bin/python -m pip install --quiet -e plugins/stack -e plugins/demo-data -e '.[spark,demo,test]'
	@touch $@ $(VENV)/.installed

# tox.ini pins the tools; pip reads the pins from there. Git is absent where the sources come from an archive.
$(VENV)/.installed-dev: setup.cfg tox.ini core/headrace/__init__.py | $(TOX)
	@echo "installing headrace, its test requirements and the linters into $(VENV) (once: about 600 MB)"
	$(VENV)/bin/python -m pip install --quiet -e plugins/stack -e plugins/demo-data -e '.[all]'
	$(TOX) config -q -e lint,hooks -k deps | sed -n 's/^  *//p' | sort -u > $(VENV)/dev-requirements.txt
	$(VENV)/bin/python -m pip install --quiet -r $(VENV)/dev-requirements.txt
	if git rev-parse --git-dir >/dev/null 2>&1; then $(VENV)/bin/pre-commit install; fi
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test
