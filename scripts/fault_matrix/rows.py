"""Rows and columns of the matrix of faults, and which cells are not built yet (docs/design/heal.md, section 8, has the landings).

Owns: what happens in a row, and which program is a column. A row is one line of ROWS, a column one of COLUMNS. Must not know how
a cell is run (cells.py).
"""

import random
import re
from dataclasses import dataclass, field

# The interfaces of the two hosts, and their devices.
HERE, THERE = "va", "vb"
DEVICES = {HERE: "ferri_va", THERE: "ferri_vb"}
# A second interface of each, on a network of its own, where a row has them.
SECOND = {HERE: "vc", THERE: "vd"}
# The device of a job on one host, which the first host is then.
LOCAL = "ferri0"


# In place of a rank's number: the launcher.
MPIRUN = "mpirun"


@dataclass(frozen=True)
class Column:
    """A program with arguments, as two ranks on two hosts, or on one."""

    name: str
    # arguments of messages.c behind the seconds and the directory
    kind: list
    # options of mpirun
    options: list = field(default_factory=list)
    is_on_one: bool = False


@dataclass(frozen=True)
class Row:
    """A fault. `steps` makes of random numbers what is done: pairs of a place and a command.

    A place is an interface, on whose host `ferriband fault plan` gets the text; "ip" runs ip(8) on the first host; a signal's name
    goes to the rank of that number, or to MPIRUN.
    """

    name: str
    # how long it lasts, in seconds: messages go on for some more
    lasts: float
    steps: object
    # what is to become of the job: it goes on, or it ends
    wanted: str = "healed"
    # whether each host has a second adapter
    has_second: bool = False
    # whether it can happen to a job on one host
    is_on_one: bool = False
    # plans begin with the job, and not when messages go
    is_early: bool = False
    # so many jobs, one after the other
    jobs: int = 1

    @property
    def waits(self):
        """Whether most of its time nothing runs: such cells run beside each other."""
        return self.lasts >= 60


def set_of(name, value):
    return ["--set", f"{name}={value}"]


SHORT, LONG = 64 << 10, 1 << 20

COLUMNS = [
    Column("8 B", ["each", 8]),
    Column("window of 1 KiB", ["row", 1 << 10, 16]),
    Column("bundles of 8 B", ["row", 8, 40]),
    Column("64 KiB by lane", ["row", SHORT, 4], set_of("rndv", "auto")),
    Column("64 KiB by RGet", ["row", SHORT, 4], set_of("rndv", "get")),
    Column("64 KiB by RPut", ["row", SHORT, 4], set_of("rndv", "put")),
    Column("1 MiB by lane", ["row", LONG, 2], set_of("rndv", "auto")),
    Column("1 MiB by RGet", ["row", LONG, 2], set_of("rndv", "get")),
    Column("1 MiB by RPut", ["row", LONG, 2], set_of("rndv", "put")),
    Column("gaps", ["gaps", SHORT]),
    Column("memory anew", ["anew", SHORT], set_of("rndv", "get")),
    Column("threads", ["threads", 4 << 10, 4]),
    Column("allreduce", ["sum", SHORT]),
    Column("alltoall", ["all", SHORT]),
    Column("one host: 8 B", ["each", 8], is_on_one=True),
    Column("one host: 1 MiB", ["row", LONG, 2], is_on_one=True),
    Column("one host: memory anew", ["anew", SHORT], is_on_one=True),
]


def flap(where, down, up="20ms", times=1):
    """A link goes down some time within the first half second."""

    def steps(rng):
        at = rng.randrange(500)
        return [(where, f"at {at}ms link flap {DEVICES[where]} --down {down} --up {up} --times {times}\n")]

    return steps


def rules(lasts, *words):
    """Rules on the first host's device, for a time."""

    def steps(_):
        lines = [f"at 0 add {word} --device {DEVICES[HERE]}\n" for word in words]
        return [(HERE, "".join(lines) + f"for {lasts}\n")]

    return steps


def queue_pairs(rng):
    """Queue pairs of either host fail, five times."""
    places = [rng.choice([HERE, THERE]) for _ in range(5)]
    steps = []
    for where in DEVICES:
        times = [100 + 200 * at + rng.randrange(150) for at, place in enumerate(places) if place == where]
        if times:
            steps.append((where, "".join(f"at {at}ms qp-error --device {DEVICES[where]}\n" for at in times)))
    return steps


def fatal(words, places=(HERE,)):
    def steps(rng):
        at = rng.randrange(500)
        return [(place, f"at {at}ms fatal {DEVICES[place]} {words}\nfor 1m\n") for place in places]

    return steps


def fatal_again(rng):
    """The first host's device fails ten times, for a short time each."""
    lines = [f"at {400 * at + rng.randrange(200)}ms fatal {DEVICES[HERE]} --for 50ms\n" for at in range(10)]
    return [(HERE, "".join(lines) + "for 1m\n")]


def moved(_):
    """The interface goes down and comes back with another address."""
    return [
        ("ip", f"link set {HERE} down"),
        ("ip", f"addr flush dev {HERE}"),
        ("ip", f"addr add 10.99.0.7/24 dev {HERE}"),
        ("ip", f"link set {HERE} up"),
    ]


