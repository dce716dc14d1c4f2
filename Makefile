# Needs Python 3.11 or newer and a JDK 17 or 21. Everything else is fetched or built, verified, and kept in
# $ICEQUAKE_HOME (default: the platform's cache folder). `make doctor` says what is there and what is missing.

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all test-fast test-plain test-spark test-docker lint format bench doctor lock clean browser

# The first Python that is new enough; python3 if none is, so that the message about it is ours.
PYTHON ?= $(or $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done),python3)
BOOTSTRAP := $(PYTHON) compose/install/bootstrap.py
WORKLOAD ?= workloads/quick.yaml
# One test process more than there are cores: some tests wait for an answer that never comes.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(1 + (os.cpu_count() or 1))')

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Download everything a run needs (minutes the first time, seconds afterwards)
	@$(BOOTSTRAP) setup

run: ## Run one workload: make run WORKLOAD=workloads/mixed.yaml
	@$(BOOTSTRAP) setup --no-class-data
	@code=0; $(BOOTSTRAP) icequake run $(WORKLOAD) || code=$$?; \
		test $$code -ge 128 || $(BOOTSTRAP) setup --class-data-after; exit $$code

# What every target but test-all leaves out.
LEFT_OUT = and not nightly

# Those that need neither Spark nor Docker.
PLAIN = -m "not spark and not docker $(LEFT_OUT)" -n $(JOBS) --dist worksteal --durations=20

# Those on Spark: one process with the tests that share a bench, one with those that share a session, and each also runs others. One process
# more than there are cores: tests wait for drivers that start, and for faults that end. Each process imports all files that it is
# given, so it gets the folders that have such tests.
SPARK_JOBS ?= 3
ON_SPARK = -m "spark $(LEFT_OUT)" tests/spark tests/compose -n $(SPARK_JOBS) --dist loadgroup --durations=20

# Skipped in one line where no engine can be had. One process: they count what the engine has.
IN_CONTAINERS = $(BOOTSTRAP) python -m compose.docker.local test -m "docker $(LEFT_OUT)" tests/docker tests/compose/test_container.py --durations=10
PLAIN_LOG := build/test-plain.log

# pytest prepares every test file in each of its processes, unless the outcome may be kept beside the file.
test test-fast test-plain test-spark: export PYTHONDONTWRITEBYTECODE =

# Those in containers and those on Spark wait for servers, drivers and faults; the plain ones, which compute, take what they leave of the cores.
test: setup ## All tests but the nightly ones; those in containers only where a Docker engine runs or can be started
	@mkdir -p $(dir $(PLAIN_LOG)); code=0; \
		nice -n 10 $(BOOTSTRAP) pytest $(PLAIN) > $(PLAIN_LOG) 2>&1 & plain=$$!; \
		$(IN_CONTAINERS) || code=$$?; \
		test $$code -ge 128 || $(BOOTSTRAP) pytest $(ON_SPARK) || code=$$?; \
		wait $$plain || code=$$?; cat $(PLAIN_LOG); \
		$(if $(LEFT_OUT),echo "make test left out the tests with the marker nightly: make test-all runs all";) exit $$code

test-all: LEFT_OUT =
# Chooses the simulated runs of a night.
test-all: export ICEQUAKE_NIGHT ?= $(shell date +%j)
test-all: browser test ## All tests, the nightly ones too; brings Chromium for those of pages where it may

browser: # Skipped in one line where none can be had.
	@$(BOOTSTRAP) python -m compose.install.browser

test-fast: ## The tests that need no Spark, without the slow ones
	@$(BOOTSTRAP) pytest -m "not spark and not slow $(LEFT_OUT)" -n $(JOBS) --dist worksteal --durations=20

test-plain: setup ## The tests that need neither Spark nor Docker, the slow ones too
	@$(BOOTSTRAP) pytest $(PLAIN)

test-spark: setup ## The tests on a real Spark cluster
	@$(BOOTSTRAP) pytest $(ON_SPARK)

test-docker: setup ## The tests on a real Docker engine; starts one and builds images where there are none
	@$(IN_CONTAINERS)

lint: ## Check with ruff (rules and format), mypy --strict, and import order of the folders
	@$(BOOTSTRAP) ruff check .
	@$(BOOTSTRAP) ruff format --check .
	@$(BOOTSTRAP) mypy
	@$(BOOTSTRAP) lint-imports

format: ## Apply ruff's fixes and format
	@$(BOOTSTRAP) ruff check --fix .
	@$(BOOTSTRAP) ruff format .

bench: setup ## Run the benchmarks of bench/; one, such as replays (2 hours), by BENCH=replays
	@$(BOOTSTRAP) python -m bench $(BENCH)

doctor: ## Show what is installed, what is missing, and how to get it
	@$(BOOTSTRAP) icequake doctor

lock: ## Pin the newest allowed packages again in requirements.lock
	@$(PYTHON) -m venv build/lock && build/lock/bin/pip install --quiet uv
	@build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --extra dev --upgrade --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate --output-file requirements.lock pyproject.toml
	@! grep -nE '://|^--' requirements.lock

clean: ## Remove generated files in this folder (keeps the runs in store/ and $ICEQUAKE_HOME)
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
