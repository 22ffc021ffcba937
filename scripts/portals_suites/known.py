"""Programs of the suites that fail by a fault of their own."""

import dataclasses
import fnmatch
import os

from .build import TOP

LIST = os.path.join(TOP, "ulp/portals/abi/tests/suites.tsv")


class Known:
    """The list: pattern of a suite's name, pattern of a program's name, the numbers of ranks that it holds for (* for all), reason.

    MODULE:PATTERN as a program's name are tests of a module, which are left out of it.
    """

    def __init__(self):
        with open(LIST, encoding="utf-8") as lines:
            rows = (line.rstrip("\n") for line in lines)
            self.rows = [tuple(row.split("\t")) for row in rows if row and not row.startswith("#")]

    def reason(self, suite, program, ranks):
        """Why a program may fail; None if it may not."""
        for suites, programs, which, reason in self.rows:
            fits = which == "*" or str(ranks) in which.split(",")
            if fits and fnmatch.fnmatchcase(suite, suites) and fnmatch.fnmatchcase(program, programs):
                return reason
        return None

    def tests(self, suite, module):
        """Patterns of a module's tests that may fail, at any number of ranks."""
        named = [programs.partition(":") for suites, programs, _, _ in self.rows if fnmatch.fnmatchcase(suite, suites)]
        return [tests for name, _, tests in named if tests and name == module]

    def judge(self, outcome):
        """The outcome as it is told: a failure by a known fault is none of ours."""
        reason = self.reason(outcome.suite, outcome.program, outcome.ranks)
        if outcome.result != "failed" or outcome.seconds == 0.0 or reason is None:
            return outcome
        return dataclasses.replace(outcome, result="known", why=f"{outcome.why}: {reason}")
