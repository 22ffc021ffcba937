"""Programs that scripts/sdp-programs runs: each module has cases, which say what was checked and raise where an answer is wrong."""

from . import databases, languages, loading, streams, webs
from .place import PROGRAMS, Missing, Place
