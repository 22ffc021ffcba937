"""Open MPI on our library, and what is built on it: benchmarks and tests that run under its own mpirun."""

import os
import re

from .build import LDFLAGS, Missing, copy, run, words
from .known import Known
from .run import PATIENCE, Program

EXAMPLES = ["hello_c", "ring_c", "connectivity_c"]
JOBS = f"-j{os.cpu_count() or 1}"
# What is measured does not matter here: few repetitions of short messages.
FEW = ("-i", "2", "-x", "1", "-m", "16384")
# Components by a suite's ending: Portals 4 carries messages in all of them, and in one of them
# collectives or one-sided calls, too.
COMPONENTS = {"": {"coll": "^portals4"}, "coll": {"coll_portals4_priority": "100"}, "osc": {"coll": "^portals4", "osc": "portals4"}}
# Places of the OSU micro-benchmarks by a suite's ending, with the ranks that they are written for.
# Persistent collectives need MPI 4, and those on congestion several hosts.
COLLECTIVES = {f"collective/{kind}": 0 for kind in ("blocking", "non_blocking", "neighborhood")}
PLACES = {"": {"startup": 0, "pt2pt/standard": 2, "pt2pt/persistent": 2, **COLLECTIVES}, "coll": COLLECTIVES, "osc": {"one-sided": 2}}
# Beginnings of mpi4py's modules by a suite's ending.
MODULES = {"": ("test_p2p_", "test_cco_"), "coll": ("test_cco_",), "osc": ("test_rma", "test_win")}


def openmpi(directory, libraries):
    """Open MPI with its examples: of its networks only Portals 4, and shared memory."""
    if not os.path.exists(os.path.join(directory, "configure")) or not os.path.exists(os.path.join(directory, "ompi/mca/mtl/portals4")):
        raise Missing(f"{directory} has no configure, or no ompi/mca/mtl/portals4: releases of Open MPI 4.1 have them")
    without = ["verbs", "ucx", "ofi", "psm", "psm2", "cuda", "slurm", "tm", "sge", "lsf"]
    disabled = ["mpi-fortran", "oshmem", "io-romio", "man-pages", "dependency-tracking", "static"]
    options = [f"--with-portals4={libraries}", f"--with-portals4-libdir={libraries}", f"LDFLAGS={LDFLAGS}"]
    options += [f"--with-{part}=internal" for part in ["hwloc", "libevent", "pmix"]]
    options += [f"--without-{part}" for part in without] + [f"--disable-{part}" for part in disabled]
    tree, done = copy(directory, "openmpi", libraries, options)
    if done:
        run(tree, [["./configure", f"--prefix={tree}/installed", *options], ["make", JOBS], ["make", "install"]])
        run(os.path.join(tree, "examples"), [[f"{tree}/installed/bin/mpicc", "-o", example, f"{example}.c"] for example in EXAMPLES])
        done()
    return tree


def osu(directory, openmpi_tree, libraries):
    """The OSU micro-benchmarks on Open MPI as `openmpi` has built it."""
    if not os.path.exists(os.path.join(directory, "configure.ac")) or not os.path.exists(os.path.join(directory, "c/mpi")):
        raise Missing(f"{directory} has no configure.ac, or no c/mpi: releases of the OSU micro-benchmarks from 6 on have them")
    tree, done = copy(directory, "osu", libraries, [openmpi_tree])
    if done:
        compilers = [f"CC={openmpi_tree}/installed/bin/mpicc", f"CXX={openmpi_tree}/installed/bin/mpicxx"]
        run(tree, [["autoreconf", "-f", "-i"], ["./configure", *compilers], ["make", JOBS]])
        done()
    return tree


def mpi4py(directory, openmpi_tree, libraries):
    """mpi4py on Open MPI as `openmpi` has built it, in an environment of its own: pip fetches what it needs."""
    if not os.path.exists(os.path.join(directory, "test/test_p2p_buf.py")):
        raise Missing(f"{directory} has no test/test_p2p_buf.py")
    tree, done = copy(directory, "mpi4py", libraries, [openmpi_tree])
    if done:
        pip = [f"{tree}/venv/bin/python3", "-m", "pip", "--disable-pip-version-check", "install"]
        # minutes of compiling become seconds, and nobody measures with it
        setting = ["env", f"MPICC={openmpi_tree}/installed/bin/mpicc", "CFLAGS=-O0 -g0"]
        run(tree, [["python3", "-m", "venv", "venv"], [*pip, "setuptools", "wheel", "cython"], [*setting, *pip, "--no-build-isolation", "."]])
        done()
    return tree


def mpirun(openmpi_tree, ending):
    """The words that start a program under Open MPI's mpirun, up to the number of ranks, on a machine of any number of cores and for any user."""
    parameters = {"pml": "cm", "mtl": "portals4", "btl": "self", "plm": "isolated", "mpi_yield_when_idle": "1", **COMPONENTS[ending]}
    settings = [word for name, value in parameters.items() for word in ("--mca", name, value)]
    return (f"{openmpi_tree}/installed/bin/mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--timeout", str(PATIENCE), *settings, "-n")


def osu_arguments(place, name):
    """A benchmark's arguments, as far as it has them: few repetitions, and that it verifies its data."""
    if place == "startup":
        return ()
    window = ("-W", "8") if re.search("_m?(bi)?bw", name) else ()
    # verifying wants as many threads on both sides
    threads = ("-t", "2:2") if name == "osu_latency_mt" else ()
    verifies = () if place == "one-sided" or "barrier" in name else ("-c",)
    return (*FEW, *window, *threads, *verifies)


def programs(suite, tree, openmpi_tree):
    """The programs of a suite."""
    kind, _, ending = suite.partition("-")
    under = mpirun(openmpi_tree, ending)
    if kind == "openmpi":
        at = os.path.join(tree, "examples")
        return [Program(suite, name, at, os.path.join(at, name), under=under) for name in EXAMPLES]
    if kind == "mpi4py":
        return mpi4py_programs(suite, tree, MODULES[ending], under)
    found = []
    for place, ranks in PLACES[ending].items():
        at = os.path.join(tree, "c/mpi", place)
        found += [Program(suite, name, at, os.path.join(at, name), osu_arguments(place, name), ranks=ranks, under=under) for name in words(tree, f"c/mpi/{place}", "PROGRAMS")]
    return found


def mpi4py_programs(suite, tree, beginnings, under):
    """A program for each module of tests: without the tests of it that are known to fail, since one may end the others with it."""
    at, known = os.path.join(tree, "test"), Known()
    found = []
    for name in sorted(name[:-3] for name in os.listdir(at) if name.endswith(".py") and name.startswith(beginnings)):
        without = [word for pattern in known.tests(suite, name) for word in ("-x", pattern)]
        found.append(Program(suite, name, at, os.path.join(tree, "venv/bin/python3"), ("main.py", "-v", *without, name), under=under))
    return found
