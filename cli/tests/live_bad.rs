//! What is wrong: broken descriptions are refused with a reason, and packets of any bytes change nothing.

mod fabrics;

use fabrics::*;
use ferriband_attach::ask::{Answer, Ask, Registration};
use ferriband_attach::mad::MadHead;
use ferriband_attach::{Link, packet};
use ferriband_wire::{Lid, Qpn};
use std::path::Path;
use std::time::Duration;

const PATIENCE_OF_ROOM: Duration = Duration::from_secs(10);

#[test]
fn broken_descriptions_are_refused_with_a_reason() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bad-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("writable");
    let switch = "Switch 4 \"S0\"\n";
    for (name, written, reason) in [
        ("empty.net", String::new(), "no"),
        ("half.net", "Switch\n".to_owned(), "line 1"),
        ("loop.net", format!("{switch}[1] \"S0\"[1]\n"), "S0"),
        (
            "twice.net",
            format!("{switch}[1] \"H0\"[1]\n[2] \"H0\"[1]\n\nHca 1 \"H0\"\n"),
            "H0",
        ),
        ("nobody.net", format!("{switch}[1] \"H0\"[1]\n"), "H0"),
        (
            "port.net",
            format!("{switch}[9] \"H0\"[1]\n\nHca 1 \"H0\"\n"),
            "9",
        ),
        (
            "guids.net",
            "switchguid=0x10\nSwitch 4 \"S0\"\n[1] \"S1\"[1]\n\nswitchguid=0x10\nSwitch 4 \"S1\"\n"
                .to_owned(),
            "0x",
        ),
        (
            "key.toml",
            "[[switches]]\nname = \"s\"\nports = 8\ncolour = 1\n".to_owned(),
            "colour",
        ),
        ("no.toml", "[[switches]\n".to_owned(), "line 1"),
    ] {
        let file = dir.join(name).display().to_string();
        std::fs::write(&file, written).expect("writable");
        let own = format!("bad-{}", std::process::id());
        let refused = output(&["fabric", "up", &file, "--name", &own]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(reason), "{name}: {said}");
        let nobody = output(&["fabric", "status", "--name", &own]);
        assert!(!nobody.status.success(), "{name}: nothing is up");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn who_brings_up_what_can_block_or_what_its_engine_refuses_is_told() {
    let name = format!("told-{}", std::process::id());
    let up = |words: &[&str]| {
        let more = ["--name", &name, "--background"];
        let up = output(&[&["fabric", "up"], words, &more].concat());
        let status = output(&["fabric", "status", "--name", &name, "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
        (up, status)
    };
    let down = || {
        assert!(
            output(&["fabric", "down", "--name", &name])
                .status
                .success()
        )
    };
    // shortest paths in a ring
    let (told, status) = up(&["ring:5:1"]);
    assert_eq!(told.status.code(), Some(0));
    let said = text(&told.stderr);
    assert!(
        said.contains("warning: packets of hosts can wait") && said.contains("G0 port 1"),
        "{said}"
    );
    assert_eq!(status["warnings"].as_array().map(Vec::len), Some(1));
    down();
    let (told, status) = up(&["ring:5:1", "--engine", "updn"]);
    assert_eq!(
        (told.status.code(), text(&told.stderr)),
        (Some(0), String::new())
    );
    assert_eq!(status["warnings"].as_array().map(Vec::len), Some(0));
    down();
    // no tree
    let (told, status) = up(&["ring:5:1", "--engine", "ftree"]);
    assert_eq!(told.status.code(), Some(1), "{}", text(&told.stdout));
    assert_eq!(status["failed"], true);
    down();
    // a tree that is none any more goes on, by another engine
    let (told, _) = up(&["fat-tree:4x2x3", "--engine", "ftree"]);
    assert_eq!(
        (told.status.code(), text(&told.stderr)),
        (Some(0), String::new())
    );
    let cut = output(&["fabric", "link", "L0", "3", "down", "--name", &name]);
    assert!(cut.status.success(), "{}", text(&cut.stderr));
    let begin = std::time::Instant::now();
    loop {
        let status = output(&["fabric", "status", "--name", &name]);
        let said = text(&status.stdout);
        if said.contains("routed by updn: ftree routes fat trees") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE_OF_ROOM, "{said}");
        std::thread::sleep(Duration::from_millis(20));
    }
    // a signal ends it in good order: its keys go with it
    let status = output(&["fabric", "status", "--name", &name, "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let keys = status["keys"].as_str().expect("a file").to_owned();
    assert!(Path::new(&keys).exists());
    let pid = status["pid"].to_string();
    let killed = std::process::Command::new("kill").arg(&pid).status();
    assert!(killed.expect("kill runs").success());
    let begin = std::time::Instant::now();
    while Path::new(&keys).exists() {
        assert!(begin.elapsed() < PATIENCE_OF_ROOM, "{keys} stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that nobody can foresee but are the same in each run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// A management packet that is almost one: its head makes sense more often than not.
fn almost_a_mad(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = dice.bytes(256);
    if dice.below(8) == 0 {
        let length = dice.below(300) as usize;
        bytes.resize(length, 0);
        return bytes;
    }
    let class = dice.of(&[0x01_u8, 0x81, 0x81, 0x03, 0x04, 0x21, 0x07]);
    let version = if class == 3 { 2 } else { 1 };
    bytes[..4].copy_from_slice(&[
        1,
        class,
        version,
        dice.of(&[1_u8, 2, 2, 3, 5, 6, 7, 0x12, 0x14, 0x15, 0x81]),
    ]);
    bytes[4..8].fill(0);
    let attribute = dice.of(&[
        0x10_u16, 0x11, 0x12, 0x14, 0x15, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x20, 0x30,
        0x35, 0x36, 0x38, 0x02, 0x03,
    ]);
    bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
    bytes[20..24].copy_from_slice(&(dice.below(40) as u32).to_be_bytes());
    if class == 0x81 {
        // hop pointer and count, permissive LIDs, a list of ports
        bytes[6] = if dice.below(8) == 0 {
            dice.below(70) as u8
        } else {
            0
        };
        bytes[7] = if dice.below(8) == 0 {
            dice.next() as u8
        } else {
            dice.below(5) as u8
        };
        if dice.below(8) > 0 {
            bytes[32..36].fill(0xff);
        }
        bytes[128..140].fill_with(|| dice.below(9) as u8);
    }
    bytes
}

/// An agent of a host's for a class.
fn agent(fabric: &str, token: u64, class: u8) -> u32 {
    let register = Ask::Register {
        token,
        agent: Registration {
            class,
            version: if class == 3 { 2 } else { 1 },
            ..Registration::default()
        },
    };
    let answer = Link::dial(fabric).and_then(|link| link.ask(&register));
    let Ok(Answer::Registered { agent }) = answer else {
        panic!("{answer:?}");
    };
    agent
}

#[test]
fn packets_of_any_bytes_change_nothing() {
    let fabric = Fabric::up("ring:3:2", &[]);
    fabric.wait_for_links();
    let hosts = fabric.hosts();
    let is_diagnosed = is_there("dump_lfts", "infiniband-diags");
    let state = || {
        let lids: Vec<(String, u64)> = fabric
            .hosts()
            .iter()
            .map(|host| (host.name.clone(), host.lid))
            .collect();
        let tables = match is_diagnosed {
            true => fabric.run(&hosts[0].name, &["dump_lfts"]),
            false => String::new(),
        };
        (lids, fabric.status()["links"].clone(), tables)
    };
    let before = state();
    let mut dice = Dice(7);
    let link = Link::dial(&fabric.name).expect("it is there");
    let open = Ask::OpenMads {
        host: hosts[1].name.clone(),
        port: 1,
    };
    let Ok(Answer::Opened { token }) = link.ask(&open) else {
        panic!("not opened");
    };
    let agents: Vec<u32> = [0x01, 0x81, 0x03, 0x04]
        .map(|class| agent(&fabric.name, token, class))
        .into();
    for _ in 0..20_000 {
        let bytes = almost_a_mad(&mut dice);
        let head = MadHead {
            agent: dice.of(&agents),
            qpn: Qpn(dice.below(2) as u32),
            lid: Lid(dice.of(&[0, 1, 2, 3, 5, 9, 0xc000, 0xffff])),
            ..MadHead::default()
        };
        link.send(&head.message(&bytes), PATIENCE_OF_ROOM)
            .expect("it is taken");
        // answers are not looked at
        while let Ok(Some(_)) = link.receive(Some(Duration::ZERO)) {}
    }
    let packets = Link::dial(&fabric.name).expect("it is there");
    let open = Ask::OpenPackets {
        host: hosts[2].name.clone(),
        port: 1,
    };
    assert!(matches!(packets.ask(&open), Ok(Answer::Opened { .. })));
    for _ in 0..5_000 {
        let length = dice.below(400) as usize;
        let mut bytes = dice.bytes(length);
        if length >= 16 && dice.below(4) > 0 {
            // an LRH whose length is right, and a VCRC
            let words = ((length - 2) / 4) as u16;
            bytes.truncate(usize::from(words) * 4 + 2);
            let body = bytes.len() - 2;
            bytes[0] = 0;
            bytes[1] = dice.of(&[2, 3, 0x52]);
            bytes[2..4].copy_from_slice(&dice.of(&[1_u16, 2, 5, 9, 0xc000, 0xffff]).to_be_bytes());
            bytes[4..6].copy_from_slice(&words.to_be_bytes());
            let trailer = ferriband_wire::vcrc(&bytes[..body]);
            bytes[body..].copy_from_slice(&trailer.to_le_bytes());
        }
        let mut message = Vec::new();
        packet::push(&mut message, &bytes);
        packets
            .send(&message, PATIENCE_OF_ROOM)
            .expect("it is taken");
    }
    drop((link, packets));
    eventually("all has come to rest", || {
        let credits = &fabric.status()["credits"];
        assert_eq!(credits["wrong_lanes"], 0, "{credits}");
        credits["taken_blocks"] == 0
    });
    assert_eq!(state(), before);
    // and it still does what it is for
    fabric.say(&["link", &hosts[5].name, "1", "down"]);
    fabric.say(&["link", &hosts[5].name, "1", "up"]);
    fabric.wait_for_links();
}