def deleted(_):
    """The interface is deleted, and with it the other end of its veth."""
    return [("ip", f"link del {HERE}")]


def stopped(seconds):
    """A rank is stopped, and its adapter with it."""

    def steps(rng):
        rank = rng.randrange(2)
        return [("STOP", rank), ("sleep", seconds), ("CONT", rank)]

    return steps


def killed(rng):
    return [("KILL", rng.randrange(2))]


def mpirun_killed(_):
    return [("KILL", MPIRUN)]


def computes(rng):
    """A rank computes while queue pairs fail."""
    return [("USR1", rng.randrange(2)), *queue_pairs(rng)]


def storm(every):
    """The link of either host, and its queue pairs, fail in turns until the job is over."""

    def steps(rng):
        plans = []
        for where, device in DEVICES.items():
            faults = f"link flap {device} --down 10ms --up 10ms | qp-error --device {device}"
            plans.append((where, f"seed {rng.randrange(1 << 32)}\nevery {every} one of {faults}\nfor 1m\n"))
        return plans

    return steps


ROWS = [
    Row("nothing", 0, lambda _: [], is_on_one=True),
    Row("link down for 1 ms, here", 0.5, flap(HERE, "1ms"), is_on_one=True),
    Row("link down for 1 ms, there", 0.5, flap(THERE, "1ms")),
    Row("link down for 1 s, here", 1.5, flap(HERE, "1s"), is_on_one=True),
    Row("link down for 1 s, there", 1.5, flap(THERE, "1s")),
    Row("link down for 60 s, here", 61, flap(HERE, "60s")),
    Row("link down for 60 s, there", 61, flap(THERE, "60s")),
    Row("link flaps 20 times", 2, flap(HERE, "5ms", "60ms", 20), is_on_one=True),
    Row("30 % of packets are lost each way, 10 s", 10, rules("10s", "drop --probability 0.3")),
    Row("one way dead for 3 s", 3, rules("3s", "drop --direction rx")),
    Row(
        "duplicates, reordering, corruption together",
        3,
        rules("3s", "duplicate --probability 0.05", "reorder --probability 0.05", "corrupt --probability 0.05"),
    ),
    Row("queue pairs fail", 1.5, queue_pairs, is_on_one=True),
    Row("queue pairs fail while a rank computes 5 s", 6.5, computes, is_on_one=True),
    Row("faults inside MPI_Init", 0, storm("20ms"), is_on_one=True, is_early=True, jobs=4),
    Row("faults inside MPI_Finalize", 0.2, storm("40ms"), is_on_one=True, jobs=4),
    Row("another address after a flap", 1, moved),
    Row("device fails for 2 s", 2.5, fatal("--for 2s"), is_on_one=True),
    Row("both devices fail for 2 s", 2.5, fatal("--for 2s", (HERE, THERE))),
    Row("device fails ten times for 50 ms", 4, fatal_again, is_on_one=True),
    Row("device fails hard", 1, fatal("--hard --for 500ms"), is_on_one=True),
    Row("device fails for 2 s beside a second one", 4, fatal("--for 2s"), has_second=True),
    Row("no packets for 3 s beside a second adapter", 5, rules("3s", "drop"), has_second=True),
    Row("device fails for good", 1, fatal("--gone"), has_second=True),
    Row("interface deleted", 1, deleted, has_second=True),
    Row("a rank is stopped for 10 s", 10, stopped(10), is_on_one=True),
    Row("a rank is stopped for 60 s", 60, stopped(60)),
    Row("a rank is killed", 0.5, killed, wanted="lost", is_on_one=True),
    Row("mpirun is killed", 0.5, mpirun_killed, wanted="lost", is_on_one=True),
]

# Cells that cannot pass yet: row, pattern in the column's name, what is missing. They are run all
# the same.
NOT_BUILT = []

# What `make test` runs: the row, the column.
SMALL = [
    ("link down for 1 ms, here", "8 B"),
    ("link down for 1 ms, there", "64 KiB by lane"),
    ("link flaps 20 times", "window of 1 KiB"),
    ("one way dead for 3 s", "bundles of 8 B"),
    ("duplicates, reordering, corruption together", "1 MiB by lane"),
    ("queue pairs fail", "8 B"),
    ("another address after a flap", "8 B"),
    ("device fails for 2 s", "64 KiB by RGet"),
    ("device fails for 2 s beside a second one", "1 MiB by RPut"),
    ("device fails for good", "64 KiB by lane"),
    ("interface deleted", "window of 1 KiB"),
    ("a rank is killed", "8 B"),
]


def exists(row, column):
    """Whether there is such a cell."""
    return row.is_on_one or not column.is_on_one


def missing(row, column):
    """What a cell lacks; None if it has to pass."""
    return next((why for name, pattern, why in NOT_BUILT if name == row.name and re.search(pattern, column.name)), None)


def steps_of(row, seed):
    """What is done in a cell: the same for one seed."""
    return row.steps(random.Random(f"{row.name} {seed}"))
