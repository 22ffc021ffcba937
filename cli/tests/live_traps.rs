//! What ports of a live fabric tell their manager by themselves, with OpenSM's log and unmodified diagnostics as witnesses.

mod fabrics;

use fabrics::{Fabric, OpenSm, eventually, ferriband, is_there, output, text, wait_for_listener};
use std::process::Stdio;

/// True if OpenSM has been told of a trap of this number.
fn has_heard(opensm: &OpenSm, number: u32) -> bool {
    opensm.log().contains(&format!("num:{number} "))
}

/// A counter or a field as perfquery and smpquery show it.
fn value(said: &str, name: &str) -> u64 {
    let line = said.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.rsplit('.').next()?.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no {name} in {said}"))
}

/// A ring of three switches and a host each, with OpenSM at the first host. None where one of the programs is missing, each with its package.
fn ring(programs: &[(&str, &str)]) -> Option<(Fabric, OpenSm)> {
    let own = [("opensm", "opensm"), ("smpquery", "infiniband-diags")];
    let mut needed = own.iter().chain(programs);
    if !needed.all(|(program, package)| is_there(program, package)) {
        return None;
    }
    let fabric = Fabric::up("ring:3:1", &["--manager", "none"]);
    let opensm = fabric.opensm(&fabric.hosts()[0].name, &[]);
    fabric.wait_for_links();
    Some((fabric, opensm))
}

#[test]
fn a_bad_cable_is_told_as_errors_of_integrity_and_one_that_passes_nothing_by_watchdogs() {
    let Some((fabric, opensm)) = ring(&[]) else {
        return;
    };
    let hosts = fabric.hosts();
    let (asks, far) = (&hosts[1], &hosts[2]);
    // the far host's answers are spoilt on their way to its switch, or its questions before
    fabric.say(&["errors", &far.name, "1", "0.7"]);
    let lid = far.lid.to_string();
    let ask = format!("{}/{}", fabric.name, asks.name);
    eventually("OpenSM hears of trap 129", || {
        output(&[
            "run", "--host", &ask, "--", "smpquery", "-t", "20", "nodeinfo", &lid,
        ]);
        has_heard(&opensm, 129)
    });
    fabric.say(&["errors", &far.name, "1", "1"]);
    eventually("OpenSM hears of trap 131", || has_heard(&opensm, 131));
    fabric.say(&["errors", &far.name, "1", "0"]);
    // OpenSM may have taken the host for gone while nothing came through: a link that comes up anew is looked at
    fabric.say(&["link", &far.name, "1", "down"]);
    fabric.say(&["link", &far.name, "1", "up"]);
    fabric.wait_for_links();
    let mut said = String::new();
    eventually("the host answers again", || {
        let output = output(&["run", "--host", &ask, "--", "perfquery", &lid, "1"]);
        said = text(&output.stdout);
        output.status.success()
    });
    assert!(value(&said, "LinkErrorRecoveryCounter") > 0, "{said}");
    // it ends with 1 where there are errors
    let said = text(&output(&["run", "--host", &ask, "--", "ibqueryerrors"]).stdout);
    assert!(said.contains("LocalLinkIntegrityErrors == "), "{said}");
    assert!(said.contains("LinkErrorRecoveryCounter == "), "{said}");
}

