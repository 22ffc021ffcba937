"""redis, PostgreSQL and MariaDB."""

import os
import re
import shutil
import signal
import time

from .place import Missing, program, until


@program("redis", {"redis-check-rdb": "redis-tools", "redis-cli": "redis-tools", "redis-benchmark": "redis-tools"})
def redis(place):
    """A master and a replica; BGSAVE, which forks, while requests come."""
    binary = shutil.which("redis-server") or place.path("redis-server")
    if not os.path.exists(binary):
        os.symlink(shutil.which("redis-check-rdb"), binary)
    master, replica = place.port(), place.port()
    for port, more in ((master, ()), (replica, ("--replicaof", "127.0.0.1", master))):
        os.makedirs(place.path(f"redis.{port}"))
        place.start(binary, "--port", port, "--bind", "127.0.0.1", "--dir", place.path(f"redis.{port}"), "--save", "", *more, port=port)

    def ask(port, *words):
        return place.run("redis-cli", "-p", port, *words).strip()

    until("the replica is linked", lambda: "master_link_status:up" in ask(replica, "info", "replication"))
    load = place.start("redis-benchmark", "-p", master, "-n", "60000", "-r", "100000", "-c", "20", "-q", "-t", "set,lpush,hset,get")
    for _ in range(3):
        ask(master, "bgsave")
        until("BGSAVE ends", lambda: "rdb_bgsave_in_progress:0" in ask(master, "info", "persistence"))
        assert "rdb_last_bgsave_status:ok" in ask(master, "info", "persistence")
    assert load.wait(120) == 0
    place.run("redis-check-rdb", place.path(f"redis.{master}/dump.rdb"))
    until("the replica has it all", lambda: ask(master, "debug", "digest") == ask(replica, "debug", "digest"))
    keys = int(re.sub(r"\D", "", ask(replica, "dbsize")))
    assert keys > 10_000, keys
    return f"BGSAVE under load three times, a replica with the same {keys} keys"


@program("postgres", {"pg_config": "postgresql-server-dev-15", "pgbench": "postgresql-15"}, root=True)
def postgres(place):
    """The server as one user, which forks for each connection, its clients as others; a cancel request, pgbench -S."""
    binaries = place.run("pg_config", "--bindir", under=False).strip()
    if not os.path.exists(os.path.join(binaries, "postgres")):
        raise Missing("there is no server beside pg_config (package postgresql)")
    port = place.port()
    home = place.path("postgres")
    os.makedirs(home)
    shutil.chown(home, "postgres", "postgres")
    data = os.path.join(home, "data")
    place.run(f"{binaries}/initdb", "-D", data, "-A", "trust", "-U", "postgres", user="postgres", under=False)
    server = place.start(f"{binaries}/postgres", "-D", data, "-h", "127.0.0.1", "-p", port, "-k", "", user="postgres", port=port)
    to = ("-h", "127.0.0.1", "-p", port, "-U", "postgres")

    def psql(statement, **more):
        return place.run("psql", "-X", "-A", "-t", *to, "-c", statement, "postgres", user="daemon", **more).strip()

    until("postgres answers", lambda: "1" == psql("select 1"))
    rows = psql("select count(*), sum(length(s)) from (select repeat('x', n) s from generate_series(1, 3000) n) t")
    assert rows == "3000|4501500", rows
    assert len(psql("select repeat('y', n) from generate_series(1, 3000) n")) == 4501500 + 2999
    place.run(f"{binaries}/pgbench", "-i", "-q", "-s", "2", *to, "postgres", user="daemon")
    said = place.run(f"{binaries}/pgbench", "-S", "-n", "-c", "8", "-j", "2", "-t", "1000", *to, "postgres", user="daemon")
    assert "processed: 8000/8000" in said and "failed transactions: 0 " in said, said
    # A connection for each transaction: fork, and the end of a process, each time.
    said = place.run(f"{binaries}/pgbench", "-S", "-n", "-C", "-c", "4", "-t", "50", *to, "postgres", user="daemon")
    assert "processed: 200/200" in said, said
    # psql cancels by a connection of its own when it is interrupted.
    sleeper = place.start("psql", "-X", *to, "-c", "select pg_sleep(60)", "postgres", user="daemon")
    until("the query runs", lambda: psql("select count(*) from pg_stat_activity where query = 'select pg_sleep(60)'") == "1")
    time.sleep(0.2)
    sleeper.send_signal(signal.SIGINT)
    assert sleeper.wait(10) == 1
    until("the query is gone", lambda: psql("select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'") == "0")
    place.stop(server, signal.SIGINT)
    return "clients of another user, 4.5 MB of rows, a cancelled query, pgbench -S with 8 clients and with a connection each time"


@program("mariadb", {"mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server", "mariadb-slap": "mariadb-client"}, root=True)
def mariadb(place):
    """A thread for each connection; rows of megabytes, a dump, a killed query. Without the io_uring that it opens for its files, with which a process stays TCP."""
    port = place.port()
    data = place.path("mariadb")
    os.makedirs(data)
    shutil.chown(data, "mysql", "mysql")
    place.run("mariadb-install-db", "--user=mysql", f"--datadir={data}", "--auth-root-authentication-method=normal", under=False, TMPDIR=data)
    where = ("--no-defaults", f"--datadir={data}", f"--socket={data}/s", f"--pid-file={data}/pid", "--innodb-use-native-aio=0", "--max-allowed-packet=64M")
    place.start("mariadbd", *where, "--bind-address=127.0.0.1", f"--port={port}", user="mysql", port=port, TMPDIR=data)
    to = ("--no-defaults", "-h", "127.0.0.1", "-P", port, "-u", "root", "--protocol=tcp")

    def ask(statement):
        return place.run("mariadb", *to, "-N", "-B", "--max-allowed-packet=64M", "-e", statement).strip()

    until("mariadbd answers", lambda: ask("select 1") == "1")
    ask("create database t; create table t.b (i int primary key auto_increment, d longblob)")
    for more in range(4):
        ask(f"insert into t.b (d) values (repeat('x', {3_000_000 + more}))")
    assert ask("select count(*), sum(length(d)) from t.b") == "4\t12000006"
    assert len(ask("select d from t.b where i = 1")) == 3_000_000
    dump = place.run("mariadb-dump", *to, "t")
    assert "Dump completed" in dump and len(dump) > 12_000_000, len(dump)
    place.run("mariadb-slap", *to, "--concurrency=10", "--number-of-queries=2000", "--auto-generate-sql", "--auto-generate-sql-load-type=read")
    sleeper = place.start("mariadb", *to, "-e", "select sleep(60)")
    find = "select id from information_schema.processlist where info like 'select sleep%'"
    until("the query runs", lambda: ask(find) != "")
    ask(f"kill {ask(find)}")
    assert sleeper.wait(10) != 0
    return "rows of 3 MB, a dump of 12 MB, mariadb-slap with 10 clients, a killed query"
