//! Other programs that serve TCP: nginx, memcached, iperf3, and an echo of node's.
//!
//! Owns: how each is called, and who asks it: wrk, iperf3 itself, or two loops of `ferriband
//! socket-pair`. Must not know: what carries the bytes.

use super::server::{Server, free_port};
use super::{Settings, Way, are_there};
use crate::failure::Failure;
use crate::launch;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// What is asked of which program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// nginx serves a file of so many bytes to wrk.
    Nginx {
        bytes: usize,
        /// Each connection has one request.
        closes: bool,
        /// open_file_cache: no system call of a request's but for the socket.
        caches: bool,
    },
    /// memcached answers one connection that asks for a short value.
    Memcached,
    /// A stream of iperf3's.
    Iperf3,
    /// node sends back what one connection sends.
    Node,
}

/// Connections of wrk's.
const CONNECTIONS: &str = "16";
/// What a request for one value of memcached's is answered with, where there is none.
const NO_VALUE: &str = "END";

const ECHO: &str = "require('net').createServer(s=>{s.setNoDelay();s.on('error',()=>{});s.pipe(s)}).listen(+process.argv[1],'127.0.0.1')";

impl Program {
    /// Whether all that it needs is there.
    pub fn is_there(self) -> bool {
        match self {
            Self::Nginx { .. } => are_there(&["nginx", "wrk"]),
            Self::Memcached => are_there(&["memcached"]),
            Self::Iperf3 => are_there(&["iperf3"]),
            Self::Node => are_there(&["node"]),
        }
    }

    /// What the figure counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Iperf3 => "bytes/s",
            _ => "requests/s",
        }
    }

    /// Requests, or bytes, of a second.
    pub fn measure(self, way: &Way, settings: Settings) -> Result<f64, Failure> {
        let port = free_port()?;
        match self {
            Self::Nginx {
                bytes,
                closes,
                caches,
            } => {
                let site = Site::new(bytes, caches, port)?;
                let _server = Server::start(site.command(), port, way, settings)?;
                let mut wrk = Command::new("wrk");
                wrk.args(["-t1", "-c", CONNECTIONS, "-d1s"]);
                if closes {
                    wrk.args(["-H", "Connection: close"]);
                }
                wrk.arg(format!("http://127.0.0.1:{port}/file"));
                asked(wrk, way, settings, of_wrk)
            }
            Self::Memcached => {
                let mut command = Command::new("memcached");
                command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0"]);
                command.args(["-u", "root"]);
                let _server = Server::start(command, port, way, settings)?;
                requests(port, "get key", NO_VALUE, way, settings)
            }
            Self::Iperf3 => {
                let mut command = Command::new("iperf3");
                command.args(["-s", "-B", "127.0.0.1", "-p", &port.to_string()]);
                let _server = Server::start(command, port, way, settings)?;
                let mut client = Command::new("iperf3");
                client.args(["-c", "127.0.0.1", "-p", &port.to_string(), "-t1", "-J"]);
                asked(client, way, settings, of_iperf3)
            }
            Self::Node => {
                let mut command = Command::new("node");
                command.args(["-e", ECHO, &port.to_string()]);
                let _server = Server::start(command, port, way, settings)?;
                let line = "x".repeat(62);
                requests(port, &line, &line, way, settings)
            }
        }
    }
}

/// What nginx serves, and how, in a directory that goes with this.
struct Site {
    directory: PathBuf,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Site {
    fn new(bytes: usize, caches: bool, port: u16) -> Result<Self, Failure> {
        let directory = std::env::temp_dir().join(format!("ferriband-nginx-{port}"));
        let failed =
            |error: io::Error| Failure::io("write", &directory.display().to_string(), &error);
        fs::create_dir_all(&directory).map_err(failed)?;
        let site = Self {
            directory: directory.clone(),
        };
        fs::write(directory.join("file"), vec![b'x'; bytes]).map_err(failed)?;
        let here = directory.display();
        let cache = if caches {
            "open_file_cache max=16;"
        } else {
            ""
        };
        // one user, where nginx may choose
        let user = match rustix::process::geteuid().is_root() {
            true => "user root;",
            false => "",
        };
        let text = format!(
            "daemon off; {user} worker_processes 1; pid {here}/pid; error_log /dev/null crit;\n\
            events {{ worker_connections 512; }}\n\
            http {{ access_log off; keepalive_requests 1000000000; sendfile on; {cache}\n\
            client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;\n\
            fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;\n\
            server {{ listen 127.0.0.1:{port}; root {here}; }} }}\n"
        );
        fs::write(directory.join("conf"), text).map_err(failed)?;
        Ok(site)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&self.directory);
        command.arg("-c").arg(self.directory.join("conf"));
        command.args(["-e", "/dev/null"]);
        command
    }
}

/// Runs what asks a server, and reads the figure that it prints.
fn asked(
    mut command: Command,
    way: &Way,
    settings: Settings,
    read: impl Fn(&str) -> Option<f64>,
) -> Result<f64, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .envs(way.environment(settings)?)
        .output()
        .map_err(|error| Failure::io("run", &name, &error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    read(&said).ok_or_else(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        Failure::new(format!("{name} gives no figure: {said}{error}"))
    })
}

/// One connection that sends a line and receives up to the end of another, again and again.
fn requests(
    port: u16,
    line: &str,
    answer: &str,
    way: &Way,
    settings: Settings,
) -> Result<f64, Failure> {
    let mut command = Command::new(launch::ferriband()?);
    command.args(["socket-pair", "requests", "--bytes", "0"]);
    command.args(["--peer", &format!("127.0.0.1:{port}")]);
    command.args(["--line", line, "--answer", answer]);
    asked(command, way, settings, |said| said.trim().parse().ok())
}

fn of_wrk(said: &str) -> Option<f64> {
    // answers that are no files are no figure
    let failed = said.lines().any(|line| line.contains("Non-2xx"));
    let mut lines = said.lines().map(str::trim);
    let rate = lines.find_map(|line| line.strip_prefix("Requests/sec:"))?;
    rate.trim().parse().ok().filter(|_| !failed)
}

fn of_iperf3(said: &str) -> Option<f64> {
    let report: serde_json::Value = serde_json::from_str(said).ok()?;
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64()?;
    Some(bits / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let said =
            "Running 1s test\n  10 requests in 1s\nRequests/sec:  12345.67\nTransfer/sec: 1MB\n";
        assert_eq!(of_wrk(said), Some(12345.67));
        let failed = format!("{said}  Non-2xx or 3xx responses: 3\n");
        assert_eq!(of_wrk(&failed), None);
        let report = r#"{"end":{"sum_received":{"bits_per_second":8e9}}}"#;
        assert_eq!(of_iperf3(report), Some(1e9));
        assert_eq!(of_iperf3("iperf3: error"), None);
    }
}
