# The front door. Each target installs what it needs on Debian or Ubuntu (sudo only when not root,
# only when something is missing) and says what it does. SKIP_PACKAGES=1 leaves packages alone.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
# Seeds of `make test` in each of the simulator's worlds, and of `make soak`, which takes others each day.
SIM_SEEDS ?= 10000
SOAK_SEEDS ?= 100000
SOAK_FIRST ?= $(shell date +%Y%m%d)000000

BUILD_PACKAGES = gcc libc6-dev binutils
DEMO_PACKAGES = ibverbs-utils rdmacm-utils perftest ucx-utils libfabric-bin iperf3 librdmacm1 redis-tools nginx wrk
TEST_PACKAGES = libibverbs-dev libibverbs1 librdmacm-dev ibverbs-utils rdmacm-utils perftest ucx-utils libfabric-bin iperf3 librdmacm1 redis-tools nginx wrk python3-pyverbs iproute2 g++ infiniband-diags opensm valgrind
BENCH_PACKAGES = perftest strace
LAUNCH_PACKAGES = mpich libmpich-dev openmpi-bin slurmctld slurmd slurm-client munge libpmix-dev iproute2 util-linux
BENCH_MPI_PACKAGES = gcc libc6-dev python3-venv openmpi-bin libopenmpi-dev mpich libmpich-dev
# Arguments of `make bench-mpi`, see ferriband-dev bench --help.
BENCH_MPI ?=
# Arguments of `make bench-sdp`, see ferriband-dev bench --help.
BENCH_SDP ?=
# Arguments of `make bench-putget`, see ferriband-dev bench --help.
BENCH_PUTGET ?=
# Arguments of `make bench-heal`, see ferriband-dev bench --help.
BENCH_HEAL ?=
# Arguments of `make bench-shmem`, see scripts/shmem-performance --help.
BENCH_SHMEM ?=
# The programs, the providers of the system's own libibverbs for the guest, and what the network is made with.
INTEROP_PACKAGES = ibverbs-utils rdmacm-utils perftest ibverbs-providers iproute2 util-linux coreutils
# Arguments of `make soak-fabric` and `make bench-bring-up`, see the scripts.
SOAK_FABRIC ?=
BRING_UP ?= fat-tree:36x18x18 fat-tree:24
# Arguments of `make soak-heal`.
SOAK_HEAL ?=
# Arguments of `make stress`, see scripts/stress.
STRESS ?=
# Arguments of `make faults`, see scripts/faults, and of `make faults-programs`.
FAULTS ?=
FAULTS_PROGRAMS ?=
# The git directory of rdma-core, for releases that `make test-distributions` builds itself, and what they are built with.
RDMA_CORE ?=
RELEASE_PACKAGES = git cmake ninja-build gcc libc6-dev pkg-config python3-dev cython3 libnl-3-dev libnl-route-3-dev libudev-dev perftest iperf3
# Arguments of `make interop`, for example INTEROP='--only rping'; see cargo xtask interop --help.
INTEROP ?=

