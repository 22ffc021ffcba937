"""Running programs of a suite under a launcher, and what became of them."""

import dataclasses
import os
import shlex
import signal
import subprocess
import sys
import time

# Seconds for one program.
PATIENCE = int(os.environ.get("PORTALS_PATIENCE", "180"))
# automake's: a test that cannot be run here, and what `timeout` and mpirun say of one that took too long.
SKIPPED, TIMED_OUT = 77, 124
# Seconds after which a progress bar is drawn.
QUICK = 2


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of a suite, and where it is run."""

    suite: str
    name: str
    place: str
    path: str
    arguments: tuple = ()
    # What is put before it.
    before: tuple = ()
    # Ranks that it is written for; none if for any number.
    ranks: int = 0
    # Fails by its suite's own word.
    expected_to_fail: bool = False
    # The launcher that it needs, up to the number of ranks; none if any will do.
    under: tuple = ()


@dataclasses.dataclass
class Outcome:
    suite: str
    program: str
    ranks: int
    # passed, skipped, failed, or known: failed by a fault of the suite's own
    result: str
    why: str
    seconds: float
    log: str


def said(status):
    """What an exit status means, in a word or two."""
    if status is None or status == TIMED_OUT:
        return "does not end"
    if status < 0 or status > 128:
        number = -status if status < 0 else status - 128
        try:
            return signal.Signals(number).name
        except ValueError:
            pass
    return f"status {status}"


# Jobs that run.
RUNNING = set()


def end_all():
    """Ends all jobs that run."""
    for child in list(RUNNING):
        end(child)


def end(child):
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def execute(command, cwd, log, environment):
    """Runs a command; what it has started ends with it. Returns its status; None: it took too long."""
    with open(log, "wb") as to:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to, stderr=to, cwd=cwd, env=environment, start_new_session=True)
        RUNNING.add(child)
        try:
            # a launcher that ends its ranks for their time has some more for that
            return child.wait(PATIENCE + 20)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end(child)
            RUNNING.discard(child)


def run(program, ranks, start, logs, environment):
    """Runs a program once, started by what `start` gives for its launcher and number of ranks."""
    os.makedirs(os.path.join(logs, program.suite), exist_ok=True)
    log = os.path.join(logs, program.suite, f"{program.name.replace('/', '-')}.{ranks}.log")
    began = time.monotonic()
    if not os.path.exists(program.path):
        return Outcome(program.suite, program.name, ranks, "failed", "does not compile", 0.0, log)
    status = execute([*start(program.under, ranks), *program.before, program.path, *program.arguments], program.place, log, environment)
    if status == SKIPPED:
        result, why = "skipped", "skips itself"
    elif program.expected_to_fail:
        result, why = ("failed", "passes, but is to fail") if status == 0 else ("passed", f"fails as it is to: {said(status)}")
    else:
        result, why = ("passed", "") if status == 0 else ("failed", said(status))
    return Outcome(program.suite, program.name, ranks, result, why, time.monotonic() - began, log)


class Bar:
    """A progress bar on a terminal, for what takes longer than a moment."""

    def __init__(self, total):
        self.total, self.done, self.failed = total, 0, 0
        self.began = time.monotonic()
        self.is_drawn = False

    def step(self, outcome):
        self.done += 1
        self.failed += outcome.result == "failed"
        if not sys.stderr.isatty() or time.monotonic() - self.began < QUICK:
            return
        filled = 30 * self.done // self.total
        text = f"{self.done} of {self.total}, {self.failed} failed   {outcome.suite} {outcome.program}"
        print(f"\r[{'#' * filled}{' ' * (30 - filled)}] {text[:80]:80}", end="", file=sys.stderr, flush=True)
        self.is_drawn = True

    def clear(self):
        if self.is_drawn:
            print(f"\r{' ' * 114}\r", end="", file=sys.stderr, flush=True)
            self.is_drawn = False


def launcher(ferriband, under):
    """Gives the words before a program, by the launcher that it needs and the number of ranks."""

    def start(needed, ranks):
        words = needed or shlex.split(under or "")
        if words:
            return [ferriband, "run", "--", *words, str(ranks)]
        return [ferriband, "mpirun", "-n", str(ranks), "--timeout", str(PATIENCE), "--"]

    return start
