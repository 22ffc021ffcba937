"""Where a program's case runs: a directory, ports, processes under `ferriband sdp run`, and the counters that these write."""

import hashlib
import os
import pwd
import signal
import socket
import subprocess
import sys
import time

from sdp_suites.run import counted

COUNTERS = "FERRIBAND_SDP_COUNTERS"


class Missing(Exception):
    """What a case needs and does not find."""


class Program:
    """A program's case: its name, what it needs (program -> package), whether some of its connections have to go by SDP, whether it has to be root."""

    def __init__(self, case, name, needs, by_sdp, root):
        self.case, self.name, self.needs, self.by_sdp, self.root = case, name, needs, by_sdp, root


PROGRAMS = []


def program(name, needs, by_sdp=True, root=False):
    """Adds a case to PROGRAMS. The keys of `needs` are programs, the values their packages."""

    def add(case):
        PROGRAMS.append(Program(case, name, needs, by_sdp, root))
        return case

    return add


def until(what, condition, seconds=20):
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def sha(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Place:
    def __init__(self, directory, under):
        self.directory = directory
        self.under = under
        self.variables = dict(os.environ, LC_ALL="C.UTF-8", HOME=directory, TMPDIR=directory)
        self.variables[COUNTERS] = self.path("counters")
        # Processes of several users add to it.
        self.write("counters", "")
        os.chmod(self.path("counters"), 0o666)
        self.started = []

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def random(self, name, length):
        """A file of random bytes, which everybody may read."""
        with open(self.path(name), "wb") as file:
            for _ in range(0, length, 1 << 20):
                file.write(os.urandom(min(length, 1 << 20)))
        return self.path(name)

    def port(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            return free.getsockname()[1]

    def command(self, words, under=True, user=None):
        """What is executed for a command: by another user, and under ferriband sdp run unless told otherwise."""
        found = [*(self.under if under else []), *map(str, words)]
        if user and os.getuid() == 0:
            who = pwd.getpwnam(user)
            found = ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups", *found]
        return found

    def start(self, *words, under=True, user=None, port=None, **variables):
        """Starts a server, and waits until it listens at a port."""
        with open(self.path(f"log.{len(self.started)}"), "wb") as log:
            child = subprocess.Popen(
                self.command(words, under, user), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, env={**self.variables, **variables}, start_new_session=True
            )
        self.started.append(child)
        if port:

            def listens():
                if child.poll() not in (None, 0):
                    raise RuntimeError(f"{words[0]} ended with status {child.returncode}")
                return bool(subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, check=True).stdout)

            until(f"{words[0]} listens", listens)
        return child

    def run(self, *words, under=True, user=None, status=0, seconds=120, stdin=None, errors=False, **variables):
        """Runs a client to its end; gives what it printed, on request with what it printed as errors."""
        done = subprocess.run(
            self.command(words, under, user),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if errors else subprocess.PIPE,
            cwd=self.directory,
            env={**self.variables, **variables},
            timeout=seconds,
            text=True,
            check=False,
        )
        if done.returncode != status:
            raise RuntimeError(f"{' '.join(map(str, words))[:200]}: status {done.returncode}: {(done.stdout + (done.stderr or ''))[-400:]}")
        return done.stdout

    def log(self, number):
        """What a server has written so far."""
        with open(self.path(f"log.{number}"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def stop(self, child, how=signal.SIGTERM):
        """Ends a server as its user would, so that it writes its counters down."""
        if child.poll() is None:
            child.send_signal(how)
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def stop_all(self):
        for child in reversed(self.started):
            self.stop(child)

    def show_logs(self):
        """Prints the ends of what the servers wrote."""
        for name in [*(f"log.{number}" for number in range(len(self.started))), "error.log"]:
            if os.path.exists(self.path(name)):
                with open(self.path(name), encoding="utf-8", errors="replace") as log:
                    sys.stderr.write("".join(f"  {name}: {line.rstrip()}\n" for line in log.readlines()[-12:]))

    def counted(self):
        """Connections that could have gone by SDP, and that did."""
        return counted(self.path("counters"))
