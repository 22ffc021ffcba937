"""ssh, iperf3, socat, inetd, rsync, an MQTT broker: connections that carry a stream."""

import json
import os
import re

from .place import Missing, program, sha, until


@program("ssh", {"sshd": "openssh-server", "scp": "openssh-client"}, root=True, by_sdp=False)
def ssh(place):
    """Privilege separation and seccomp in the server: 1 GiB by scp, each way's hash equal."""
    port = place.port()
    for name in ("host", "user"):
        place.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place.path(name), under=False)
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    lines = f"""Port {port}
ListenAddress 127.0.0.1
HostKey {place.path("host")}
AuthorizedKeysFile {place.path("user.pub")}
PidFile none
StrictModes no
PermitRootLogin yes
UsePAM no
Subsystem sftp internal-sftp
"""
    place.start("/usr/sbin/sshd", "-D", "-e", "-f", place.write("sshd_config", lines), port=port)
    options = ("-i", place.path("user"), "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={place.path('known')}", "-o", "LogLevel=ERROR", "-F", "none")
    assert place.run("ssh", *options, "-p", port, "root@127.0.0.1", "echo $((6 * 7))").strip() == "42"
    sent = place.random("sent", 1 << 30)
    place.run("scp", *options, "-P", port, sent, f"root@127.0.0.1:{place.path('there')}")
    assert sha(place.path("there")) == sha(sent)
    place.run("scp", *options, "-P", port, f"root@127.0.0.1:{place.path('there')}", place.path("back"))
    assert sha(place.path("back")) == sha(sent)
    return "a command, scp of 1 GiB there and back with equal hashes"


@program("iperf3", {"iperf3": "iperf3"})
def iperf3(place):
    """-Z (sendfile), --bidir, -R, parallel streams: what was sent has come."""
    port = place.port()
    place.start("iperf3", "-s", "-B", "127.0.0.1", "-p", port, port=port)
    for flags in (("-Z",), ("--bidir",), ("-R", "-Z"), ("-P", "4"), ("-l", "100", "--bidir")):
        said = json.loads(place.run("iperf3", "-c", "127.0.0.1", "-p", port, "-t", "2", "-J", *flags))
        end = said["end"]
        for kind in ("", "_bidir_reverse") if "--bidir" in flags else ("",):
            sent, received = end[f"sum_sent{kind}"]["bytes"], end[f"sum_received{kind}"]["bytes"]
            assert 0 < received <= sent, (flags, sent, received)
    return "-Z, --bidir, -R -Z, -P 4, --bidir with 100 bytes"


@program("qperf", {"qperf": "qperf"})
def qperf(place):
    """Sockets of AF_INET_SDP. It links libibverbs, which under `ferriband run` is the one that the library uses."""
    if not place.under:
        raise Missing("sockets of AF_INET_SDP are the library's")
    port = place.port()
    words = (place.under[0], "run", "--", *place.under, "qperf", "-lp", port)
    place.start(*words, under=False, port=port)
    said = place.run(*words, "-t", "2", "127.0.0.1", "sdp_lat", "sdp_bw", under=False)
    figures = re.findall(r"(latency|bw) += +(\S+ \S+)", said)
    assert [name for name, _ in figures] == ["latency", "bw"], said
    return f"sdp_lat {figures[0][1]}, sdp_bw {figures[1][1]}"


