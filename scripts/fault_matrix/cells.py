"""A cell of the matrix of faults: one or two hosts, a job of two ranks, and what happens to it meanwhile.

Owns: network namespaces, processes, and the end of all of them. Must not know which cells there are (rows.py), nor how results
are shown.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from fault_matrix.rows import DEVICES, HERE, LOCAL, MPIRUN, SECOND, THERE, steps_of

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = os.path.join(TOP, "scripts/fault_matrix/messages.c")
ADDRESSES = {HERE: "10.99.0.1", THERE: "10.99.0.2"}
SECOND_ADDRESSES = {HERE: "10.98.0.1", THERE: "10.98.0.2"}
# Messages go on for so long behind the fault, in seconds.
AFTERWARDS = 1.5
# A job that does not begin, or does not end so long after its time, hangs.
PATIENCE = 60
# Seconds that ranks may be there behind their job.
LINGER = 10
STATUS = {0: "healed", 3: "wrong", 4: "lost"}


def dies_with_us():
    """In a child: it ends when the script does, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class CannotRun(Exception):
    """No cell can be run here."""


class Hosts:
    """Two network namespaces that a veth joins, or two."""

    def __init__(self, has_second=False):
        self.holders = {}
        own = os.readlink("/proc/self/ns/net")
        try:
            for end in DEVICES:
                self.holders[end] = subprocess.Popen(["unshare", "-n", "sleep", "1d"], preexec_fn=dies_with_us)
            for end in DEVICES:
                deadline = time.monotonic() + 10
                while os.readlink(f"/proc/{self.holders[end].pid}/ns/net") == own:
                    if time.monotonic() > deadline or self.holders[end].poll() is not None:
                        raise CannotRun("no network namespace of its own")
                    time.sleep(0.01)
            for end in DEVICES:
                self.must_in(end, "ip", "link", "set", "lo", "up")
            self.join({end: end for end in DEVICES}, ADDRESSES)
            if has_second:
                self.join(SECOND, SECOND_ADDRESSES)
        except BaseException:
            self.close()
            raise

    def join(self, names, addresses):
        """Makes a veth of interfaces with these names and addresses."""
        pids = [str(self.holders[end].pid) for end in (HERE, THERE)]
        self.must("ip", "link", "add", names[HERE], "netns", pids[0], "type", "veth", "peer", "name", names[THERE], "netns", pids[1])
        for end, address in addresses.items():
            self.must_in(end, "ip", "addr", "add", f"{address}/24", "dev", names[end])
            self.must_in(end, "ip", "link", "set", names[end], "up")

    def net(self, end):
        return f"/proc/{self.holders[end].pid}/ns/net"

    def inside(self, end, *command):
        return ["nsenter", f"--net={self.net(end)}", *command]

    @staticmethod
    def must(*command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotRun(f"{' '.join(command)}: {done.stderr.strip()}")

    def must_in(self, end, *command):
        self.must(*self.inside(end, *command))

    def close(self):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()
        self.holders = {}


class Plan:
    """`ferriband fault plan` beside a job; begun anew, if `again` says so, each time it ends for want of programs."""

    def __init__(self, command, text, again):
        self.command, self.text, self.again = command, text, again
        self.is_over, self.faults, self.tool = False, 0, None
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.go_on)
        self.thread.start()

    def go_on(self):
        while True:
            with self.lock:
                if self.is_over:
                    return
                self.tool = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=dies_with_us,
                )
            said, _ = self.tool.communicate(self.text)
            if said:
                self.faults += sum(event["error"] is None for event in json.loads(said)["events"])
            if not self.again:
                return
            # no program has an adapter yet, or none any more
            time.sleep(0.02)

    def end(self):
        """Ends it, and clears what it has set; how many faults there were."""
        with self.lock:
            self.is_over = True
            if self.tool is not None and self.tool.poll() is None:
                self.tool.send_signal(signal.SIGINT)
        self.thread.join()
        return self.faults


