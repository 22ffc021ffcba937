//! Programs that ask a host who it is: libfabric's verbs provider, datagram sockets over queue pairs, and the addresses that sockets have.

mod fabrics;

use fabrics::*;
use ferriband_testkit::{Cc, place};
use std::process::Stdio;

/// libfabric takes the addresses of interfaces that are not the loopback, and binds to localhost to see where an address of its own would be.
#[test]
fn libfabric_finds_a_host_by_its_interface() {
    if !is_there("fi_pingpong", "libfabric-bin") {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let places = [hosts[0].name.as_str(), hosts[2].name.as_str()];
    let packets = || {
        fabric.status()["packets"]["delivered"]
            .as_u64()
            .expect("a number")
    };
    for (provider, endpoint) in [
        ("verbs", "msg"),
        ("verbs;ofi_rxm", "rdm"),
        ("verbs;ofi_rxd", "rdm"),
        ("verbs", "dgram"),
    ] {
        let before = packets();
        let words = ["fi_pingpong", "-p", provider, "-e", endpoint];
        let words = [&words[..], &["-I", "20", "-S", "1024"]].concat();
        let [_, said] = pair(&fabric, places, &hosts[0].address, &words);
        assert!(said.contains("=20"), "{provider} {endpoint}: {said}");
        // to and fro, both ways across the switches
        assert!(packets() >= before + 40, "{provider} {endpoint}");
    }
}

#[test]
fn datagram_sockets_reach_another_host() {
    if !is_there("udpong", "rdmacm-utils") {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let (there, here) = (&hosts[0], &hosts[2]);
    // it serves until somebody ends it, and without an address localhost alone
    let server = ferriband(&["run", "--host", &format!("{}/{}", fabric.name, there.name)])
        .args(["--", "udpong", "-b", &there.address])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ferriband runs");
    let _server = Ending(server);
    wait_for_datagrams(&there.address, 7174);
    let packets = || {
        fabric.status()["packets"]["delivered"]
            .as_u64()
            .expect("a number")
    };
    for how in ["a", "b", "n"] {
        let words = ["udpong", "-s", &there.address, "-T", how];
        let words = [&words[..], &["-C", "200", "-S", "1000"]].concat();
        // until both sides know the way the system's own sockets carry them, which on a busy machine may be all the time
        eventually("datagrams go by the fabric", || {
            let before = packets();
            let said = fabric.run(&here.name, &words);
            assert!(said.contains("custom"), "{said}");
            packets() >= before + 100
        });
    }
}

#[test]
fn a_host_has_one_address_wherever_it_is_asked_for() {
    let fabric = Fabric::up("ring:3:1", &[]);
    let hosts = fabric.hosts();
    let (there, here) = (&hosts[0], &hosts[2]);
    // hostname leaves loopback interfaces out, and has no others than this one
    if is_there("hostname", "hostname") {
        let said = fabric.run(&here.name, &["hostname", "-I"]);
        assert_eq!(said.trim(), here.address);
    }
    // a name is found by the older functions as well
    let old = "print inet_ntoa(scalar gethostbyname($ARGV[0]))";
    let words = ["perl", "-MSocket", "-e", old, &there.name];
    assert_eq!(fabric.run(&here.name, &words), there.address);
    let said = fabric.run(&here.name, &["getent", "hosts", &there.name]);
    assert!(said.starts_with(&there.address), "{said}");
    // who is asked sees from where, streams and datagrams, IPv4 and what IPv6 sees of it
    let serve = "
import socket
for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM)):
    server = socket.socket(family, kind); server.bind(('', 0))
    if kind == socket.SOCK_STREAM: server.listen()
    print(server.getsockname()[1], flush=True)
    if kind == socket.SOCK_STREAM: print(server.accept()[1][0], flush=True)
    else: print(server.recvfrom(1)[1][0], flush=True)
    server.close()
";
    let ask = "
import socket, sys
kind = socket.SOCK_DGRAM if sys.argv[3] == 'dgram' else socket.SOCK_STREAM
client = socket.socket(socket.AF_INET, kind); client.connect((sys.argv[1], int(sys.argv[2])))
client.send(b'x'); print(client.getsockname()[0])
";
    let mut server = ferriband(&["run", "--host", &format!("{}/{}", fabric.name, there.name)])
        .args(["--", "python3", "-c", serve])
        .stdout(Stdio::piped())
        .spawn()
        .expect("ferriband runs");
    let said = server.stdout.take().expect("a pipe");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(said));
    let mut line = || lines.next().expect("a line").expect("text");
    for kind in ["stream", "stream", "dgram"] {
        let port = line();
        let words = ["python3", "-c", ask, &there.address, &port, kind];
        let own = fabric.run(&here.name, &words);
        assert_eq!(own.trim(), here.address);
        assert_eq!(line().trim_start_matches("::ffff:"), here.address);
    }
    assert!(server.wait().expect("our child").success());
}

/// Servers of equal host numbers and ports, each reached by its own fabric's hosts.
#[test]
fn two_fabrics_at_once_do_not_meet() {
    let one = Fabric::up("ring:3:1", &[]);
    let mut other = one.and_another("ring:3:1", &[]);
    let serve = "
import socket, sys
server = socket.socket(); server.bind(('', 39471)); server.listen(); print('there', flush=True)
server.accept()[0].send(sys.argv[1].encode())
";
    let ask = "
import socket, sys
print(socket.create_connection((sys.argv[1], 39471)).makefile().read(), socket.gethostbyname(sys.argv[1]))
";
    let [there, here] = [0, 2].map(|place| one.hosts().swap_remove(place).name);
    let mut servers = Vec::new();
    for fabric in [&one, &other] {
        let host = format!("{}/{there}", fabric.name);
        let mut server = ferriband(&["run", "--host", &host, "--", "python3", "-c", serve])
            .arg(&fabric.name)
            .stdout(Stdio::piped())
            .spawn()
            .expect("ferriband runs");
        let said = server.stdout.take().expect("a pipe");
        servers.push(Ending(server));
        let line = std::io::BufRead::lines(std::io::BufReader::new(said)).next();
        assert_eq!(line.expect("a line").expect("text"), "there");
    }
    for fabric in [&one, &other] {
        let said = fabric.run(&here, &["python3", "-c", ask, &there]);
        let address = fabric.host(&there).address;
        assert_eq!(said.trim(), format!("{} {address}", fabric.name));
    }
    // whatever ends a fabric's process, its addresses are free then
    let address: std::net::Ipv4Addr = other.host(&there).address.parse().expect("an address");
    let claim = format!("@ferriband/addresses-1/{}", address.octets()[1] - 64);
    let is_claimed = || {
        let sockets = std::fs::read("/proc/net/unix").expect("the kernel's table");
        let mut lines = String::from_utf8_lossy(&sockets).into_owned();
        lines.push('\n');
        lines.contains(&format!("{claim}\n"))
    };
    assert!(is_claimed());
    other.process.kill().expect("our child");
    other.process.wait().expect("our child");
    eventually("its claim is gone", || !is_claimed());
}

#[test]
fn children_and_few_descriptors_beside_management_calls() {
    let fabric = Fabric::up("ring:3:2", &[]);
    fabric.wait_for_links();
    let program = Cc::new(place!(), "umad_forks", "umad-forks")
        .options(["-O1"])
        .on_libraries()
        .links(["-libumad", "-lpthread"])
        .compile();
    let host = format!("{}/{}", fabric.name, fabric.hosts()[0].name);
    let path = program.to_str().expect("our names are text");
    let said = output(&["run", "--host", &host, "--", path]);
    assert!(said.status.success(), "{said:?}");
}
