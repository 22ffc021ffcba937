"""libevent's regress, built from its source."""

import os
import re
import subprocess

from .run import Log, build, execute, need, source


class Libevent:
    name = "libevent"

    def prepare(self, options):
        need("cmake", "cmake")
        self.tree = source(options, self.name, "libevent")
        configure = ["cmake", "-B", "build", "-DEVENT__DISABLE_SAMPLES=ON", "-DEVENT__DISABLE_BENCHMARK=ON"]
        self.program = build(self.tree, [configure, ["cmake", "--build", "build", "-j2", "--target", "regress"]], "build/bin/regress")
        listed = subprocess.run([self.program, "--list-tests"], capture_output=True, text=True, check=False)
        groups = re.findall(r"^\s*(\w+)/", listed.stdout + listed.stderr, re.M)
        return sorted(set(groups))

    def run(self, unit, before, place, variables):
        out = os.path.join(place, "log")
        status = execute([*before, self.program, f"{unit}/.."], out, self.tree, variables)
        log = Log()
        for line in open(out, encoding="utf-8", errors="replace"):
            began = re.match(rf"({unit}/\S+): ", line)
            if began:
                name = began[1]
                log.say(name, "began")
            ended = re.search(r"\b(OK|FAILED|SKIPPED|DISABLED)$", line.strip())
            # A test that fails says so in a line of its own, with its name in brackets.
            failed = re.match(rf"\s*\[(\S+) FAILED\]", line)
            if failed:
                log.say(f"{unit}/{failed[1].rsplit('/', 1)[-1]}", "failed")
            elif ended and log.tests:
                log.say(name, {"OK": "passed", "FAILED": "failed"}.get(ended[1], "skipped"))
        log.ended = status is not None and bool(log.tests)
        return log
