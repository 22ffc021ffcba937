"""node, Java, Go, PHP: programs of a few lines that are kept beside this file."""

import os
import shutil

from .place import Missing, program, sha, until
from .webs import fetch, requests, start_nginx

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sources")


def source(name):
    return os.path.join(HERE, name)


@program("node", {"node": "nodejs"})
def node(place):
    """An HTTP server and a client with kept connections; worker processes that share the listener."""
    for workers in (0, 2):
        port = place.port()
        place.start("node", source("server.js"), port, workers, port=port)
        said = place.run("node", source("client.js"), port)
        assert said.strip() == "400 answers are right", said
    return "400 requests with bodies up to 1 MiB on kept connections, to one process, and to a cluster of two workers (whose connections the first process hands on: TCP)"


@program("php", {"php": "php-cli", "socat": "socat"})
def php(place):
    """A connection of PHP's streams that its sockets extension, which PHP loads with RTLD_DEEPBIND, uses as well."""
    if "sockets" not in place.run("php", "-m", under=False).split():
        raise Missing("there is no extension sockets")
    port = place.port()
    place.start("socat", f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr", "EXEC:cat", port=port)
    text = (
        f'<?php $s = stream_socket_client("tcp://127.0.0.1:{port}"); $k = socket_import_stream($s);'
        ' for ($i = 0; $i < 300; $i++) { $t = str_repeat("x", $i) . "\n"; fwrite($s, $t); if (fgets($s) !== $t) die("streams");'
        ' socket_write($k, "$i ping\n"); if (socket_read($k, 100, PHP_NORMAL_READ) !== "$i ping\n") die("sockets"); } echo "right";'
    )
    said = place.run("php", place.write("both.php", text))
    assert said == "right", said
    return "300 exchanges by streams and by the sockets extension in turn"


@program("java", {"java": "openjdk-17-jre-headless", "javac": "openjdk-17-jdk-headless"})
def java(place):
    """A server with NIO's selector; clients with blocking sockets and with channels."""
    port = place.port()
    place.run("javac", "-d", place.directory, source("Echo.java"), under=False)
    place.start("java", "-cp", place.directory, "Echo", "serve", port, port=port)
    said = place.run("java", "-cp", place.directory, "Echo", "ask", port)
    assert said.strip() == "all echoes are right", said
    return "selector, channels and blocking sockets: 16 clients, 1 B to 1 MiB each way"


@program("java-sdp", {"java": "openjdk-17-jre-headless", "javac": "openjdk-17-jdk-headless"})
def java_sdp(place):
    """The same, by Java's own SDP: sockets of AF_INET_SDP, which a file asks for."""
    if not place.under:
        raise Missing("sockets of AF_INET_SDP are the library's")
    port = place.port()
    place.run("javac", "-d", place.directory, source("Echo.java"), under=False)
    rules = place.write("sdp.conf", f"bind 127.0.0.1 {port}\nconnect 127.0.0.1 {port}\n")
    words = ("java", f"-Dcom.sun.sdp.conf={rules}", "-Dcom.sun.sdp.debug", "-Djava.net.preferIPv4Stack=true", "-cp", place.directory, "Echo")
    place.start(*words, "serve", port)
    # The kernel knows nothing of the port.
    until("the server listens", lambda: "converted" in place.log(0))
    said = place.run(*words, "ask", port)
    assert said.count("converted to SDP") == 16 and "all echoes are right" in said, said
    return "com.sun.sdp.conf: selector, channels and blocking sockets, by SDP from the first byte"


@program("go", {"go": "golang-go", "nginx": "nginx", "curl": "curl", "ab": "apache2-utils"}, by_sdp=False)
def go(place):
    """Go makes its system calls itself: it stays with TCP whoever its peer is."""
    shutil.copy(source("web.go"), place.path("web.go"))
    place.run("go", "build", "-o", place.path("web"), place.path("web.go"), under=False, GOCACHE=place.path("cache"), GO111MODULE="off", CGO_ENABLED="0", GOTOOLCHAIN="local")
    served, _ = start_nginx(place)
    for under in (False, True):
        place.run(place.path("web"), "get", f"http://127.0.0.1:{served}/long", place.path("got"), "20", under=under)
        assert sha(place.path("got")) == sha(place.path("files/long"))
        port = place.port()
        server = place.start(place.path("web"), "serve", f"127.0.0.1:{port}", place.path("files"), under=under, port=port)
        fetch(place, f"http://127.0.0.1:{port}/long", "files/long", 5)
        requests(place, port, 3000, "-k")
        place.stop(server)
    return "client of nginx, server of curl and ab, both started with and without ferriband sdp run"