# What other people's suites of sockets are run with: CPython's tests of the installed python3,
# redis's, memcached's and PostgreSQL's with their installed binaries; what curl's, libuv's and
# libevent's are built with. node's want a node of the version of Debian's source package.
SDP_PACKAGES = $(shell /usr/bin/python3 -c 'import sys; print("libpython%d.%d-testsuite" % sys.version_info[:2])' 2>/dev/null) redis-tools tcl memcached perl $(POSTGRES_PACKAGES) $(BUILD_PACKAGES) make cmake autoconf automake libtool libssl-dev zlib1g-dev
POSTGRES_PACKAGES = postgresql postgresql-server-dev-all
# Programs that are run at both ends, see scripts/sdp-programs.
SDP_PROGRAMS_PACKAGES = redis-tools nginx apache2 apache2-utils haproxy curl openssl gunicorn openssh-server openssh-client iperf3 socat openbsd-inetd systemd iproute2 rsync mosquitto mosquitto-clients mariadb-server mariadb-client php-cli nodejs default-jdk-headless golang-go gcc libc6-dev $(POSTGRES_PACKAGES)
# Directories of the suites for Portals 4, OpenSHMEM and Open MPI (scripts/portals-tests), what they
# are built with, and its other arguments.
PORTALS4 ?=
PORTALS42 ?=
SOS ?=
ISX ?=
SHMEM4PY ?=
OPENMPI ?=
OSU ?=
MPI4PY ?=
FOR_PORTALS ?=
PORTALS_PACKAGES = $(BUILD_PACKAGES) g++ make autoconf automake libtool pkg-config perl libxml2-dev libev-dev $(if $(SHMEM4PY)$(MPI4PY),python3-dev python3-venv)
# The modules that Debian's nginx is configured with, which nginx-tests load in each test.
NGINX_PACKAGES = nginx perl libnginx-mod-http-geoip libnginx-mod-http-image-filter libnginx-mod-http-perl libnginx-mod-http-xslt-filter libnginx-mod-mail libnginx-mod-stream libnginx-mod-stream-geoip
# Arguments of `make test-sdp`, for example FOR_SDP='cpython:test_socket' or '--git libuv=GIT
# libuv'; the git directory of nginx-tests, which no package has.
FOR_SDP ?=
NGINX_TESTS ?=
# The sources of GPI-2 for `make test-gpi2`, and its arguments.
GPI2 ?=
FOR_GPI2 ?=
# The sources of UCX for `make test-ucx-faults`.
UCX ?=
# Arguments of `make test-sdp-programs`.
PROGRAMS ?=

TARGET = $(or $(CARGO_TARGET_DIR),target)
FERRIBAND = $(TARGET)/release/ferriband
# What measures; it is not installed.
FERRIBAND_DEV = $(TARGET)/release/ferriband-dev
TESTED = $(TARGET)/debug/ferriband
LIB_DIR = $(TARGET)/ferriband/lib

ifdef SKIP_PACKAGES
need = @true
else
need = @scripts/need
endif

.DEFAULT_GOAL := help
.PHONY: help build demo test test-mpi test-verbs-calls test-mpich test-gpi2 test-ucx-faults test-apps test-launch test-sdp test-sdp-programs test-sdp-hosts portals-tests test-mpi-huge test-distributions faults faults-programs soak soak-fabric soak-heal stress bench bench-fabric bench-bring-up bench-sdp bench-putget bench-heal bench-shmem bench-mpi bench-mpi-net interop lint install uninstall clean

help: ## show this list
	@echo "Ferriband: InfiniBand in software. Targets:"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

build: ## build the program and the drop-in libraries
	$(need) $(BUILD_PACKAGES)
	@scripts/need-rust
	$(CARGO) build --release --workspace
	$(TARGET)/release/xtask libs --release

demo: build ## run Debian's own RDMA programs on the software adapter, on one host and between two
	$(need) $(DEMO_PACKAGES)
	$(FERRIBAND) demo --with ucx,libfabric,tcp,sdp
	$(FERRIBAND) demo --wire roce --with ucx,libfabric,tcp || [ $$? -eq 77 ]

# One build serves all of it: see [profile.dev] in Cargo.toml.
test: ## run every test: units, properties, simulator, C ABI, real programs, rdma-core's own
	$(need) $(BUILD_PACKAGES) $(TEST_PACKAGES)
	@scripts/need-rust
	$(CARGO) test --workspace --no-fail-fast --tests
	$(CARGO) test --workspace --no-fail-fast --doc
	$(CARGO) build --package ferriband
	$(CARGO) xtask libs
	$(CARGO) xtask budgets
	$(TESTED) sim --seeds $(SIM_SEEDS)
	$(TESTED) demo --quick --with ucx,libfabric,tcp,sdp
	@$(TESTED) demo --wire roce --quick --with ucx,libfabric,tcp || [ $$? -eq 77 ]
	@FERRIBAND=$(TESTED) scripts/pyverbs-tests || [ $$? -eq 77 ]

