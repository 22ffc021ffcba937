"""Web servers and what lies in front of them."""

import hashlib
import os
import re
import shutil
import signal
import threading

from .place import program, sha, until

PREFORK = """
ServerRoot {directory}
PidFile httpd.pid
ServerName localhost
Listen 127.0.0.1:{port}
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
ErrorLog error.log
DocumentRoot {directory}/files
StartServers 4
MaxRequestsPerChild 50
KeepAliveTimeout 2
EnableSendfile On
"""
NGINX = """
{daemon}
worker_processes 2;
error_log {directory}/error.log;
pid {directory}/nginx.pid;
events {{ worker_connections 256; }}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    server {{ listen 127.0.0.1:{port}; root {directory}/files; }}
    {more}
}}
"""
TLS = """server {{
        listen 127.0.0.1:{tls} ssl http2; root {directory}/files;
        ssl_certificate {directory}/cert.pem; ssl_certificate_key {directory}/key.pem;
        location /up {{ client_max_body_size 64m; dav_methods PUT; root {directory}; }}
    }}"""
HAPROXY = """
global
    stats socket {directory}/haproxy.sock mode 600 level admin
defaults
    mode {mode}
    option splice-auto
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend front
    bind 127.0.0.1:{front}
    default_backend back
backend back
    server one 127.0.0.1:{back}
"""
APP = """
import os
def app(environ, start):
    body = environ["wsgi.input"].read()
    start("200 OK", [("Content-Type", "text/plain"), ("X-Worker", str(os.getpid()))])
    return [body[::-1] or b"hello " * 1000]
"""


def files(place):
    """Two files to serve: the small one of many requests, and one that is long."""
    os.makedirs(place.path("files"), exist_ok=True)
    os.chmod(place.path("files"), 0o755)
    place.random("files/long", 32 << 20)
    place.random("files/short", 4000)


def fetch(place, url, name="files/long", times=1, *more):
    """Fetches a file as often as said with one curl, and compares."""
    urls = [word for _ in range(times) for word in ("-o", place.path(f"got.{_}"), url)]
    said = place.run("curl", "-sS", "--fail", *more, *urls)
    for number in range(times):
        assert sha(place.path(f"got.{number}")) == sha(place.path(name)), f"{url}: another file came"
    return said


def requests(place, port, count, *more):
    """Many requests, none of which may fail."""
    said = place.run("ab", "-q", "-n", count, "-c", "8", *more, f"http://127.0.0.1:{port}/short")
    assert re.search(rf"Complete requests:\s+{count}\n", said) and re.search(r"Failed requests:\s+0\n", said), said


def kept(place, port, count):
    """Requests on kept connections, which a server may end between two of them: curl asks again on another one, ab counts that as failed."""
    url = f"http://127.0.0.1:{port}/short?[1-{count}]"
    said = place.run("curl", "-sS", "--parallel", "--parallel-max", "8", "-o", place.path("short.#1"), "-w", "%{http_code} %{size_download}\n", url)
    assert said == "200 4000\n" * count, said[-200:]
    wanted = open(place.path("files/short"), "rb").read()
    for number in range(1, count + 1):
        assert open(place.path(f"short.{number}"), "rb").read() == wanted, f"answer {number} is wrong"


def start_nginx(place, more="", daemon="daemon off;"):
    files(place)
    port = place.port()
    text = NGINX.format(directory=place.directory, port=port, more=more, daemon=daemon)
    # Workers of root's nginx are root's, too: the directory is for its user alone.
    configuration = place.write("nginx.conf", ("user root;" if os.getuid() == 0 else "") + text)
    return port, place.start(shutil.which("nginx"), "-e", place.path("error.log"), "-c", configuration, port=port)


@program("nginx", {"nginx": "nginx", "curl": "curl", "ab": "apache2-utils"})
def nginx(place):
    """Two workers; HUP and the exchange of the binary (USR2) under load."""
    # A master whose parent lives takes itself for a new binary, and USR2 as a mistake.
    port, _ = start_nginx(place, daemon="")
    fetch(place, f"http://127.0.0.1:{port}/long", times=3)
    fault = []

    ending = threading.Event()

    def load(ask):
        try:
            while not ending.is_set():
                ask(place, port, 1000)
        except Exception as found:  # told in the main thread
            fault.append(found)

    loaders = [threading.Thread(target=load, args=[ask]) for ask in (requests, kept)]
    for loader in loaders:
        loader.start()
    pid = lambda: int(open(place.path("nginx.pid"), encoding="ascii").read())
    first = pid()
    os.kill(first, signal.SIGHUP)
    threading.Event().wait(0.5)
    os.kill(first, signal.SIGUSR2)
    until("the new binary runs", lambda: os.path.exists(place.path("nginx.pid.oldbin")) and os.path.exists(place.path("nginx.pid")) and pid() != first)
    threading.Event().wait(0.5)
    os.kill(first, signal.SIGQUIT)
    threading.Event().wait(1)
    ending.set()
    for loader in loaders:
        loader.join()
    if fault:
        raise fault[0]
    requests(place, port, 1000, "-k")
    os.kill(pid(), signal.SIGTERM)
    until("nginx ends", lambda: not os.path.exists(place.path("nginx.pid")))
    return "sendfile of 32 MiB, HUP and USR2 under load by kept and by new connections, no request failed"


