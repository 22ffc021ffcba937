"""nginx-tests on the installed nginx."""

import os

from .run import Log, Missing, execute, source, tap

NGINX = "/usr/sbin/nginx"
NGINX_MODULES = "/usr/lib/nginx/modules"


class Nginx:
    name = "nginx"

    def prepare(self, options):
        if not os.path.exists(NGINX):
            raise Missing(f"there is no {NGINX} (package nginx)")
        self.tree = source(options, self.name)
        return sorted(name for name in os.listdir(self.tree) if name.endswith(".t"))

    def run(self, unit, before, place, variables):
        out = os.path.join(place, "log")
        # Workers of root's nginx are root's, too: the directory of a test is readable for nobody
        # else.
        globals_ = {"TEST_NGINX_GLOBALS": "user root;"} if os.getuid() == 0 else {}
        variables = dict(variables, TEST_NGINX_BINARY=NGINX, TEST_NGINX_MODULES=NGINX_MODULES, **globals_)
        status = execute([*before, "perl", "-I", "lib", unit], out, self.tree, variables)
        log = Log()
        tap(out, log, unit)
        log.ended = log.ended and status is not None
        return log
