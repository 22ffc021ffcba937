//! nginx under `ferriband sdp run`: its binary is replaced under load, and no request fails.

mod sdp_programs;

use sdp_programs::{Running, compile, ferriband, listed, status};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NGINX: &str = "/usr/sbin/nginx";

fn soon(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A directory with a configuration, which is gone when this is dropped, and the server with it.
struct Server {
    place: PathBuf,
    port: u16,
}

impl Server {
    fn new() -> Self {
        let name = format!("sdp-nginx-{}", std::process::id());
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(place.join("logs")).expect("writable");
        fs::write(place.join("index.html"), [b'a'; 100]).expect("writable");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("bound").port();
        // SAFETY: a plain system call.
        let is_root = unsafe { libc::geteuid() } == 0;
        // connections of nobody stay TCP; nginx would empty the environment of its successor
        let lines = format!(
            "env LD_PRELOAD; {} worker_processes 2; pid {}; error_log {};\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {}; }} }}\n",
            if is_root { "user root;" } else { "" },
            place.join("pid").display(),
            place.join("logs/error.log").display(),
            place.display(),
        );
        fs::write(place.join("conf"), lines).expect("writable");
        Self { place, port }
    }

    fn master(&self) -> Option<i32> {
        let text = fs::read_to_string(self.place.join("pid")).ok()?;
        text.trim().parse().ok()
    }
}

fn signal(process: i32, signal: i32) -> bool {
    // SAFETY: a process of this test's.
    unsafe { libc::kill(process, signal) == 0 }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(master) = self
            .master()
            .filter(|master| signal(*master, libc::SIGTERM))
        {
            let begun = Instant::now();
            while signal(master, 0) && begun.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = fs::remove_dir_all(&self.place);
    }
}

#[test]
fn a_binary_upgrade_under_load_fails_no_request_and_the_new_one_takes_part() {
    if !Path::new(NGINX).exists() {
        eprintln!("skipped: there is no nginx");
        return;
    }
    let load = compile("http_load", "http-load", &["-D_GNU_SOURCE"]);
    let server = Server::new();
    let mut nginx = ferriband();
    nginx.args(["run", "--", NGINX, "-p"]).arg(&server.place);
    nginx.arg("-c").arg(server.place.join("conf"));
    // it goes on in the background
    assert!(nginx.status().expect("it runs").success());
    let port = server.port.to_string();
    soon("nginx begins", || {
        TcpStream::connect(("127.0.0.1", server.port)).is_ok() && server.master().is_some()
    });
    let loads = ["40", "40", "1"];
    let mut loads = loads.map(|keep| Running::preloaded(&load, &[&port, "6", keep]));
    let first = server.master().expect("a pid");
    assert!(signal(first, libc::SIGUSR2));
    let is_new = || server.master().filter(|master| *master != first);
    soon("the successor begins", || is_new().is_some());
    std::thread::sleep(Duration::from_millis(300));
    assert!(signal(first, libc::SIGQUIT));
    soon("the old one ends", || !signal(first, 0));
    // whatever goes by SDP is the new one's
    soon("a connection goes by SDP", || {
        let status = status();
        let loads = loads
            .iter()
            .flat_map(|load| listed(&status, load.pid(), "connections"));
        let mut directions = loads.map(|one| &one["out"]["carried_by"]);
        directions.any(|carried_by| carried_by == "sdp")
    });
    for load in &mut loads {
        let said = load.line();
        assert!(said.ends_with(" requests"), "{said}");
    }
}
