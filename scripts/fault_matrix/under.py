"""One `ferriband mpirun` between two hosts of its own, or on one by verbs, while a seeded plan of faults goes.

Owns: where the job runs, its plan, and what is written down of both. Must not know which program runs, nor what is made of its
results. Scripts that start jobs by the program named in FERRIBAND need not know of it: they are given `scripts/faults-programs`
by that name, which comes here.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time

from fault_matrix.cells import CannotRun, Hosts, Plan, dies_with_us
from fault_matrix.rows import DEVICES, HERE, LOCAL, THERE

# The variable that says how a job is run: see `Under`.
VARIABLE = "FERRIBAND_FAULTS_UNDER"
INSIDE = "FERRIBAND_FAULTS_INSIDE"
PLACES = ["hosts", "one"]
# What a rank says of a heal that lasts more than a second: no word of the program's.
OF_A_HEAL = re.compile(rb"ferriband MPI: rank \d+: (the connection to rank \d+ by .* (is made anew after|has failed)|rank \d+ has not answered)")


def go_inside(command):
    """Begins anew in a user namespace, in which hosts can be made."""
    unshare = ["unshare", "--user", "--map-current-user", "--keep-caps", "--net"]
    try:
        may = subprocess.run([*unshare, "ip", "link", "add", "one", "type", "veth"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        may = False
    if not may:
        raise CannotRun("no network namespaces here")
    os.environ[INSIDE] = "1"
    os.execvp(unshare[0], [*unshare, *command])


def plan(seed, device, every, name):
    """The plan for a device, text of `ferriband fault plan`: a program that ends within a second meets faults, too."""
    rng = random.Random(f"{seed} {device} {name}")
    lines = [f"seed {rng.randrange(1 << 32)}", f"at 0 add drop --probability 0.03 --device {device}"]
    lines += [f"at {rng.randrange(1000)}ms {fault}" for fault in (f"qp-error --device {device}", f"fatal {device} --for 500ms")]
    flap = f"link flap {device} --down 5ms --up 20ms --times 3"
    lines += [f"every {every} one of qp-error --all | qp-error --device {device} | {flap} | fatal {device} --for 500ms", "for 2h"]
    return "\n".join(lines) + "\n"


class Under:
    """How jobs are run: handed on in VARIABLE."""

    def __init__(self, ferriband, place, seed, every, record):
        # no seed: no faults
        self.ferriband, self.place, self.seed, self.every, self.record = ferriband, place, seed, every, record

    def text(self):
        return json.dumps([self.ferriband, self.place, self.seed, self.every, self.record])

    def run(self, arguments):
        """Runs `ferriband mpirun ARGUMENTS`; its status. Afterwards nothing of it is left."""
        name = " ".join(map(os.path.basename, arguments))
        began = time.monotonic()
        hosts, job, plans, status = None, None, [], None
        try:
            if self.place == "hosts":
                hosts = Hosts()
                options = ["--netns", f"{hosts.net(HERE)},{hosts.net(THERE)}"]
                ends = [(device, hosts.inside(end)) for end, device in DEVICES.items()]
            else:
                Hosts.must("ip", "link", "set", "lo", "up")
                options, ends = ["--same-host", "verbs"], [(LOCAL, [])]
            job = subprocess.Popen([self.ferriband, "mpirun", *options, *arguments], stderr=subprocess.PIPE, preexec_fn=dies_with_us)
            signal.signal(signal.SIGTERM, lambda *_: job.terminate())
            if self.seed is not None:
                plans = [Plan([*inside, self.ferriband, "fault", "plan", "--json", "-"], plan(self.seed, device, self.every, name), True) for device, inside in ends]
            for line in job.stderr:
                if not OF_A_HEAL.match(line):
                    sys.stderr.buffer.write(line)
                    sys.stderr.buffer.flush()
            status = job.wait()
        finally:
            if job is not None and status is None:
                job.kill()
                job.wait()
            faults = sum(one.end() for one in plans)
            if hosts is not None:
                hosts.close()
            line = json.dumps({"job": name, "seconds": round(time.monotonic() - began, 3), "faults": faults, "status": status}) + "\n"
            with open(self.record, "a", encoding="utf-8") as record:
                record.write(line)
        return 128 - status if status < 0 else status


def main(arguments):
    """The whole of a process that was started as FERRIBAND."""
    under = Under(*json.loads(os.environ[VARIABLE]))
    if arguments[0] != "mpirun":
        os.execv(under.ferriband, [under.ferriband, *arguments])
    if INSIDE not in os.environ:
        go_inside([sys.executable, *sys.argv])
    return under.run(arguments[1:])
