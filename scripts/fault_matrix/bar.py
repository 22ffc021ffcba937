"""Progress of a long run on the terminal, if there is one. Owns: the line on standard error. Must not know what runs."""

import sys


class Bar:
    """How many of a known number of things are done."""

    def __init__(self, whole):
        self.whole, self.shown = whole, sys.stderr.isatty()

    def at(self, done, text):
        if self.shown:
            filled = 30 * done // self.whole
            print(f"\r\x1b[K[{'#' * filled}{' ' * (30 - filled)}] {done}/{self.whole} {text[:70]}", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