test-distributions: build ## run the RDMA programs of newer releases of Debian, each beside its own C library (DISTRIBUTIONS='trixie sid'; fetches them by package name), and with RDMA_CORE=GIT of releases between (DISTRIBUTIONS=v58.0)
	$(need) binutils dpkg util-linux iproute2 $(if $(RDMA_CORE),$(RELEASE_PACKAGES))
	@FERRIBAND=$(FERRIBAND) scripts/distribution-tests $(if $(RDMA_CORE),--rdma-core $(RDMA_CORE)) $(DISTRIBUTIONS) || [ $$? -eq 77 ]

test-mpi: build ## run mpi4py's own tests on Ferriband's MPI at 1 to 4 and at 8 ranks (pip fetches and builds mpi4py the first time; FOR_MPI='-n 2 test_request')
	$(need) python3-dev python3-venv
	@FERRIBAND=$(FERRIBAND) scripts/mpi4py-tests $(FOR_MPI)

test-sdp: build ## run other people's tests of sockets plain and under `ferriband sdp run`, and name those that fail only under it (FOR_SDP='--patient cpython redis:unit/protocol'; NGINX_TESTS=GIT)
	$(need) $(SDP_PACKAGES) $(if $(NGINX_TESTS),$(NGINX_PACKAGES))
	@FERRIBAND=$(FERRIBAND) scripts/sdp-tests $(if $(NGINX_TESTS),--git nginx=$(NGINX_TESTS)) $(FOR_SDP) || [ $$? -eq 77 ]

test-sdp-programs: build ## run servers and clients of others under `ferriband sdp run` at both ends and check what they answer (PROGRAMS='redis postgres')
	$(need) $(SDP_PROGRAMS_PACKAGES)
	@FERRIBAND=$(FERRIBAND) scripts/sdp-programs $(PROGRAMS) || [ $$? -eq 77 ]

test-sdp-hosts: ## run TCP programs between two network namespaces by queue pairs
	$(need) $(BUILD_PACKAGES) iproute2
	@scripts/need-rust
	$(CARGO) test --package ferriband-sdp-preload --test hosts

portals-tests: build ## run suites of others on Ferriband's Portals 4: the reference's tests, Sandia OpenSHMEM's, Open MPI with benchmarks and tests, from directories (PORTALS4=DIR PORTALS42=DIR SOS=DIR ISX=DIR SHMEM4PY=DIR OPENMPI=DIR OSU=DIR MPI4PY=DIR; FOR_PORTALS='-n 2 basic')
	$(need) $(PORTALS_PACKAGES)
	@FERRIBAND=$(FERRIBAND) scripts/portals-tests $(if $(PORTALS4),--portals4 $(PORTALS4)) $(if $(PORTALS42),--portals42 $(PORTALS42)) $(if $(SOS),--sos $(SOS)) $(if $(ISX),--isx $(ISX)) $(if $(SHMEM4PY),--shmem4py $(SHMEM4PY)) $(if $(OPENMPI),--openmpi $(OPENMPI)) $(if $(OSU),--osu $(OSU)) $(if $(MPI4PY),--mpi4py $(MPI4PY)) $(FOR_PORTALS) || [ $$? -eq 77 ]

test-launch: build ## run MPI programs under other launchers: Hydra, Open MPI's mpirun, Slurm on this machine alone; MPICH's programs under ours (LAUNCH='hydra slurm')
	$(need) $(LAUNCH_PACKAGES)
	@FERRIBAND=$(FERRIBAND) scripts/mpi-launch-tests $(LAUNCH) || [ $$? -eq 77 ]

test-mpich: build ## run MPICH's own C tests on Ferriband's MPI, then those built by MPICH's mpicc_abi under both (FOR_MPICH='-d coll')
	$(need) gcc make python3-venv
	@FERRIBAND=$(FERRIBAND) scripts/mpich-tests $(FOR_MPICH)
	@FERRIBAND=$(FERRIBAND) scripts/mpich-tests --abi $(FOR_MPICH) || [ $$? -eq 77 ]

