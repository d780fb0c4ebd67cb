# Everything a person does with this tree. `make help` lists it.
SHELL := /bin/bash
export PATH := $(HOME)/.cargo/bin:/usr/local/go/bin:/usr/sbin:/sbin:$(PATH)
# Tests start thousands of Python processes: each would compile our modules again.
unexport PYTHONDONTWRITEBYTECODE
FF := .venv/bin/firstflight
OPENSTACK_PROVIDER := github.com/terraform-provider-openstack/terraform-provider-openstack/v3@v3.4.0
# Clients that are packages of their own, outside of the workspace.
APART := $(patsubst %/Cargo.toml,%,$(wildcard testbed/clients/*/Cargo.toml))
# Each test binary runs in a separate network namespace. cargo runs outside of it, because it may fetch crates.
RUNNER := ["$(CURDIR)/tests/isolated"]
# The groups of tests/conftest.py that have a target of their own.
COMMON_TESTS := not testbed and not superset and not cloud and not dist and not machines and not recipes
# Most tests wait most of the time, so more processes than cores.
PYTEST := tests/isolated .venv/bin/python -m pytest -q -n 5
CARGO_TEST := cargo --config 'target."cfg(all())".runner=$(RUNNER)' test
.DEFAULT_GOAL := help
.PHONY: help setup setup-demo setup-downloads docs setup-site testbed-setup demo demo-downloads airflow test test-unit test-profile test-long test-lab test-site test-browser test-timing testbed-demo testbed-test superset grafana superset-test cloud-test dist dist-test deploy-test lint audit hashes bench format clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: ## Install what tests and lint use, and build the native programs.
	@deploy/setup.sh test

setup-demo: ## Install only what `make demo` uses.
	@deploy/setup.sh demo

setup-downloads: ## Install what every campaign uses, with crawl and downloads, and the lab.
	@deploy/setup.sh downloads

setup-site: ## Install what a site uses as well: Airflow and its database.
	@deploy/setup.sh site

testbed-setup: ## Build the kernel of the testbed's guests into the user's cache folder, once, and programs that only they use.
	@deploy/setup.sh testbed
	@.venv/bin/python -m testbed.setup $(if $(filter command line,$(origin SOURCE)),--source $(SOURCE))

docs: ## Build the documentation site into var/docs, without network.
	@deploy/setup.sh docs
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict
	@echo "var/docs/index.html (to search, serve it: python3 -m http.server --bind 127.0.0.1 --directory var/docs)"

demo: setup-demo ## Raise the lab, run the instant-ACK campaign, print Table 1 beside the truth, write a page.
	@deploy/demo.sh

demo-downloads: setup-downloads ## Raise the lab, crawl, ask for TCP options, download, print Tables 1 and 2 beside published values.
	@deploy/demo_downloads.sh

airflow: setup-site ## Raise a whole site over the lab: Airflow, store, four Edge workers; Ctrl-C ends it.
	@.venv/bin/python -m lab.site

superset: ## Start Superset, the analyst's bench, on the store that FIRSTFLIGHT_STORE names; Ctrl-C ends it.
	@deploy/setup.sh superset
	@.venv/bin/python -m deploy.superset.start

grafana: setup-demo ## Write the data source and dashboards for Grafana into var/grafana.
	@rm -rf var/grafana
	@.venv/bin/python -m reports.grafana var/grafana
	@echo "var/grafana (deploy/grafana/README.md)"

test: setup ## Run the tests: all but those of the targets *-test below, and half of those that start campaigns.
	$(CARGO_TEST) --quiet --release --workspace --locked
	cd lab/stacks/quic-go && go vet ./... && go test ./...
	cd deploy/grafana/check && go vet ./...
	$(PYTEST) --half --durations=20 -m "$(COMMON_TESTS)"

test-unit: setup ## Run the tests that need no lab, no site and no browser.
	$(CARGO_TEST) --quiet --release --workspace --locked
	$(PYTEST) -m unit

test-lab: setup ## Run the tests that raise the lab or servers of their own.
	$(PYTEST) -m lab

test-site: setup ## Run the tests of schedules, with real Airflow and PostgreSQL.
	$(PYTEST) -m site

test-browser: setup ## Run the tests that open pages in a browser.
	$(PYTEST) -m browser

test-profile: setup ## Run every test of `make test` in Python, and print the CPU time by folder and of the costliest tests.
	$(PYTEST) --half -p tests.cpu_profile -m "$(COMMON_TESTS)"

test-long: setup ## Run what takes too long for each change: all kill moments, soak, timing, dist, deploy ... (GROUP=NAME: one).
	@.venv/bin/python -m tests.long $(addprefix --group=,$(GROUP))

test-timing: setup ## Repeat the tests that depend on a clock ROUNDS times, ABREAST at a time, beside LOOPS busy loops.
	@deploy/repeat_timing.sh $(or $(ROUNDS),1) $(or $(LOOPS),0) $(or $(ABREAST),1)

testbed-demo: setup testbed-setup ## Figure 5 for three clients in simulated time, beside the published values.
	.venv/bin/firstflight testbed run iack-ttfb --seeds 10 --jobs 2 --resume --cells aioquic-aioquic,ngtcp2-aioquic,quic-go-aioquic
	.venv/bin/firstflight testbed show iack-ttfb

testbed-test: setup testbed-setup ## Run the tests in simulated time, and those of programs that testbed-setup builds.
	for client in $(APART); do \
		(cd $$client && cargo clippy --quiet --release --all-targets --locked --target-dir ../../../target -- -D warnings \
			&& $(CARGO_TEST) --quiet --release --locked --target-dir ../../../target) || exit; \
	done
	tests/isolated .venv/bin/python -m pytest -q -n 2 -m testbed tests/testbed

superset-test: setup ## Install Superset, import the bench's assets, open its dashboard in Chromium.
	@deploy/setup.sh superset
	tests/isolated .venv/bin/python -m pytest -q -m superset tests/superset

cloud-test: setup ## Build OpenTofu and a provider, unpack cloud-init, and let them check deploy/cloud.
	@mkdir -p target/tofu
	deploy/cloud/check/cloud_init.sh target/cloud-init
	cd deploy/cloud/check && go build -trimpath -o ../../../target/tofu/ github.com/opentofu/opentofu/cmd/tofu
	GOBIN=$(CURDIR)/target/tofu go install -trimpath $(OPENSTACK_PROVIDER)
	tests/isolated .venv/bin/python -m pytest -q -m cloud tests/cloud

dist: setup ## Build what machines install instead of a checkout into dist/: wheels, static programs, checksums, SBOM.
	@.venv/bin/python -m deploy.dist

dist-test: dist ## Install dist/ without network and compilers, and run what is installed.
	tests/isolated .venv/bin/python -m pytest -q -m dist tests/dist

deploy-test: dist ## Install a site from dist/ on machines of systemd-nspawn by the playbook, and break it (root).
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

audit: setup ## Hold pinned dependencies against the vulnerability database in FIRSTFLIGHT_ADVISORIES.
	@.venv/bin/python deploy/audit.py

# Lists of requirements name everything, so nothing is resolved.
hashes: setup ## Write deploy/hashes, with which pip compares what it downloads, after a change of requirements*.txt.
	for file in requirements*.txt; do \
		.venv/bin/uv pip compile --quiet --no-deps --universal --generate-hashes --no-header --no-annotate --python-version 3.11.2 \
			--output-file deploy/hashes/$$file $$file || exit; \
	done

# Measured as machines run it.
bench: export CARGO_PROFILE_RELEASE_LTO := thin
bench: setup ## Measure speed and size, each with how it was measured.
	.venv/bin/python -m bench

format: ## Put all code into the project's style.
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .
	cargo fmt --all
	for client in $(APART); do cargo fmt --manifest-path $$client/Cargo.toml; done
	cd lab/stacks/quic-go && gofmt -w .
	cd deploy/grafana/check && gofmt -w .

clean: ## Remove what was built and measured, with the store, runs and fetched lists in var.
	-@[ -x $(FF) ] && $(FF) lab down
	rm -rf target var dist .venv .venv-superset