@program("socat", {"socat": "socat"})
def socat(place):
    """A fork for each connection, and the end of one stream while the other goes on."""
    port = place.port()
    place.start("socat", f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,backlog=32", "EXEC:sha256sum", port=port)
    sent = place.random("sent", 256 << 20)
    for _ in range(3):
        with open(sent, "rb") as file:
            said = place.run("sh", "-c", f"socat -t 60 - TCP:127.0.0.1:{port} <{sent}")
        assert said.split()[0] == sha(sent), said
    return "256 MiB to a child's sha256sum, half-closed, three times"


@program("inetd", {"inetd": "openbsd-inetd", "socat": "socat"}, by_sdp=False)
def inetd(place):
    """A connection becomes descriptors 0 to 2 of a program that is executed."""
    port = place.port()
    who = "root" if os.getuid() == 0 else os.environ["USER"]
    configuration = place.write("inetd.conf", f"127.0.0.1:{port} stream tcp nowait {who} /usr/bin/sha256sum sha256sum\n")
    place.start("inetd", "-i", configuration, port=port)
    sent = place.random("sent", 64 << 20)
    for _ in range(10):
        said = place.run("sh", "-c", f"socat -t 60 - TCP:127.0.0.1:{port} <{sent}")
        assert said.split()[0] == sha(sent), said
    return "64 MiB to sha256sum on descriptors 0 to 2, ten times"


@program("activate", {"systemd-socket-activate": "systemd", "redis-cli": "redis-tools", "redis-check-rdb": "redis-tools"}, by_sdp=False)
def activate(place):
    """A listener that comes by exec from a process that has not accepted from it."""
    port = place.port()
    place.start("systemd-socket-activate", "-l", f"127.0.0.1:{port}", "--inetd", "-a", "cat", port=port)
    for turn in range(5):
        text = f"turn {turn} " * 20_000
        assert place.run("socat", "-t", "30", "-", f"TCP:127.0.0.1:{port}", stdin=text) == text
    return "cat with a connection of its own, five times"


@program("rsync", {"rsync": "rsync"})
def rsync(place):
    """A daemon that forks for each connection; clients that fork themselves, both halves of which use the connection."""
    port = place.port()
    os.makedirs(place.path("there"))
    for name, length in (("long", 64 << 20), *((f"short{number}", 100_000) for number in range(40))):
        place.random(f"there/{name}", length)
    module = f"use chroot = no\nread only = no\n[there]\npath = {place.path('there')}\n" + ("uid = root\ngid = root\n" if os.getuid() == 0 else "")
    place.start("rsync", "--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}", f"--config={place.write('rsyncd.conf', module)}", port=port)
    place.run("rsync", "-a", f"rsync://127.0.0.1:{port}/there/", place.path("here/"))
    place.random("here/new", 8 << 20)
    place.run("rsync", "-a", "--checksum", "--bwlimit=50m", place.path("here/"), f"rsync://127.0.0.1:{port}/there/")
    names = sorted(os.listdir(place.path("here")))
    assert len(names) == 42 and names == sorted(os.listdir(place.path("there"))), names
    assert all(sha(place.path(f"here/{name}")) == sha(place.path(f"there/{name}")) for name in names)
    return "42 files, 68 MB from the daemon and 8 MB to it, equal hashes"


@program("mosquitto", {"mosquitto": "mosquitto", "mosquitto_pub": "mosquitto-clients"})
def mosquitto(place):
    """An MQTT broker: a message of 2 MB, and 300 of a line each."""
    port = place.port()
    place.start("mosquitto", "-c", place.write("mosquitto.conf", f"listener {port} 127.0.0.1\nallow_anonymous true\n"), port=port)
    to = ("-h", "127.0.0.1", "-p", port)
    # A message that the broker keeps says when the subscription is there.
    place.run("mosquitto_pub", *to, "-t", "a/kept", "-r", "-q", "1", "-m", "kept")
    reader = place.start("mosquitto_sub", *to, "-t", "a/#", "-C", "302", "-q", "1", "-F", "%l")
    until("it has subscribed", lambda: os.path.getsize(place.path("log.1")) > 0)
    place.run("mosquitto_pub", *to, "-t", "a/long", "-q", "1", "-f", place.random("long", 2 << 20))
    place.run("mosquitto_pub", *to, "-t", "a/short", "-q", "1", "-l", stdin="hello\n" * 300)
    assert reader.wait(30) == 0
    assert place.log(1).split() == ["4", str(2 << 20), *["5"] * 300], place.log(1)[:200]
    return "a message of 2 MiB and 300 short ones, all of which came"