@program("curl", {"nginx": "nginx", "curl": "curl", "openssl": "openssl"})
def curl(place):
    """HTTP/2 and TLS: many streams on a connection, a long file each way."""
    place.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", place.path("key.pem"), "-out", place.path("cert.pem"), "-days", "2", "-subj", "/CN=localhost", under=False)
    tls = place.port()
    os.makedirs(place.path("up"))
    start_nginx(place, TLS.format(directory=place.directory, tls=tls))
    url = f"https://localhost:{tls}"
    trust = ("--cacert", place.path("cert.pem"), "-w", "%{http_version}\n")
    assert set(fetch(place, f"{url}/long", "files/long", 4, *trust, "--http2", "--parallel").split()) == {"2"}
    assert set(fetch(place, f"{url}/long", "files/long", 2, *trust, "--http1.1").split()) == {"1.1"}
    assert set(fetch(place, f"{url}/short", "files/short", 200, *trust, "--http2").split()) == {"2"}
    place.run("curl", "-sS", "--fail", *trust, "--http2", "-T", place.path("files/long"), f"{url}/up/long")
    assert sha(place.path("up/long")) == sha(place.path("files/long"))
    return "HTTP/2 and HTTP/1.1 over TLS, 32 MiB files four at a time, a PUT of 32 MiB"


@program("apache", {"apache2": "apache2", "curl": "curl", "ab": "apache2-utils"})
def apache(place):
    """prefork: a process accepts and serves; graceful restart under load."""
    files(place)
    port = place.port()
    who = "User www-data\nGroup www-data\n" if os.getuid() == 0 else ""
    configuration = place.write("httpd.conf", who + PREFORK.format(directory=place.directory, port=port))
    server = place.start("apache2", "-f", configuration, "-DFOREGROUND", port=port)
    fetch(place, f"http://127.0.0.1:{port}/long", "files/long", 3)
    fetch(place, f"http://127.0.0.1:{port}/short", "files/short", 100)
    kept(place, port, 3000)
    requests(place, port, 1000)
    server.send_signal(signal.SIGUSR1)
    kept(place, port, 3000)
    requests(place, port, 1000)
    return "sendfile of 32 MiB, 8,000 requests, children that end after 50, a graceful restart"


@program("haproxy", {"haproxy": "haproxy", "nginx": "nginx", "curl": "curl", "ab": "apache2-utils"})
def haproxy(place):
    """Splices between two connections, both of which may go by SDP, as TCP and as HTTP."""
    back, _ = start_nginx(place)
    for mode in ("tcp", "http"):
        front = place.port()
        configuration = place.write(f"haproxy.{mode}", HAPROXY.format(directory=place.directory, mode=mode, front=front, back=back))
        server = place.start("haproxy", "-db", "-f", configuration, port=front)
        fetch(place, f"http://127.0.0.1:{front}/long", "files/long", 3)
        requests(place, front, 3000, "-k")
        place.stop(server, signal.SIGUSR1)
    return "splice in TCP and HTTP mode: 32 MiB three times, 3,000 requests"


@program("gunicorn", {"gunicorn": "gunicorn", "curl": "curl"})
def gunicorn(place):
    """prefork in Python: bodies come back reversed; HUP makes new workers."""
    port = place.port()
    place.write("app.py", APP)
    body = place.random("body", 3 << 20)
    server = place.start("gunicorn", "-w", "3", "-b", f"127.0.0.1:{port}", "--chdir", place.directory, "--worker-tmp-dir", place.directory, "app:app", port=port)
    wanted = hashlib.sha256(open(body, "rb").read()[::-1]).hexdigest()
    until("gunicorn answers", lambda: place.run("curl", "-s", f"http://127.0.0.1:{port}/").startswith("hello"))
    for turn in range(20):
        place.run("curl", "-sS", "--fail", "--data-binary", f"@{body}", "-o", place.path("got"), f"http://127.0.0.1:{port}/")
        assert sha(place.path("got")) == wanted
        if turn == 10:
            server.send_signal(signal.SIGHUP)
    return "20 bodies of 3 MiB to 3 workers and back, HUP between them"
