"""libuv's own tests, built from its source: Debian's, or that of a git directory (from 1.49 on libuv gives its epoll_ctl calls to an io_uring)."""

import os

from .run import Log, build, execute, need, source, tap


class Libuv:
    name = "libuv"

    def prepare(self, options):
        need("cmake", "cmake")
        self.tree = source(options, self.name, "libuv1")
        configure = ["cmake", "-B", "build", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
        self.program = build(self.tree, [configure, ["cmake", "--build", "build", "-j2", "--target", "uv_run_tests"]], "build/uv_run_tests")
        return ["all"]

    def run(self, unit, before, place, variables):
        out = os.path.join(place, "log")
        status = execute([*before, self.program], out, self.tree, dict(variables, UV_RUN_AS_ROOT="1"))
        log = Log()
        tap(out, log, unit)
        log.ended = log.ended and status is not None
        return log