test-gpi2: build ## run GPI-2's own tests on the adapter by memory and by packets (GPI2=DIR, a checkout of cc-hpc-itwm/GPI-2; FOR_GPI2='-n 4 passive')
	@GPI2=$(GPI2) FERRIBAND=$(FERRIBAND) scripts/gpi2-tests $(FOR_GPI2) || [ $$? -eq 77 ]

test-ucx-faults: build ## run UCX's own tests of fail-over between lanes on two adapters (UCX=DIR, a checkout of openucx/ucx)
	@UCX=$(UCX) FERRIBAND=$(FERRIBAND) scripts/ucx-fault-tests || [ $$? -eq 77 ]

test-apps: build ## run public MPI programs that verify their own results, at 2, 4 and 8 ranks: HPC Challenge, FFTW
	$(need) gcc make perl libblas-dev
	@FERRIBAND=$(FERRIBAND) scripts/mpi-apps

test-verbs-calls: ## run a small MPI job once for each call of verbs that it makes, with that call failing, in each way, on one host and between two (half an hour)
	$(need) $(BUILD_PACKAGES) librdmacm-dev iproute2 util-linux
	@scripts/need-rust
	FERRIBAND_TEST_EACH_CALL=1 $(CARGO) test --package ferriband --test mpi eachcall -- --nocapture

test-mpi-huge: build ## a message of 2 GiB and a byte on one host, by verbs, and between two namespaces (takes 5 GiB of memory)
	$(LIB_DIR)/bin/mpicc -O2 -o $(TARGET)/mpi-huge ulp/mpi/abi/tests/c/huge.c
	$(FERRIBAND) mpirun -n 2 $(TARGET)/mpi-huge
	$(FERRIBAND) mpirun -n 2 --same-host verbs $(TARGET)/mpi-huge
	unshare --user --map-current-user --keep-caps --net sh cli/tests/mpi_two_hosts.sh $(FERRIBAND) $(TARGET)/mpi-huge

soak: build ## run many more seeds of the simulator, others each day (five to ten minutes)
	$(FERRIBAND) sim --seeds $(SOAK_SEEDS) --first $(SOAK_FIRST)

soak-fabric: build ## run programs on a live fabric of 64 hosts while links flap, a switch dies and the master manager is killed (SOAK_FABRIC='-s 600')
	$(need) perftest rdmacm-utils ibverbs-utils opensm
	@FERRIBAND=$(FERRIBAND) scripts/soak-fabric $(SOAK_FABRIC)

soak-heal: build ## run 16 ranks beside four processes that compute, for an hour without a fault: no connection may be made anew (SOAK_HEAL='--seconds 300')
	$(need) gcc libc6-dev iproute2 util-linux
	@FERRIBAND=$(FERRIBAND) scripts/soak-heal $(SOAK_HEAL) || [ $$? -eq 77 ]

faults: build ## run MPI programs between two hosts while links, packets, devices, queue pairs and ranks fail, and say what became of each (half an hour; FAULTS='--row link --column "8 B"', --json, --markdown FILE)
	$(need) gcc libc6-dev iproute2 util-linux
	@FERRIBAND=$(FERRIBAND) scripts/faults $(FAULTS) || [ $$? -eq 77 ]

faults-programs: build ## run MPI programs of others, unmodified, without faults and under a seeded plan of them, between two hosts and on one by verbs, and compare what they find: mpi4py's and MPICH's tests, HPC Challenge, FFTW, and OSU's, IMB and HPCG if they are there (FAULTS_PROGRAMS="--place one --seed 7 mpich:'-d pt2pt'"; --osu DIR)
	$(need) gcc make perl libblas-dev python3-dev python3-venv iproute2 util-linux
	@FERRIBAND=$(FERRIBAND) scripts/faults-programs $(FAULTS_PROGRAMS) || [ $$? -eq 77 ]

