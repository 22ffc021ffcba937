"""PostgreSQL's installcheck over 127.0.0.1, on the installed server, with the tests of its source package."""

import os
import pwd
import re
import shutil
import socket
import subprocess

from .run import Log, Missing, build, execute, source

# The server refuses to be root's. Any other user will do: the one that the package makes.
USER = "postgres"
# Starts a server of its own, runs the tests, and ends the server.
SCRIPT = """
set -e
initdb -D "$DATA" -A trust --locale=C -E UTF8 >initdb.log
cat >>"$DATA/postgresql.conf" <<END
listen_addresses = '127.0.0.1'
port = $PORT
unix_socket_directories = ''
fsync = off
END
pg_ctl -D "$DATA" -l server.log -w start >/dev/null
trap 'pg_ctl -D "$DATA" -m fast -w stop >/dev/null' EXIT
"$REGRESS" --bindir="$BINARIES" --dlpath="$LIBRARIES" --inputdir=. --outputdir=. --max-concurrent-tests=20 --host=127.0.0.1 --port="$PORT" --schedule=parallel_schedule
"""


def run_by(command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class Postgres:
    name = "postgres"

    def prepare(self, options):
        if shutil.which("pg_config") is None:
            raise Missing("there is no pg_config (package postgresql-server-dev-N)")
        self.regress = os.path.join(os.path.dirname(os.path.dirname(run_by(["pg_config", "--pgxs"]))), "test/regress/pg_regress")
        self.binaries = run_by(["pg_config", "--bindir"])
        if not os.path.exists(os.path.join(self.binaries, "postgres")):
            raise Missing("there is no server beside pg_config (package postgresql)")
        major = re.search(r"\d+", run_by(["pg_config", "--version"]))[0]
        self.tree = source(options, self.name, f"postgresql-{major}")
        headers = run_by(["pg_config", "--includedir-server"])
        library = ["cc", "-O2", "-shared", "-fPIC", "-I", headers, "-o", "regress.so", "src/test/regress/regress.c"]
        build(self.tree, [library], "regress.so")
        return ["installcheck"]

    def run(self, unit, before, place, variables):
        user = pwd.getpwnam(USER) if os.getuid() == 0 else pwd.getpwuid(os.getuid())
        scratch = variables["TMPDIR"]
        inputs, libraries = os.path.join(scratch, "regress"), os.path.join(scratch, "lib")
        shutil.copytree(os.path.join(self.tree, "src/test/regress"), inputs)
        os.makedirs(libraries)
        installed = run_by(["pg_config", "--pkglibdir"])
        for library in (os.path.join(self.tree, "regress.so"), os.path.join(installed, "autoinc.so"), os.path.join(installed, "refint.so")):
            shutil.copy(library, libraries)
        counters = variables.get("FERRIBAND_SDP_COUNTERS")
        theirs = os.path.join(scratch, "counters")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        variables = dict(variables, DATA=os.path.join(scratch, "data"), PORT=str(port), REGRESS=self.regress, BINARIES=self.binaries, LIBRARIES=libraries)
        variables["PATH"] = f"{self.binaries}:{os.environ['PATH']}"
        variables["HOME"] = scratch
        if counters:
            variables["FERRIBAND_SDP_COUNTERS"] = theirs
        if os.getuid() == 0:
            for directory, _, files in os.walk(scratch):
                for name in [directory, *(os.path.join(directory, file) for file in files)]:
                    os.chown(name, user.pw_uid, user.pw_gid)
            before = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *before]
        out = os.path.join(place, "log")
        status = execute([*before, "sh", "-c", SCRIPT], out, inputs, variables)
        for name in ("regression.diffs", "server.log"):
            if os.path.exists(os.path.join(inputs, name)):
                shutil.copy(os.path.join(inputs, name), place)
        if counters and os.path.exists(theirs):
            with open(counters, "ab") as to:
                to.write(open(theirs, "rb").read())
        log = Log()
        for line in open(out, encoding="utf-8", errors="replace"):
            found = re.match(r"(?:test)?\s+(\S+)\s+\.\.\. (ok|FAILED)", line)
            if found:
                log.say(found[1], "passed" if found[2] == "ok" else "failed")
            log.ended = log.ended or bool(re.search(r"All \d+ tests passed|\d+ of \d+ tests failed", line))
        log.ended = log.ended and status is not None
        return log
