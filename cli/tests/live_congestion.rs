//! Congestion control on live fabrics: what managers tell switches and adapters, as unmodified ibccquery reads it; OpenSM with its own configuration; marks that travel with perftest's packets.

mod fabrics;

use fabrics::{Fabric, eventually, ferriband, is_there, text};
use std::process::Stdio;

/// What ibccquery says of a LID, spaces and dots left out.
fn ask(fabric: &Fabric, host: &str, what: &str, lid: u64) -> Vec<(String, String)> {
    let said = fabric.run(host, &["ibccquery", what, &lid.to_string()]);
    let line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim_start_matches('.').trim();
        Some((name.trim().to_owned(), value.to_owned()))
    };
    said.lines().filter_map(line).collect()
}

fn value(said: &[(String, String)], name: &str) -> String {
    let found = said.iter().find(|(own, _)| own == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {said:?}"))
        .1
        .clone()
}

/// The LID of a switch.
fn switch_lid(fabric: &Fabric, host: &str, name: &str) -> u64 {
    let said = fabric.run(host, &["ibswitches"]);
    let line = said
        .lines()
        .find(|line| line.contains(&format!("\"{name}\"")));
    let lid = line.and_then(|line| line.split("lid ").nth(1)?.split(' ').next()?.parse().ok());
    lid.unwrap_or_else(|| panic!("no {name} in {said}"))
}

#[test]
fn our_manager_sets_thresholds_and_tables_and_marks_slow_senders_down() {
    if !is_there("ibccquery", "infiniband-diags") || !is_there("ib_write_bw", "perftest") {
        return;
    }
    // 4x SDR at a hundredth: 10 MB/s
    let fabric = Fabric::up(
        "fat-tree:2x3x1",
        &["--congestion-control", "--rate-scale", "0.01"],
    );
    fabric.wait_for_links();
    let looks = "H0_2";
    let (to, from) = (
        fabric.host("H0_0"),
        [fabric.host("H1_0"), fabric.host("H1_1")],
    );
    let said = ask(&fabric, looks, "CI", to.lid);
    assert_eq!(value(&said, "ControlTableCap"), "8");
    eventually("adapters know how to react", || {
        value(&ask(&fabric, looks, "CS", to.lid), "Control_Map") == "0xffff"
    });
    let said = ask(&fabric, looks, "CT", to.lid);
    assert_eq!(value(&said, "CCTI_Limit"), "127");
    let multipliers = said.iter().filter(|(name, _)| name == "CCT_Multiplier");
    let multipliers: Vec<u32> = multipliers
        .filter_map(|(_, own)| own.parse().ok())
        .collect();
    assert!(
        (0..64).all(|i| multipliers.get(i as usize) == Some(&i)),
        "{multipliers:?}"
    );
    // the switch of the senders, which share its one way up
    let links = fabric.run(looks, &["iblinkinfo", "-l"]);
    let last = links
        .lines()
        .find(|line| line.contains("LinkUp") && line.contains("\"H1_0\""));
    let last = last.and_then(|line| line.split('"').nth(1)).map(str::trim);
    let lid = switch_lid(&fabric, looks, last.expect("a switch"));
    let said = ask(&fabric, looks, "SS", lid);
    assert_eq!(value(&said, "Threshold"), "0x0c");
    assert_ne!(
        value(&said, "Victim_Mask").trim_matches('0'),
        "",
        "{said:?}"
    );
    // two senders to one: marked where they meet, and both hear of it
    let bandwidth = |port: u16| {
        let words = format!("ib_write_bw -F -u 18 -s 16384 -n 800 -p {port}");
        words.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let start = |host: &str, words: &[String]| {
        let host = format!("{}/{host}", fabric.name);
        let run = ferriband(&["run", "--host", &host, "--"])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        run.expect("ferriband runs")
    };
    let mut running = Vec::new();
    for (port, from) in (19_301..).zip(&from) {
        running.push(start(&to.name, &bandwidth(port)));
        fabrics::wait_for_listener(&to.address, port);
        let ask = [bandwidth(port), vec![to.address.clone()]].concat();
        running.push(start(&from.name, &ask));
    }
    for program in running {
        let output = program.wait_with_output().expect("our child");
        assert!(
            output.status.success(),
            "{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
    }
    let said = ask(&fabric, looks, "CL", lid);
    let marked: u32 = value(&said, "LogEventsCounter").parse().expect("a number");
    assert!(marked > 0, "{said:?}");
    for from in &from {
        let said = ask(&fabric, looks, "CL", from.lid);
        let slowed: u32 = value(&said, "ThresholdEventCounter")
            .parse()
            .expect("a number");
        assert!(slowed > 0, "{}: {said:?}", from.name);
    }
    let credits = fabric.status()["credits"]["wrong_lanes"].clone();
    assert_eq!(credits, 0);
}

#[test]
fn opensm_with_congestion_control_configures_switches_and_adapters() {
    if !is_there("opensm", "opensm") || !is_there("ibccquery", "infiniband-diags") {
        return;
    }
    let fabric = Fabric::up("ring:3:1", &["--manager", "none"]);
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join(format!("{}-opensm.conf", fabric.name));
    let wanted = "congestion_control TRUE\ncc_sw_cong_setting_control_map 0x15\ncc_sw_cong_setting_threshold 0x0a\n\
        cc_sw_cong_setting_packet_size 3\ncc_sw_cong_setting_marking_rate 2\ncc_ca_cong_setting_control_map 0x00ff\n\
        cc_ca_cong_setting_ccti_timer 0 33\ncc_ca_cong_setting_ccti_increase 0 4\ncc_cct 0:0,3:1,3:2,3:3\n";
    std::fs::write(&file, wanted).expect("writable");
    let hosts = fabric.hosts();
    let opensm = fabric.opensm(&hosts[0].name, &["-F", file.to_str().expect("text")]);
    fabric.wait_for_links();
    let asks = &hosts[1].name;
    let lid = fabric.host(&hosts[2].name).lid;
    eventually("adapters are configured", || {
        value(&ask(&fabric, asks, "CS", lid), "Control_Map") == "0x00ff"
    });
    let said = ask(&fabric, asks, "CS", lid);
    assert_eq!(value(&said, "CCTI_Timer"), "33", "{}", opensm.log());
    assert_eq!(value(&said, "CCTI_Increase"), "4");
    eventually("their tables are there", || {
        value(&ask(&fabric, asks, "CT", lid), "CCTI_Limit") == "3"
    });
    let switches = fabric.run(asks, &["ibswitches"]);
    let lids = switches
        .lines()
        .filter_map(|line| line.split("lid ").nth(1)?.split(' ').next()?.parse().ok());
    let lids: Vec<u64> = lids.collect();
    assert_eq!(lids.len(), 3, "{switches}");
    for lid in lids {
        eventually("switches are configured", || {
            value(&ask(&fabric, asks, "SS", lid), "Control_Map") == "0x00000015"
        });
        let said = ask(&fabric, asks, "SS", lid);
        let told = ["Threshold", "Packet_Size", "Marking_Rate"].map(|name| value(&said, name));
        assert_eq!(told, ["0x0a", "3", "2"]);
    }
    let _ = std::fs::remove_file(file);
}