#[test]
fn packets_of_another_partition_are_counted_and_told() {
    let programs = [("ibv_rc_pingpong", "ibverbs-utils"), ("python3", "python3")];
    let Some((fabric, opensm)) = ring(&programs) else {
        return;
    };
    let hosts = fabric.hosts();
    let (from, to) = (&hosts[1], &hosts[2]);
    let lid = to.lid.to_string();
    // Set(P_KeyTable): OpenSM leaves every port in the default partition, so the host is told by somebody else that its partition is another one
    let mut mad = mad(1, 2, 0x16);
    mad[64..66].copy_from_slice(&[0x80, 0x05]);
    let server = format!("{}/{}", fabric.name, to.name);
    let client = format!("{}/{}", fabric.name, from.name);
    let mut said = String::new();
    eventually("the client gives up", || {
        // a sweep of OpenSM's may have put the default partition back
        let sent = send(&fabric, &from.name, [to.lid, 0, 0], &mad);
        assert_eq!(sent.trim(), "agent True status 0");
        let mut server = ferriband(&["run", "--host", &server, "--", "ibv_rc_pingpong", "-n", "5"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ferriband runs");
        wait_for_listener(&to.address, 18515);
        let pingpong = ["ibv_rc_pingpong", "-n", "5", to.address.as_str()];
        let ask = [&["run", "--host", client.as_str(), "--"], &pingpong[..]].concat();
        let output = output(&ask);
        let _ = server.kill();
        let _ = server.wait();
        said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        !output.status.success()
    });
    let wanted = "Failed status transport retry counter exceeded (12)";
    assert!(said.contains(wanted), "{said}");
    let said = fabric.run(&from.name, &["smpquery", "portinfo", &lid, "1"]);
    assert!(value(&said, "PkeyViolations") > 0, "{said}");
    eventually("OpenSM hears of trap 257", || has_heard(&opensm, 257));
}

/// Sends a management packet by libibumad.so.3, and waits for its answer: class, LID, queue pair, Q_Key, the packet.
const SEND: &str = r#"
import ctypes, sys
what, lid, qpn, qkey = [int(word) for word in sys.argv[1:5]]
umad = ctypes.CDLL("libibumad.so.3")
umad.umad_size.restype = ctypes.c_size_t
umad.umad_init()
port = umad.umad_open_port(None, 0)
agent = umad.umad_register(port, what, 1, 0, None)
head = umad.umad_size()
packet = ctypes.create_string_buffer(head + 256)
umad.umad_set_addr(packet, lid, qpn, 0, ctypes.c_int(qkey))
ctypes.memmove(ctypes.addressof(packet) + head, bytes.fromhex(sys.argv[5]), 256)
assert umad.umad_send(port, agent, packet, 256, 500, 0) == 0
length = ctypes.c_int(256)
got = umad.umad_recv(port, packet, ctypes.byref(length), 60000)
print("agent", got == agent, "status", umad.umad_status(packet))
"#;

/// Of a class's first version.
fn mad(class: u8, method: u8, attribute: u16) -> [u8; 256] {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, class, 1, method]);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad
}

/// Has a host send it to a LID's queue pair with a Q_Key; what came of it.
fn send(fabric: &Fabric, from: &str, to: [u64; 3], mad: &[u8; 256]) -> String {
    let class = mad[1].to_string();
    let [lid, qpn, qkey] = to.map(|number| number.to_string());
    let bytes: String = mad.iter().map(|byte| format!("{byte:02x}")).collect();
    fabric.run(
        from,
        &["python3", "-c", SEND, &class, &lid, &qpn, &qkey, &bytes],
    )
}

#[test]
fn a_wrong_q_key_is_counted_and_told() {
    let Some((fabric, opensm)) = ring(&[("python3", "python3")]) else {
        return;
    };
    let hosts = fabric.hosts();
    let (from, to) = (&hosts[1], &hosts[2]);
    let lid = to.lid.to_string();
    // Get(ClassPortInfo) of PerfMgt, which the node itself answers
    let ask = |qkey| send(&fabric, &from.name, [to.lid, 1, qkey], &mad(4, 1, 1));
    assert_eq!(ask(0x8001_0000).trim(), "agent True status 0");
    assert_eq!(ask(0x1111_1111).trim(), "agent True status 110");
    let said = fabric.run(&from.name, &["smpquery", "portinfo", &lid, "1"]);
    assert_eq!(value(&said, "QkeyViolations"), 1, "{said}");
    eventually("OpenSM hears of trap 258", || has_heard(&opensm, 258));
}
