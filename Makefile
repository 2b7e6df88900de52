# The doors of the project. Each installs what it needs first (tools/setup.sh): Debian packages as root or with sudo, Python packages into
# .venv; without the rights to install it prints the line to run and stops. Repeating a door is quick. JOBS=N limits compiler processes.
#
#   PYTHON    the interpreter .venv is made from (default python3)
#   SEEDS   for `make bench`: runs of each program of the zoo (default 1; 20 for the figures of docs/diagnosis.md)
#   WERROR  a warning of the compiler is an error in `make build` too; as CI is, if that is set.
#   ONLY    for `make test` and `make soak`: only these groups, e.g. ONLY="c python"; see tools/run_tests.py

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := PYTHON=$(PYTHON) bash tools/setup.sh
JOBS ?= $(shell nproc)
SEEDS ?= 1
WERROR ?= $(CI)
MESON := $(BIN)/meson
NINJA := $(BIN)/ninja $(if $(MAKE_TERMOUT),,--quiet)
export PATH := $(CURDIR)/$(BIN):$(PATH)
PHOTOS := .cache/demo-photos

.DEFAULT_GOAL := help
.PHONY: help build demo test soak bench wheel clean asan tsan fuzz format

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

build: ## library, command and Python package into .venv
	@$(SETUP) build
	@test -f build/build.ninja || $(MESON) setup build --prefix "$(CURDIR)/$(VENV)" -Dpython.install_env=venv
	@test "$$(cat build/werror 2>/dev/null)" = "$(WERROR)" || \
	  { $(MESON) configure build -Dwerror=$(if $(WERROR),true,false) && echo "$(WERROR)" > build/werror; }
	@$(NINJA) -C build -j $(JOBS)
	@$(MESON) install -C build --no-rebuild --quiet
	@$(BIN)/fullbore --version
	@$(BIN)/python -c "import fullbore"

demo: build ## make a small photo folder, feed an emulated accelerator from it, explain the figures
	@$(SETUP) demo
	@$(BIN)/python tools/make_photos.py $(PHOTOS) --count 600 --classes 10 --offline
	@$(BIN)/python tools/demo.py $(PHOTOS)

test: build ## everything CI runs; the long sweeps sampled; ends with the count
	@$(SETUP) demo test fuzz
	@$(BIN)/python tools/run_tests.py --jobs $(JOBS) $(ONLY)

soak: build ## the same with the long sweeps whole: hours
	@$(SETUP) demo test fuzz
	@FB_SOAK=1 $(BIN)/python tools/run_tests.py --soak --jobs $(JOBS) $(ONLY)

asan: build ## the C tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(SETUP) fuzz
	@$(BIN)/python tools/run_tests.py --jobs $(JOBS) asan

tsan: build ## the tests of reading and of the engine under ThreadSanitizer
	@$(BIN)/python tools/run_tests.py --jobs $(JOBS) tsan

fuzz: build ## a minute of libFuzzer per parser
	@$(SETUP) fuzz
	@$(BIN)/python tools/run_tests.py --jobs $(JOBS) --fuzz-seconds 60 fuzz

format: ## clang-format on every C file, imports of Python in order
	@$(SETUP) test
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs $(BIN)/clang-format -i
	@$(BIN)/ruff check --quiet --select I --fix .

bench: build ## measure against bare C loops and torch's DataLoader, print the ratios (BENCH_ARGS=--quick)
	@$(SETUP) demo bench
	@$(BIN)/python bench/run.py $(BENCH_ARGS)
	@$(BIN)/python bench/consumer.py --only npz rows sound $(filter --quick,$(BENCH_ARGS))
	@$(BIN)/python bench/arrays.py $(filter --quick,$(BENCH_ARGS))
	@$(BIN)/python bench/pack.py $(filter --quick,$(BENCH_ARGS))
	@$(BIN)/python bench/s3.py --peers $(if $(filter --quick,$(BENCH_ARGS)),--rounds 1)
	@$(BIN)/python bench/cache.py $(if $(filter --quick,$(BENCH_ARGS)),--rounds 1)
	@$(BIN)/python bench/build.py $(if $(filter --quick,$(BENCH_ARGS)),--rounds 1 --files 6000)
	@$(BIN)/python bench/watch.py
	@$(BIN)/python bench/doctor.py --batch 64 --rounds $(if $(filter --quick,$(BENCH_ARGS)),1,2)
	@$(BIN)/python bench/zoo.py --seeds $(SEEDS) || true # a wrong verdict is in the table; the bench goes on

wheel: ## a wheel into dist/, tried in a virtual environment of its own
	@$(SETUP) build
	@$(BIN)/python tools/make_wheel.py dist

clean: ## remove what the other doors made, except .venv and the photo cache
	rm -rf build build-asan build-tsan dist
