"""node's own tests of its network modules, on a node of the same version."""

import os
import re
import shutil
import subprocess
import sys

from .run import Log, Missing, execute, source, tap

# A unit is a module; its tests are test-MODULE-* and test-MODULE.
MODULES = ["net", "http", "https", "http2", "tls", "cluster", "stream", "child", "worker", "dgram", "dns"]


class Node:
    name = "node"

    def prepare(self, options):
        self.node = options.node or shutil.which("node")
        if self.node is None:
            raise Missing("there is no node (package nodejs)")
        self.tree = source(options, self.name, "nodejs")
        text = open(os.path.join(self.tree, "src/node_version.h"), encoding="utf-8").read()
        wanted = ".".join(re.search(rf"define NODE_{part}_VERSION (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))
        version = subprocess.run([self.node, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        if version != f"v{wanted}":
            raise Missing(f"the tests are those of {wanted}, {self.node} is {version}: name another with --node")
        return MODULES

    def run(self, unit, before, place, variables):
        out = os.path.join(place, "log")
        names = [f"{kind}/test-{unit}{rest}" for kind in ("parallel", "sequential") for rest in ("", "-*")]
        command = [*before, sys.executable, "tools/test.py", "-p", "tap", "-j", "2", "--temp-dir", variables["TMPDIR"], "--shell", self.node, *names]
        status = execute(command, out, self.tree, variables)
        log = Log()
        tap(out, log, unit, names_are_whole=True)
        log.ended = log.ended and status is not None
        return log
