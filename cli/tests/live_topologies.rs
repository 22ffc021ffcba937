//! What unmodified diagnostics and our own tools say of the same fabrics: the same.
//!
//! On every fabric that OpenSM was measured on (ib/subnet/tests/oracle), and on a fat tree of our own, these agree: the netlist, `ibnetdiscover`, `iblinkinfo`, `saquery` (nodes, ports, links, switches, forwarding
//! tables, and of fabrics of up to a hundred nodes the path of each pair with its service level), forwarding tables of all switches (`dump_lfts`; of some `ibroute`), the ways of some pairs (`ibtracert`), lanes of two
//! switches (`smpquery sl2vl`, `saquery SL2VL`), `ferriband fabric status`, the tables of `ferriband fabric route`, and those of the engine on paper. Where OpenSM's results are kept entry by entry, the live tables are
//! compared with them as well. Of 3,456 hosts `dump_lfts` and `fabric route` would write 200 MB each; there tables are `saquery`'s and the engine's.

mod fabrics;
mod topologies;

use fabrics::*;
use std::collections::BTreeSet;
use std::path::Path;
use topologies::all_agree;

fn is_all_there() -> bool {
    is_there("dump_lfts", "infiniband-diags") && is_there("saquery", "infiniband-diags")
}

/// The netlists that are kept in ib/subnet/tests/oracle, each by some engines.
const KEPT: [(&str, &[&str]); 7] = [
    ("ring5", &["minhop", "lash"]),
    ("ft2_4x8", &["minhop", "ftree"]),
    ("torus_4x4", &["minhop", "torus-2qos"]),
    ("mesh_4x4", &["minhop", "dor"]),
    ("irr9a", &["minhop", "dfsssp"]),
    ("irr9", &["minhop", "updn"]),
    ("irr128", &["dfsssp"]),
];

#[test]
fn tools_agree_on_every_topology_that_is_kept_here() {
    if !is_all_there() {
        return;
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ib/subnet/tests/oracle");
    let files = std::fs::read_dir(&dir).expect("it is kept here");
    let nets = files.filter(|file| {
        let file = file.as_ref().expect("a file").path();
        file.extension().is_some_and(|kind| kind == "net")
    });
    assert_eq!(nets.count(), KEPT.len());
    for (name, engines) in KEPT {
        let file = dir.join(name).with_extension("net").display().to_string();
        for engine in engines {
            all_agree(&file, engine);
        }
    }
}

fn all_agree_on(shape: &str, engine: &str) {
    if !is_all_there() {
        return;
    }
    let name = format!("{}.net", shape.replace(':', "-"));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file = file.display().to_string();
    good(&["fabric", "make", shape, "-o", &file]);
    all_agree(&file, engine);
    let _ = std::fs::remove_file(&file);
}

#[test]
fn tools_agree_on_a_fat_tree_of_a_thousand_nodes() {
    // 1,084 nodes
    all_agree_on("fat-tree:60x17x4", "minhop");
}

/// Those that OpenSM was measured on (ib/subnet/tests/oracle_topologies.rs has what it made of them).
#[test]
fn tools_agree_on_the_other_fabrics_that_opensm_was_measured_on() {
    for (shape, engine) in [
        ("fat-tree:36x18x18", "ftree"),
        ("torus:8x8:4", "lash"),
        ("torus:6x6x6:4", "torus-2qos"),
        ("dragonfly:8x4x4", "lash"),
        ("fat-tree:24", "ftree"),
    ] {
        all_agree_on(shape, engine);
    }
}

/// A chassis whose two chips have one description, as its maker's switches do, a machine with two adapters, and one with one.
const DISCOVERED: &str = r#"
vendid=0x2c9
devid=0xb924
sysimgguid=0x8f104003f1e28
switchguid=0x8f104003f1e29(8f104003f1e29)
Switch	24 "S-0008f104003f1e29"		# "Infiniscale-III" base port 0 lid 2 lmc 0
[7]	"S-0008f10400411a08"[13]		# "Infiniscale-III" lid 14 4xDDR

vendid=0x2c9
devid=0xc738
sysimgguid=0x8f104003f1e28
switchguid=0x8f10400411a08(8f10400411a08)
Switch	24 "S-0008f10400411a08"		# "Infiniscale-III" base port 0 lid 14 lmc 0
[24]	"H-0002c902002227b8"[1](2c902002227b9) 		# "alpha HCA-1" lid 3 4xDDR
[23]	"H-0002c90200222700"[1](2c90200222701) 		# "beta mlx5_0" lid 4 4xDDR
[22]	"H-0002c90200222710"[1](2c90200222711) 		# "beta mlx5_1" lid 5 4xFDR10
[13]	"S-0008f104003f1e29"[7]		# "Infiniscale-III" lid 2 4xDDR

vendid=0x2c9
devid=0x1017
sysimgguid=0x2c902002227bb
caguid=0x2c902002227b8
Ca	1 "H-0002c902002227b8"		# "alpha HCA-1"
[1](2c902002227b9) 	"S-0008f10400411a08"[24]		# lid 3 lmc 0 "Infiniscale-III" lid 14 4xDDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x2c90200222700
caguid=0x2c90200222700
Ca	1 "H-0002c90200222700"		# "beta mlx5_0"
[1](2c90200222701) 	"S-0008f10400411a08"[23]		# lid 4 lmc 0 "Infiniscale-III" lid 14 4xDDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x2c90200222700
caguid=0x2c90200222710
Ca	1 "H-0002c90200222710"		# "beta mlx5_1"
[1](2c90200222711) 	"S-0008f10400411a08"[22]		# lid 5 lmc 0 "Infiniscale-III" lid 14 4xFDR10
"#;

/// Nodes' blocks of what ibnetdiscover prints, without LIDs, in an order of their own.
fn blocks(text: &str) -> BTreeSet<String> {
    let blocks = text.split("\n\n").filter(|block| block.contains("guid="));
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let plain = |at: &usize| {
            words[*at] != "lid" && (*at == 0 || words[*at - 1] != "lid") && words[*at] != "#"
        };
        let kept = (0..words.len()).filter(plain).map(|at| words[at]);
        kept.collect::<Vec<_>>().join(" ")
    };
    let block = |block: &str| {
        let lines = block.lines().filter(|line| !line.starts_with('#'));
        let lines: BTreeSet<_> = lines.map(line).filter(|line| !line.is_empty()).collect();
        lines.into_iter().collect::<Vec<_>>().join("\n")
    };
    blocks.map(block).collect()
}

