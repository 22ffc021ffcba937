"""redis's runtest on the installed binaries."""

import os
import re
import shutil

from .run import Log, Missing, execute, need, source


class Redis:
    name = "redis"
    binaries = {"redis-server": "redis-check-rdb"}  # one file with several names; the package redis-tools has this one

    def prepare(self, options):
        for program, package in (("redis-check-rdb", "redis-tools"), ("redis-cli", "redis-tools"), ("redis-benchmark", "redis-tools"), ("tclsh", "tcl")):
            need(program, package)
        self.tree = source(options, self.name, "redis")
        for name in ("redis-server", "redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb", "redis-sentinel"):
            link = os.path.join(self.tree, "src", name)
            if not os.path.lexists(link):
                os.symlink(shutil.which(self.binaries.get(name, name)) or shutil.which("redis-check-rdb"), link)
        text = open(os.path.join(self.tree, "tests/test_helper.tcl"), encoding="utf-8").read()
        return re.search(r"set ::all_tests \{(.*?)\}", text, re.S)[1].split()

    def run(self, unit, before, place, variables):
        out = os.path.join(place, "log")
        command = [*before, "./runtest", "--single", unit, "--durable", "--clients", "1"]
        status = execute(command, out, self.tree, variables)
        log = Log()
        words = {"ok": "passed", "err": "failed", "exception": "failed", "skip": "skipped", "ignore": "skipped"}
        for line in open(out, encoding="utf-8", errors="replace"):
            line = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
            found = re.match(r"\[(\w+)\]: (.*?)(?: \(\d+ ms\)| in tests/\S+)?$", line)
            if found and found[1] in words:
                # ports and pids are others in each run
                log.say(re.sub(r"\d{4,}", "N", found[2]), words[found[1]])
        log.ended = status is not None and bool(log.tests or status == 0)
        return log
