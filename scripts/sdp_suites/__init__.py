"""Suites of others that scripts/sdp-tests runs, each with a class: prepare gives the names of its units or raises Missing, run runs one and gives a Log."""

from .cpython import Cpython
from .curl import Curl
from .libevent import Libevent
from .libuv import Libuv
from .memcached import Memcached
from .nginx import Nginx
from .node import Node
from .postgres import Postgres
from .redis import Redis

SUITES = (Cpython, Redis, Nginx, Curl, Postgres, Libuv, Node, Memcached, Libevent)
