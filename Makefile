# The front door. Each target installs what it needs on Debian or Ubuntu (sudo only when not root,
# only when something is missing) and says what it does. SKIP_PACKAGES=1 leaves packages alone.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
SIM_SEEDS ?= 1000

BUILD_PACKAGES = gcc libc6-dev binutils
DEMO_PACKAGES = ibverbs-utils perftest
TEST_PACKAGES = libibverbs-dev libibverbs1 ibverbs-utils perftest python3-pyverbs
BENCH_PACKAGES = perftest strace

FERRIBAND = target/release/ferriband
LIB_DIR = target/ferriband/lib

ifdef SKIP_PACKAGES
need = @true
else
need = @scripts/need
endif

.DEFAULT_GOAL := help
.PHONY: help build demo test bench lint install uninstall clean

help: ## show this list
	@echo "Ferriband: InfiniBand in software. Targets:"
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

build: ## build the program and the drop-in libraries
	$(need) $(BUILD_PACKAGES)
	@scripts/need-rust
	$(CARGO) build --release --package ferriband
	$(CARGO) xtask libs --release

demo: build ## run Debian's own RDMA programs on the software adapter
	$(need) $(DEMO_PACKAGES)
	$(FERRIBAND) demo

# The C ABI's tests link a development build of the libraries: the release build comes after them.
test: ## run every test: units, properties, simulator, C ABI, real programs, rdma-core's own
	$(need) $(BUILD_PACKAGES) $(TEST_PACKAGES)
	@scripts/need-rust
	$(CARGO) test --workspace
	@$(MAKE) --no-print-directory build
	$(FERRIBAND) sim --seeds $(SIM_SEEDS)
	$(FERRIBAND) demo --quick
	@scripts/pyverbs-tests || [ $$? -eq 77 ]

bench: build ## compare the adapter with this machine's floors: ratios with targets
	$(need) $(BENCH_PACKAGES)
	$(FERRIBAND) bench

lint: ## formatting, clippy, licences and advisories of the crates that we use
	@scripts/need-rust
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@scripts/deny

install: build ## install to PREFIX (/usr/local), under DESTDIR
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/ferriband
	install -m 755 $(FERRIBAND) $(DESTDIR)$(PREFIX)/bin/ferriband
	install -m 755 $(LIB_DIR)/libibverbs.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/libibverbs.so.1
	ln -sf libibverbs.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/libibverbs.so
	$(FERRIBAND) man --out $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(FERRIBAND) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ferriband
	$(FERRIBAND) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_ferriband
	$(FERRIBAND) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/ferriband.fish

uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/ferriband $(DESTDIR)$(PREFIX)/share/man/man1/ferriband*.1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/ferriband \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_ferriband \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/ferriband.fish
	rm -rf $(DESTDIR)$(PREFIX)/lib/ferriband

clean: ## remove everything that was built
	$(CARGO) clean
