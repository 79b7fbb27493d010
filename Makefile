# Everything runs in .venv, which the first command makes from the lock file. Needs make and Python 3.11.4 or newer.
#
#   make demo        a server with made-up accounts, to try it out
#   make serve       a server on ./socialpub.db, for real
#   make test        the tests, a few minutes, no network
#   make test-slow   kill and soak tests, the built wheel, a ninth platform, generated clients, and what takes long
#   make test-browser  pages in chromium
#   make screenshots  pictures of every page, in screenshots/ (ARGS="FOLDER" for another; ARGS="--readme" for the README's)
#   make lint        ruff, mypy, import rules, the example settings, the types of rows
#   make fix         what can be put right by machine
#   make client      the Python client's classes, from the OpenAPI document
#   make audit       the locked packages against the database of known vulnerabilities (needs the package registry, or
#                    AUDIT_DB=advisories.zip, see docs/security.md)
#   make bench       measurements of a running server, a quarter of an hour; ARGS="--quick": a few minutes (needs wrk, gcc)
#   make binary      the whole program as one file, dist/socialpub, for Linux with this machine's glibc or a newer one
#   make release     wheels, source, binary, checksums and what they are made of, in dist/VERSION; from a clean tree only
#   make lock        new lock files from pyproject.toml (needs the package registry)
#
# Options go in ARGS: make demo ARGS="--port 9000"

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
SLOW := $(BIN)/python -m pytest -rs --durations=40 -o faulthandler_timeout=3600 -m
# pytest's exit code where ARGS chooses no test.
NO_TESTS := 5
COMMANDS := templates/docs/commands.json
ANSWERS := clients/python/socialpub_client/answers.py

.PHONY: demo serve test test-slow test-browser screenshots lint fix client audit bench binary release lock

demo: $(READY)
	$(BIN)/python -m socialpub demo $(ARGS)

serve: $(READY)
	$(BIN)/python -m socialpub serve $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest -rs -p no:schemathesis -m "not slow and not browser" --ignore tests/soak --ignore tests/browser \
		-n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

test-slow: $(READY)
	$(SLOW) "slow and alone" $(ARGS) || [ $$? -eq $(NO_TESTS) ]
	$(SLOW) "slow and not alone" -n 4 --dist worksteal $(ARGS) || [ $$? -eq $(NO_TESTS) ]

# Needs Debian's chromium.
test-browser: $(READY)
	$(BIN)/python -m pytest -rs -m browser -n 2 --dist loadfile $(ARGS)

screenshots: $(READY)
	$(BIN)/python -m tests.support.browser.screenshots $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(BIN)/python -m socialpub config example | diff -u socialpub.toml.example -
	$(BIN)/python .ci/rows.py | diff -u socialpub/store/rows.py -
	$(BIN)/python .ci/client_answers.py | diff -u $(ANSWERS) -
	$(BIN)/python .ci/command_docs.py | diff -u $(COMMANDS) -
	$(BIN)/python .ci/names.py

fix: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m socialpub config example > .venv/example && mv .venv/example socialpub.toml.example
	$(BIN)/python .ci/rows.py > .venv/rows && mv .venv/rows socialpub/store/rows.py
	$(BIN)/python .ci/command_docs.py > .venv/commands && mv .venv/commands $(COMMANDS)

client: $(READY)
	$(BIN)/python .ci/client_answers.py > .venv/answers && mv .venv/answers $(ANSWERS)

audit: $(READY)
	PYTHON=$(PYTHON) .ci/audit

bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

binary: $(READY)
	$(BIN)/pyinstaller --noconfirm --log-level WARN --distpath dist --workpath .venv/binary .ci/binary.spec

release: $(READY)
	$(BIN)/python .ci/release.py $(ARGS)

COMPILE = .venv-lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --find-links .venv-lock/wheels pyproject.toml $(ARGS)

# The client is ours, and no package of the registry: what it needs is in the files, and it is not.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet pip-tools
	.venv-lock/bin/python -m pip wheel --quiet --no-deps --wheel-dir .venv-lock/wheels clients/python
	$(COMPILE) --output-file requirements.lock
	$(COMPILE) --extra dev --constraint requirements.lock --output-file requirements-dev.lock
	sed -i '/^socialpub-client==/,/^[a-z]/{/^socialpub-client==/d;/^ /d}' requirements.lock requirements-dev.lock
	sed -i '1i # Made by `make lock` from pyproject.toml; every package with the hashes of its files.' requirements.lock requirements-dev.lock

.venv/installed: requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11, 4) or sys.exit("Python 3.11.4 or newer is needed; name it: make PYTHON=python3.11")'
	@echo "Making .venv and installing the packages of requirements-dev.lock into it; the first time this takes a few minutes." >&2
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

# Without network: the build tool is in the lock file. The client last: it has the program `socialpub`, which an install
# of the server from before the client removes.
$(READY): .venv/installed pyproject.toml clients/python/pyproject.toml
	@echo "Installing socialpub and its client into .venv." >&2
	for each in . clients/python; do \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e $$each || exit; \
	done
	@touch $@
