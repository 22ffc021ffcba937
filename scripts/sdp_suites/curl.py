"""curl's runtests, on a curl that is built from its source with the tests' own servers and libraries."""

import os
import re

from .run import Log, build, execute, source

STEP = 300


class Curl:
    name = "curl"

    def prepare(self, options):
        self.tree = source(options, self.name, "curl")
        configure = ["sh", "-c", "test -x configure || autoreconf -fi; ./configure --with-openssl --enable-debug --disable-shared"]
        # The last that is made is the file that says that all is made.
        made = ["touch", "tests/server/.made"]
        build(self.tree, [configure, ["make", "-j2"], ["make", "-C", "tests", "-j2"], made], "tests/server/.made")
        found = (re.fullmatch(r"test(\d+)", name) for name in os.listdir(os.path.join(self.tree, "tests/data")))
        self.numbers = sorted(int(test[1]) for test in found if test)
        first = sorted({number - number % STEP for number in self.numbers})
        return [f"{number}-{number + STEP - 1}" for number in first]

    def run(self, unit, before, place, variables):
        first, last = map(int, unit.split("-"))
        tests = [str(number) for number in self.numbers if first <= number <= last]
        out = os.path.join(place, "log")
        # -n: without valgrind, -a: go on after a failure, -am: a line for each test.
        command = [*before, "perl", "-I", ".", "./runtests.pl", "-n", "-a", "-am", *tests]
        status = execute(command, out, os.path.join(self.tree, "tests"), dict(variables, srcdir="."))
        log = Log()
        words = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
        for line in open(out, encoding="utf-8", errors="replace"):
            found = re.match(r"(PASS|FAIL|SKIP): (\d+)", line)
            if found:
                log.say(found[2], words[found[1]])
        log.ended = status is not None and bool(log.tests)
        return log