stress: build ## run each pair of programs fifty times, idle and on a busy machine (a night; less with STRESS='-n 5 -p hosts -o rping')
	$(need) $(DEMO_PACKAGES)
	@FERRIBAND=$(FERRIBAND) scripts/stress $(STRESS)

bench: build ## compare the adapter with this machine's floors: ratios with targets
	$(need) $(BENCH_PACKAGES)
	$(FERRIBAND_DEV) bench; here=$$?; $(FERRIBAND_DEV) bench --wire roce; there=$$?; [ $$there -eq 77 ] && there=0; exit $$((here | there))

bench-fabric: ## time the fabric's simulator: 648 to 32,258 hosts (96,774 switch ports) at loads 0.3 and 0.5, 2 KiB packets, packet-hops in a second of a core (BENCH_FABRIC=--json)
	@scripts/need-rust
	$(CARGO) build --release --package ferriband-fabric --example speed
	$(TARGET)/release/examples/speed table $(BENCH_FABRIC)

bench-bring-up: build ## time how long a subnet takes to come up: our manager and OpenSM, over our live fabric and over ibsim (BRING_UP='-e updn torus:8x8:4')
	$(need) opensm ibsim-utils
	@FERRIBAND=$(FERRIBAND) scripts/bring-up $(BRING_UP)

bench-sdp: build ## compare sockets by SDP with TCP, Unix sockets and a ring in shared memory on this host (BENCH_SDP='--rounds 3 --only stream', or --busy: with two threads that compute on each core)
	$(need) redis-server redis-tools nginx wrk memcached iperf3 nodejs
	$(FERRIBAND_DEV) bench --sdp $(BENCH_SDP)

bench-putget: build ## compare put and get, and Portals 4, with the verbs that they are made of, on this host and between two namespaces; with PORTALS4=DIR beside the reference by verbs (BENCH_PUTGET='--rounds 3 --only ack')
	$(need) perftest gcc libc6-dev iproute2 $(if $(PORTALS4),$(PORTALS_PACKAGES) libibverbs-dev librdmacm-dev)
	@reference=$(if $(PORTALS4),$$(scripts/portals-reference $(PORTALS4))); $(FERRIBAND_DEV) bench --putget $${reference:+--reference $$reference} $(BENCH_PUTGET); here=$$?; $(FERRIBAND_DEV) bench --putget --wire roce $(BENCH_PUTGET); there=$$?; [ $$there -eq 77 ] && there=0; exit $$((here | there))

bench-heal: build ## measure what connections of MPI that heal cost without a fault, and how long heals take, each beside its floor in the same run, between two network namespaces (BENCH_HEAL='--rounds 1 --only "link down"', or --json)
	$(need) gcc libc6-dev
	@$(FERRIBAND_DEV) bench --heal $(BENCH_HEAL) || [ $$? -eq 77 ]

bench-shmem: build ## compare Sandia OpenSHMEM's performance suite on Portals 4 and on libfabric's verbs, both on our adapter (SOS=DIR; BENCH_SHMEM='--rounds 3')
	$(need) $(PORTALS_PACKAGES) libfabric-dev
	@FERRIBAND=$(FERRIBAND) scripts/shmem-performance $(BENCH_SHMEM) $(SOS)

bench-mpi: build ## compare Ferriband's MPI with Open MPI, MPICH and Intel MPI on this host (fetched from PyPI the first time; BENCH_MPI='--rounds 3 --only latency')
	$(need) $(BENCH_MPI_PACKAGES)
	$(FERRIBAND_DEV) bench --mpi --fetch $(BENCH_MPI)

bench-mpi-net: build ## the same between two hosts (network namespaces), by RoCEv2, beside the others' TCP
	$(need) $(BENCH_MPI_PACKAGES) util-linux hostname
	@$(FERRIBAND_DEV) bench --mpi --wire roce --fetch $(BENCH_MPI) || [ $$? -eq 77 ]

interop: build ## run Debian's RDMA programs with the Linux kernel's Soft-RoCE in a guest (the first time ten minutes more)
	$(need) $(INTEROP_PACKAGES)
	$(CARGO) xtask interop --ferriband $(FERRIBAND) $(INTEROP)

