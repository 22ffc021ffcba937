"""What the suites share: where they are worked on, what became of their tests, and running a command with all that it starts."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.path.join(TOP, "target/sdp-tests")
# Seconds for one unit, and seconds in which it says nothing.
PATIENCE = int(os.environ.get("SDP_PATIENCE", "900"))
SILENCE = min(PATIENCE, 150)


class Missing(Exception):
    """A suite that is not to be had, with what it needs."""


def source(options, suite, package=None):
    """The directory of a suite's source, which stays from run to run: of the git directory that --git names, or else of Debian's source package."""
    git = options.git.get(suite)
    if git:
        found = subprocess.run(["git", "--git-dir", git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            raise Missing(f"{git} is no git directory")
        origin = f"git {found.stdout.strip()}"
    elif package:
        found = subprocess.run([os.path.join(TOP, "scripts/debian-source"), package, os.path.join(WORK, "source")], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            raise Missing(found.stderr.strip())
        origin = found.stdout.strip()
    else:
        raise Missing(f"no package has its source: name their git directory with --git {suite}=GIT")
    tree = os.path.join(WORK, suite, "source")
    note = os.path.join(tree, ".origin")
    if not os.path.exists(note) or open(note, encoding="utf-8").read() != origin:
        shutil.rmtree(tree, ignore_errors=True)
        os.makedirs(tree)
        if git:
            archive = subprocess.Popen(["git", "--git-dir", git, "archive", "HEAD"], stdout=subprocess.PIPE)
            subprocess.run(["tar", "-x", "-C", tree], stdin=archive.stdout, check=True)
            archive.wait()
        else:
            subprocess.run(["tar", "-x", "-f", origin, "--strip-components=1", "-C", tree], check=True)
        open(note, "w", encoding="utf-8").write(origin)
    return tree


def build(tree, commands, product):
    """Builds what a suite needs in its source, unless it is there. Its output is in build.log."""
    product = os.path.join(tree, product)
    if os.path.exists(product):
        return product
    with open(os.path.join(tree, "build.log"), "wb") as log:
        for command in commands:
            if subprocess.run(command, cwd=tree, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode != 0:
                raise Missing(f"it cannot be built ({os.path.relpath(log.name, TOP)})")
    return product


def need(program, package):
    """The path of an installed program."""
    found = shutil.which(program)
    if found is None:
        raise Missing(f"there is no {program} (package {package})")
    return found


def tap(path, log, unit, names_are_whole=False):
    """Reads the Test Anything Protocol into a log. Names are the tests' own, or those of a file's single checks."""
    count, planned = 0, None
    for line in open(path, encoding="utf-8", errors="replace"):
        plan = re.match(r"1\.\.(\d+)", line)
        if plan:
            planned = int(plan[1])
            if planned == 0:
                log.say(unit, "skipped")
        found = re.match(r"(not )?ok (\d+)(?: -)?(?: ([^#]*))?(?:# *(\w+))?", line)
        if found:
            name = (found[3] or found[2]).strip()
            what = "failed" if found[1] and found[4] != "TODO" else "passed"
            count += 1
            log.say(name if names_are_whole else f"{unit}: {name}", "skipped" if (found[4] or "").lower() == "skip" else what)
    log.ended = planned is not None and count >= planned


class Log:
    """What became of the tests of one run of a unit: name -> passed, failed, skipped or began; and whether the unit came to its end."""

    order = ["skipped", "passed", "began", "failed"]

    def __init__(self):
        self.tests = {}
        self.ended = False

    def say(self, name, what):
        """A name may come several times: the worst counts. What began counts until more is known."""
        known = self.tests.get(name)
        if known in (None, "began") or self.order.index(what) > self.order.index(known):
            self.tests[name] = what

    def fails(self, name):
        return self.tests.get(name) in ("failed", "began")

    def line(self):
        count = lambda *what: sum(1 for found in self.tests.values() if found in what)
        text = f"{count('passed'):4} passed {count('failed', 'began'):3} failed {count('skipped'):3} skipped"
        return text + ("" if self.ended else ", did not end")


def execute(command, log, cwd, variables):
    """Runs a command with all that it starts; nothing of that is left afterwards. Returns its status; None: it took too long."""
    env = dict(os.environ, LC_ALL="C.UTF-8", **variables)
    with open(log, "wb") as to:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to, stderr=to, cwd=cwd, env=env, start_new_session=True)
        began, said, length = time.monotonic(), time.monotonic(), 0
        while (status := child.poll()) is None:
            now = time.monotonic()
            if os.path.getsize(log) > length:
                said, length = now, os.path.getsize(log)
            if now - began > PATIENCE or now - said > SILENCE:
                break
            time.sleep(0.02)
        end_all()
        child.wait()
    return status


def end_all():
    """Ends every process below this one: orphans come to us, see main."""
    for _ in range(100):
        children = open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii").read().split()
        if not children:
            return
        for pid in map(int, children):
            os.kill(pid, signal.SIGKILL)
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass


def counted(path):
    """Connections that could have gone by SDP, and that did, by what the processes wrote."""
    eligible = upgraded = 0
    try:
        lines = open(path, encoding="utf-8").read().splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        row = json.loads(line)
        eligible += row["eligible"]
        upgraded += row["upgraded"]
    return eligible, upgraded
