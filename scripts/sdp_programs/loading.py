"""What it costs to be started so, and programs that cannot be taken over."""

import os
import shutil
import subprocess
import time

from .place import program


@program("true", {}, by_sdp=False)
def true(place):
    """`ferriband sdp run -- true` takes less than 5 ms more than true: the least of many runs, which other work does not change."""

    def least(words):
        found = []
        for _ in range(60):
            began = time.monotonic()
            subprocess.run(words, check=True, env=place.variables)
            found.append(time.monotonic() - began)
        return 1000 * min(found)

    more = least(place.command(["true"])) - least(["true"])
    assert more < 5, f"{more:.1f} ms more"
    return f"{more:.1f} ms more than true"


@program("setuid", {"cc": "gcc"}, by_sdp=False, root=True)
def setuid(place):
    """A program that runs as another user than who starts it does what it does, and nothing else is printed."""
    shutil.copy("/usr/bin/id", place.path("id"))
    os.chmod(place.path("id"), 0o4755)
    said = place.run(place.path("id"), "-un", user="nobody", errors=True)
    assert said == "root\n", said
    return "a setuid id that nobody starts is root's and prints nothing else"


@program("static", {"cc": "gcc"}, by_sdp=False)
def static(place):
    """A static program does what it does, and nothing else is printed."""
    place.write("static.c", '#include <stdio.h>\nint main(void) { puts("static"); return 3; }\n')
    place.run("cc", "-static", "-o", place.path("static"), place.path("static.c"), under=False)
    said = place.run(place.path("static"), status=3, errors=True)
    assert said == "static\n", said
    return "its output and its status, nothing else is printed"