lint: ## formatting, clippy, our own gates, documentation, licences and advisories of the crates that we use
	$(need) $(BUILD_PACKAGES) python3-venv
	@scripts/need-rust
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) xtask gates
	@scripts/deny
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --document-private-items

install: build ## install to PREFIX (/usr/local), under DESTDIR
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/ferriband
	install -m 755 $(FERRIBAND) $(DESTDIR)$(PREFIX)/bin/ferriband
	install -m 755 $(LIB_DIR)/libibverbs.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/libibverbs.so.1
	install -m 755 $(LIB_DIR)/librdmacm.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/librdmacm.so.1
	install -m 755 $(LIB_DIR)/libibumad.so.3 $(DESTDIR)$(PREFIX)/lib/ferriband/libibumad.so.3
	install -m 755 $(LIB_DIR)/libferriband_sysfs.so $(DESTDIR)$(PREFIX)/lib/ferriband/libferriband_sysfs.so
	install -m 755 $(LIB_DIR)/libferriband_sdp.so $(DESTDIR)$(PREFIX)/lib/ferriband/libferriband_sdp.so
	install -m 755 $(LIB_DIR)/libferriband_putget.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/libferriband_putget.so.1
	ln -sf libferriband_putget.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/libferriband_putget.so
	install -m 755 $(LIB_DIR)/libportals.so.4 $(DESTDIR)$(PREFIX)/lib/ferriband/libportals.so.4
	ln -sf libportals.so.4 $(DESTDIR)$(PREFIX)/lib/ferriband/libportals.so
	install -m 755 $(LIB_DIR)/libferriband_mpi.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/libferriband_mpi.so.1
	install -m 755 $(LIB_DIR)/libmpi_abi.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/libmpi_abi.so.1
	ln -sf libmpi_abi.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/libmpi_abi.so
	install -d $(DESTDIR)$(PREFIX)/lib/ferriband/include $(DESTDIR)$(PREFIX)/lib/ferriband/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 ulp/mpi/abi/include/mpi.h $(DESTDIR)$(PREFIX)/lib/ferriband/include/mpi.h
	install -m 644 ulp/mpi/abi/include/mpi-ext.h $(DESTDIR)$(PREFIX)/lib/ferriband/include/mpi-ext.h
	install -m 644 ulp/mpi/abi/include/ferriband_mpi.h $(DESTDIR)$(PREFIX)/lib/ferriband/include/ferriband_mpi.h
	install -m 644 ulp/putget/abi/include/ferriband_putget.h $(DESTDIR)$(PREFIX)/lib/ferriband/include/ferriband_putget.h
	install -m 644 ulp/portals/abi/include/portals4.h $(DESTDIR)$(PREFIX)/lib/ferriband/include/portals4.h
	install -m 755 ulp/mpi/abi/bin/mpicc $(DESTDIR)$(PREFIX)/lib/ferriband/bin/mpicc
	ln -sf mpicc $(DESTDIR)$(PREFIX)/lib/ferriband/bin/mpicxx
	ln -sf ../../../bin/ferriband $(DESTDIR)$(PREFIX)/lib/ferriband/bin/mpirun
	ln -sf ../../../bin/ferriband $(DESTDIR)$(PREFIX)/lib/ferriband/bin/mpiexec
	install -m 644 ulp/mpi/abi/bin/mpi.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/ferriband-mpi.pc
	ln -sf libibverbs.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/libibverbs.so
	ln -sf librdmacm.so.1 $(DESTDIR)$(PREFIX)/lib/ferriband/librdmacm.so
	ln -sf libibumad.so.3 $(DESTDIR)$(PREFIX)/lib/ferriband/libibumad.so
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
	rm -f $(DESTDIR)$(PREFIX)/lib/pkgconfig/ferriband-mpi.pc
	rm -rf $(DESTDIR)$(PREFIX)/lib/ferriband

clean: ## remove everything that was built
	$(CARGO) clean
