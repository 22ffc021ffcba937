"""memcached's t/*.t on the installed memcached, by TCP: its tests take Unix sockets wherever the program has them, so it is started by a script that does not tell."""

import os

from .run import Log, build, execute, need, source, tap


class Memcached:
    name = "memcached"
    script = """#!/bin/sh
[ "$1" != -h ] || exec sh -c '{0} -h | grep -iv unix-socket'
for word; do
    shift
    # Debian's program is built without seccomp and does not know this option.
    [ "$word" != relaxed_privileges ] || word=no_drop_privileges
    set -- "$@" "$word"
done
exec {0} "$@"
"""

    def prepare(self, options):
        binary = need("memcached", "memcached")
        self.tree = source(options, self.name, "memcached")
        build(self.tree, [["cc", "-O2", "-o", "timedrun", "timedrun.c"]], "timedrun")
        script = os.path.join(self.tree, "memcached-debug")
        with open(script, "w", encoding="utf-8") as to:
            to.write(self.script.format(binary))
        os.chmod(script, 0o755)
        # The tests of TLS are run with SSL_TEST set, and whitespace.t looks at a git checkout.
        return sorted(name for name in os.listdir(os.path.join(self.tree, "t")) if name.endswith(".t") and name != "whitespace.t")

    def run(self, unit, before, place, variables):
        out = os.path.join(place, "log")
        status = execute([*before, "perl", f"t/{unit}"], out, self.tree, variables)
        log = Log()
        tap(out, log, unit)
        log.ended = log.ended and status is not None
        return log