#[test]
fn a_discovered_fabric_comes_to_life_as_it_was_discovered() {
    if !is_there("ibnetdiscover", "infiniband-diags") {
        return;
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = dir.join(format!("discovered-{}.net", std::process::id()));
    std::fs::write(&file, DISCOVERED).expect("writable");
    let fabric = Fabric::up(file.to_str().expect("text"), &[]);
    let _ = std::fs::remove_file(&file);
    fabric.wait_for_links();
    // a host by the name that its machine has, and by its adapter's GUID
    let found = fabric.run("alpha", &["ibnetdiscover"]);
    assert_eq!(blocks(&found), blocks(DISCOVERED), "{found}");
    // devices of this maker are asked for more than PortInfo, and what they do not answer is complained of
    let host = format!("{}/alpha", fabric.name);
    for words in [
        &["ibnetdiscover"][..],
        &["ibportstate", "-G", "0x2c902002227b9", "1", "query"],
    ] {
        let asked = output(&[&["run", "--host", &host, "--"], words].concat());
        assert!(
            asked.status.success() && asked.stderr.is_empty(),
            "{words:?}: {}{}",
            text(&asked.stdout),
            text(&asked.stderr)
        );
    }
    let seen = fabric.run(
        "H-0002c902002227b8",
        &["smpquery", "nodeinfo", "-G", "0x2c902002227b9"],
    );
    assert!(
        seen.contains("DevId:...........................0x1017")
            && seen.contains("VendorId:........................0x0002c9"),
        "{seen}"
    );
    let ibstat = fabric.run("alpha", &["ibstat"]);
    assert!(
        ibstat.contains("System image GUID: 0x0002c902002227bb"),
        "{ibstat}"
    );
    let words = fabric.run(
        "alpha",
        &[
            "sh",
            "-c",
            "hostname; cat /sys/class/infiniband/ferri0/node_desc /sys/class/infiniband/ferri0/sys_image_guid; getent hosts alpha; getent ahostsv4 alpha",
        ],
    );
    let address = fabric.host("alpha HCA-1").address;
    let lines: Vec<_> = words.lines().collect();
    assert_eq!(
        lines[..3],
        ["alpha", "alpha HCA-1", "0002:c902:0022:27bb"],
        "{words}"
    );
    assert!(
        lines.len() > 4 && lines[3..].iter().all(|line| line.starts_with(&address)),
        "{words}"
    );
    // two adapters of one machine
    let host = format!("{}/beta", fabric.name);
    let refused = output(&["run", "--host", &host, "--", "true"]);
    let why = text(&refused.stderr);
    assert!(
        !refused.status.success()
            && why.contains("\"beta\" could be \"beta mlx5_0\" or \"beta mlx5_1\""),
        "{why}"
    );
    let own = fabric.run("beta mlx5_1", &["hostname"]);
    assert_eq!(own, "beta mlx5_1\n");
    // a switch whose name is not one of its own
    fabric.say(&["link", "0x8f10400411a08", "24", "down"]);
    assert_eq!(fabric.status()["broken"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_documented_toml_is_a_fabric() {
    let text = include_str!("../../docs/topologies.md");
    let (_, toml) = text.split_once("```toml\n").expect("an example");
    let (toml, _) = toml.split_once("```").expect("its end");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [file, again] = ["documented", "again"].map(|name| {
        let file = dir.join(format!("{name}-{}.toml", std::process::id()));
        file.to_str().expect("text").to_owned()
    });
    std::fs::write(&file, toml).expect("writable");
    let made = good(&["fabric", "make", &file]);
    // four leaves, two spines and the bridge; sixteen hosts and the storage
    assert!(made.starts_with("# switches 7 hcas 17 cables 27"), "{made}");
    good(&["fabric", "make", &file, "-o", &again]);
    // switches first, then the others
    let sorted = |text: &str| {
        text.split("\n\n")
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        sorted(good(&["fabric", "make", &again]).trim()),
        sorted(made.trim())
    );
    let _ = (std::fs::remove_file(file), std::fs::remove_file(again));
}
