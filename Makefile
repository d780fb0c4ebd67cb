# Targets for users and developers; `make help` lists them.
SHELL := /bin/bash
export PATH := $(HOME)/.cargo/bin:/usr/local/go/bin:/usr/sbin:/sbin:$(PATH)
# Tests start thousands of Python processes: each would compile our modules again.
unexport PYTHONDONTWRITEBYTECODE
FF := .venv/bin/firstflight
OPENSTACK_PROVIDER := github.com/terraform-provider-openstack/terraform-provider-openstack/v3@v3.4.0
# Clients that are separate packages, outside the workspace.
APART := $(patsubst %/Cargo.toml,%,$(wildcard testbed/clients/*/Cargo.toml))
# Each test binary runs in a separate network namespace. cargo runs outside of it, because it may fetch crates.
RUNNER := ["$(CURDIR)/tests/isolated"]
# All groups of tests/conftest.py except those with a separate target.
COMMON_TESTS := not testbed and not superset and not cloud and not dist and not machines and not recipes
# Tests mostly wait, so there are more processes than cores.
PYTEST := tests/isolated .venv/bin/python -m pytest -q -n 5
CARGO_TEST := cargo --config 'target."cfg(all())".runner=$(RUNNER)' test
.DEFAULT_GOAL := help
.PHONY: help setup setup-demo setup-downloads docs setup-site testbed-setup demo demo-downloads airflow test test-unit test-profile test-long test-lab test-site test-browser test-timing testbed-demo testbed-test superset grafana superset-test cloud-test dist dist-test deploy-test lint audit hashes bench format clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: ## Install what tests and lint need, and build the native programs.
	@deploy/setup.sh test

setup-demo: ## Install only what `make demo` needs.
	@deploy/setup.sh demo

setup-downloads: ## Install what a campaign needs, with crawl, downloads and the lab.
	@deploy/setup.sh downloads

setup-site: ## Also install what a site needs: Airflow and its database.
	@deploy/setup.sh site

testbed-setup: ## Build the kernel of the testbed's guests and the programs that only the testbed uses, once.
	@deploy/setup.sh testbed
	@.venv/bin/python -m testbed.setup $(if $(filter command line,$(origin SOURCE)),--source $(SOURCE))

docs: ## Build the documentation site in var/docs, without network access.
	@deploy/setup.sh docs
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict
	@echo "var/docs/index.html (to search, serve it: python3 -m http.server --bind 127.0.0.1 --directory var/docs)"

demo: setup-demo ## Start the lab, run a campaign, print measured and declared Table 1, and write a report.
	@deploy/demo.sh

demo-downloads: setup-downloads ## Start the lab, crawl, test TCP options, download, and print Tables 1 and 2 with the published values.
	@deploy/demo_downloads.sh

airflow: setup-site ## Start a whole site in the lab: Airflow, the store and four workers. Ctrl-C stops it.
	@.venv/bin/python -m lab.site

superset: ## Start Superset on the store that FIRSTFLIGHT_STORE names. Ctrl-C stops it.
	@deploy/setup.sh superset
	@.venv/bin/python -m deploy.superset.start

grafana: setup-demo ## Write Grafana's data source and dashboards to var/grafana.
	@rm -rf var/grafana
	@.venv/bin/python -m reports.grafana var/grafana
	@echo "var/grafana (deploy/grafana/README.md)"

test: setup ## Run all tests except the *-test targets below, and a sample of the costly modules.
	$(CARGO_TEST) --quiet --release --workspace --locked
	cd lab/stacks/quic-go && go vet ./... && go test ./...
	cd deploy/grafana/check && go vet ./...
	$(PYTEST) --sample --durations=20 -m "$(COMMON_TESTS)"

test-unit: setup ## Run the tests that need no lab, no site and no browser.
	$(CARGO_TEST) --quiet --release --workspace --locked
	$(PYTEST) -m unit

test-lab: setup ## Run the tests that start the lab or their own servers.
	$(PYTEST) -m lab

test-site: setup ## Run the tests of schedules, with real Airflow and PostgreSQL.
	$(PYTEST) -m site

test-browser: setup ## Run the tests that open pages in a browser.
	$(PYTEST) -m browser

test-profile: setup ## Run the Python tests of `make test`, and print the CPU time of each folder and of the costliest tests.
	$(PYTEST) --sample -p tests.cpu_profile -m "$(COMMON_TESTS)"

test-long: setup ## Run the tests that are too slow for each change; GROUP=NAME runs one group.
	@.venv/bin/python -m tests.long $(addprefix --group=,$(GROUP))

test-timing: setup ## Repeat the tests that depend on a clock: ROUNDS times, ABREAST at a time, with LOOPS busy loops.
	@deploy/repeat_timing.sh $(or $(ROUNDS),1) $(or $(LOOPS),0) $(or $(ABREAST),1)

testbed-demo: setup testbed-setup ## Measure Figure 5 for three clients in simulated time, and print the published values next to it.
	.venv/bin/firstflight testbed run iack-ttfb --seeds 10 --jobs 2 --resume --cells aioquic-aioquic,ngtcp2-aioquic,quic-go-aioquic
	.venv/bin/firstflight testbed show iack-ttfb

testbed-test: setup testbed-setup ## Run the tests in simulated time, and the tests of programs that testbed-setup builds.
	for client in $(APART); do \
		(cd $$client && cargo clippy --quiet --release --all-targets --locked --target-dir ../../../target -- -D warnings \
			&& $(CARGO_TEST) --quiet --release --locked --target-dir ../../../target) || exit; \
	done
	tests/isolated .venv/bin/python -m pytest -q -n 2 -m testbed tests/testbed

superset-test: setup ## Install Superset, import the generated assets, and open the dashboard in Chromium.
	@deploy/setup.sh superset
	tests/isolated .venv/bin/python -m pytest -q -m superset tests/superset

cloud-test: setup ## Check deploy/cloud with OpenTofu, a provider and cloud-init, which this builds or unpacks.
	@mkdir -p target/tofu
	deploy/cloud/check/cloud_init.sh target/cloud-init
	cd deploy/cloud/check && go build -trimpath -o ../../../target/tofu/ github.com/opentofu/opentofu/cmd/tofu
	GOBIN=$(CURDIR)/target/tofu go install -trimpath $(OPENSTACK_PROVIDER)
	tests/isolated .venv/bin/python -m pytest -q -m cloud tests/cloud

dist: setup ## Build dist/ for machines without a checkout: wheels, static programs, checksums, SBOM.
	@.venv/bin/python -m deploy.dist

dist-test: dist ## Install dist/ without network or compilers, and run the programs.
	tests/isolated .venv/bin/python -m pytest -q -m dist tests/dist

deploy-test: dist ## Install a site from dist/ on systemd-nspawn machines with the playbook, and test failures (as root).
	@deploy/setup.sh machines
	unshare --mount --pid --fork --kill-child --mount-proc .venv/bin/python -m pytest -q -x -p no:xdist -m machines tests/machines

lint: setup ## Check style, types, imports between folders, words, and the native code.
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python deploy/words.py
	cargo fmt --all --check
	for client in $(APART); do cargo fmt --manifest-path $$client/Cargo.toml --check || exit; done
	cargo clippy --quiet --release --workspace --all-targets --locked -- -D warnings
	cd lab/stacks/quic-go && test -z "$$(gofmt -l .)"
	cd deploy/grafana/check && test -z "$$(gofmt -l .)"

audit: setup ## Compare the pinned dependencies with the vulnerability database in FIRSTFLIGHT_ADVISORIES.
	@.venv/bin/python deploy/audit.py

# The lists of requirements are complete, so pip resolves no dependencies.
hashes: setup ## After a change of requirements*.txt, write deploy/hashes, which pip compares with its downloads.
	for file in requirements*.txt; do \
		.venv/bin/uv pip compile --quiet --no-deps --universal --generate-hashes --no-header --no-annotate --python-version 3.11.2 \
			--output-file deploy/hashes/$$file $$file || exit; \
	done

# As in `make dist`.
bench: export CARGO_PROFILE_RELEASE_LTO := thin
bench: setup ## Measure speed and size, and print how each was measured; ARGS="campaign --names N" measures one part.
	.venv/bin/python -m bench $(ARGS)

format: ## Format all code.
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .
	cargo fmt --all
	for client in $(APART); do cargo fmt --manifest-path $$client/Cargo.toml; done
	cd lab/stacks/quic-go && gofmt -w .
	cd deploy/grafana/check && gofmt -w .

clean: ## Remove target, dist, the virtual environments, and var with the store and all runs.
	-@[ -x $(FF) ] && $(FF) lab down
	rm -rf target var dist .venv .venv-superset
