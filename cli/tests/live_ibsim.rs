//! Our manager before ibsim, by the simulator's own sockets.

mod fabrics;

use fabrics::*;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// An ibsim; it goes with the test.
struct Ibsim(Child);

impl Drop for Ibsim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn our_manager_brings_ibsims_subnets_up_again_and_again() {
    if !is_there("ibsim", "ibsim-utils") {
        return;
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ibsim-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("writable");
    let net = dir.join("net").display().to_string();
    good(&["fabric", "make", "fat-tree:4", "-o", &net]);
    let description = std::fs::read_to_string(&net).expect("it was written");
    let names = description.lines().filter(|line| line.starts_with("Ca"));
    let hosts: Vec<&str> = names.filter_map(|line| line.split('"').nth(1)).collect();
    assert_eq!(hosts.len(), 16);
    let name = format!("ferriband-test-{}", std::process::id());
    let mut started = Command::new("ibsim");
    started
        .args(["-s", "-n", &net])
        .env("IBSIM_SOCKNAME", &name)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _ibsim = Ibsim(started.spawn().expect("ibsim runs"));
    eventually("ibsim is there", || {
        let sockets = std::fs::read_to_string("/proc/net/unix").expect("the kernel's table");
        sockets.contains(&format!("@{name}:ctl"))
    });
    let manage = |host: &str| {
        ferriband(&["fabric", "manage", "--ibsim", "--json"])
            .env("IBSIM_SOCKNAME", &name)
            .env("SIM_HOST", host)
            .output()
            .expect("ferriband runs")
    };
    // each gives back the places that it had: ten is all that there are
    for (time, host) in hosts.iter().enumerate() {
        let output = manage(host);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!(
            (&said["switches"], &said["end_ports"]),
            (&20.into(), &16.into())
        );
        assert_eq!(said["trouble"], 0);
        // who is behind each of 48 cables, and four tables at least of each switch
        let requests = said["requests"].as_u64().expect("a number");
        assert!(requests > 48 + 4 * 20, "{time}: {requests}");
    }
    let nobody = manage("nobody");
    assert!(!nobody.status.success());
    let said = text(&nobody.stderr);
    assert!(said.contains("ibsim refuses"), "{said}");
    let _ = std::fs::remove_dir_all(&dir);
}