def compiled(libraries, into):
    """messages.c, compiled."""
    program = os.path.join(into, "messages")
    mpicc = os.path.join(libraries, "bin/mpicc")
    if not os.path.exists(mpicc):
        raise CannotRun(f"no {mpicc}: make build")
    done = subprocess.run([mpicc, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program, SOURCE], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotRun(f"{SOURCE} does not compile:\n{done.stderr}")
    return program


class Cell:
    """One row in one column."""

    def __init__(self, row, column, seed):
        self.row, self.column, self.seed = row, column, seed
        self.result, self.seconds, self.worst_ms, self.heals, self.said = "", 0.0, None, None, ""
        self.command = []

    def run(self, ferriband, program):
        """Runs it; afterwards nothing of it is left."""
        began = time.monotonic()
        for turn in range(self.row.jobs):
            self.run_job(ferriband, program, turn)
            if self.result != self.row.wanted:
                break
        self.seconds = time.monotonic() - began

    def run_job(self, ferriband, program, turn):
        scratch = tempfile.mkdtemp(prefix="faults-")
        hosts, job, tools = Hosts(self.row.has_second), None, []
        try:
            # many short jobs are about how they begin and end
            seconds = self.row.lasts + (AFTERWARDS if self.row.jobs == 1 else 0)
            places = ["--netns", f"{hosts.net(HERE)},{hosts.net(THERE)}"]
            if self.column.is_on_one:
                places = ["--same-host", "verbs"]
            command = [ferriband, "mpirun", "-n", "2", *places, *self.column.options, program, str(seconds), scratch, *map(str, self.column.kind)]
            self.command = hosts.inside(HERE, *command) if self.column.is_on_one else command
            job = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                preexec_fn=dies_with_us,
            )
            heard = []
            reader = threading.Thread(target=lambda: heard.extend(job.communicate()))
            reader.start()
            if self.row.is_early:
                self.let_it_happen(hosts, ferriband, job, [], tools, turn)
            ranks = self.wait_for_ranks(job, scratch)
            if ranks and not self.row.is_early:
                self.let_it_happen(hosts, ferriband, job, ranks, tools, turn)
            # A job that has ended by itself is heard out all the same.
            reader.join(seconds + PATIENCE if ranks else LINGER)
            is_over = not reader.is_alive()
            if not is_over:
                os.killpg(job.pid, signal.SIGKILL)
                reader.join()
            self.judge(is_over, job.returncode, *heard)
            self.look_for(ranks)
        finally:
            for tool in tools:
                tool.end()
            if job is not None and job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
            hosts.close()
            shutil.rmtree(scratch, ignore_errors=True)

    def look_for(self, ranks):
        """Ranks that go on behind their job are a finding."""
        deadline = time.monotonic() + LINGER
        while ranks and time.monotonic() < deadline:
            ranks = [pid for pid in ranks if os.path.exists(f"/proc/{pid}")]
            time.sleep(0.01)
        for pid in ranks:
            self.result, self.said = "left", f"process {pid} is there {LINGER} s behind its job"
            os.kill(pid, signal.SIGKILL)

    @staticmethod
    def wait_for_ranks(job, scratch):
        """The process numbers of the ranks, once messages go; none if the job ends or hangs before."""
        deadline = time.monotonic() + PATIENCE
        while job.poll() is None and time.monotonic() < deadline:
            try:
                return [int(open(os.path.join(scratch, f"rank.{rank}"), encoding="ascii").read()) for rank in range(2)]
            except FileNotFoundError:
                time.sleep(0.01)
        return []

    def let_it_happen(self, hosts, ferriband, job, ranks, tools, turn):
        for place, what in steps_of(self.row, self.seed + turn):
            if place in DEVICES:
                at = HERE if self.column.is_on_one else place
                text = what.replace(DEVICES[place], LOCAL) if self.column.is_on_one else what
                tools.append(Plan(hosts.inside(at, ferriband, "fault", "plan", "--json", "-"), text, self.row.is_early))
            elif place == "ip":
                hosts.must_in(HERE, "ip", *what.split())
            elif place == "sleep":
                time.sleep(what)
            else:
                os.kill(job.pid if what == MPIRUN else ranks[what], getattr(signal, f"SIG{place}"))

    def judge(self, is_over, status, out, err):
        found = re.search(r"rounds \d+ worst_ms ([\d.]+) heals (\d+)", out)
        if found:
            self.worst_ms, self.heals = float(found[1]), int(found[2])
        self.said = "" if status == 0 else err.strip()
        if not is_over:
            self.result = "hung"
        elif status == 0 and not found:
            self.result, self.said = "wrong", "the job ends well and says nothing"
        else:
            self.result = STATUS.get(status, "lost")
