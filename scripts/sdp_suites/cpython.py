"""CPython's own tests on the installed python3."""

import json
import os
import subprocess

from .run import TOP, Log, Missing, execute

PYTHON = "/usr/bin/python3"
CPYTHON = [
    "test_socket",
    "test_select",
    "test_epoll",
    "test_selectors",
    "test_asyncio",
    "test_ssl",
    "test_socketserver",
    "test_subprocess",
    "test_multiprocessing_fork",
    "test_multiprocessing_forkserver",
    "test_multiprocessing_main_handling",
    "test_multiprocessing_spawn",
]


# Tests of CPython that wait for ever on some machines, plain, and with them all that would come
# after them.
LEFT_OUT = {"ThreadedVSOCKSocketStreamTest": "needs a machine whose vsock reaches itself"}


class Cpython:
    name = "cpython"

    def prepare(self, _options):
        found = subprocess.run([PYTHON, "-c", "import test.test_socket"], capture_output=True, check=False)
        if found.returncode != 0:
            raise Missing(f"{PYTHON} has no test.test_socket (package libpython3.N-testsuite)")
        for name, reason in LEFT_OUT.items():
            print(f"cpython: left out: {name}, {reason}")
        return CPYTHON

    def run(self, unit, before, place, variables):
        report = os.path.join(place, "report")
        open(report, "w", encoding="utf-8").close()
        # Without a file of its own: children that are spawned begin with the file of their parent.
        runner = "import sys; sys.path.append(sys.argv[1]); from sdp_suites.cpython import python_tests; python_tests(*sys.argv[2:])"
        command = [*before, PYTHON, "-B", "-W", "ignore", "-c", runner, os.path.join(TOP, "scripts"), unit, report]
        execute(command, os.path.join(place, "log"), place, variables)
        log = Log()
        for line in open(report, encoding="utf-8"):
            name, what = json.loads(line)
            if what == "ended":
                log.ended = True
            else:
                log.say(name, what)
        return log


def python_tests(module, report):
    """Inside a run: the tests of a module of CPython's, each written down when it begins and when it ends."""
    import unittest

    from test import support

    support.use_resources = ["cpu", "network", "subprocess", "walltime"]
    out = open(report, "a", encoding="utf-8", buffering=1)
    parent = os.getpid()

    def say(name, what):
        # Children that tests fork and that run on into the runner are not the runner.
        if os.getpid() == parent:
            out.write(json.dumps([name, what]) + "\n")

    class Result(unittest.TextTestResult):
        def startTest(self, test):
            super().startTest(test)
            say(test.id(), "began")

        def addSuccess(self, test):
            super().addSuccess(test)
            say(test.id(), "passed")

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            say(test.id(), "skipped")

        def addExpectedFailure(self, test, err):
            super().addExpectedFailure(test, err)
            say(test.id(), "passed")

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            say(test.id(), "passed")

        def addFailure(self, test, err):
            super().addFailure(test, err)
            say(test.id(), "failed")

        def addError(self, test, err):
            super().addError(test, err)
            say(test.id(), "failed")

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                say(test.id(), "failed")

    def flat(suite):
        for one in suite:
            if isinstance(one, unittest.TestSuite):
                yield from flat(one)
            else:
                yield one

    try:
        suite = unittest.TestLoader().loadTestsFromName(f"test.{module}")
        suite = unittest.TestSuite(test for test in flat(suite) if not any(name in test.id() for name in LEFT_OUT))
        unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    except unittest.SkipTest:
        say(module, "skipped")
    say("", "ended")
