//! The small matrix of faults (`scripts/faults --small`): messages go on while links, packets and
//! queue pairs fail.

use super::*;

#[test]
fn messages_go_on_while_things_fail() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/faults");
    let output = Command::new("python3")
        .args([script, "--small", "--json"])
        .env("FERRIBAND", FERRIBAND)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .stdin(Stdio::null())
        .output()
        .expect("python3 runs");
    let complained = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        eprintln!("{complained}");
        return;
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let all: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let cells = all["cells"].as_array().expect("cells");
    assert!(cells.len() >= 6, "{said}");
    for cell in cells {
        assert_eq!(cell["result"], cell["wanted"], "{cell:#}");
    }
    assert!(output.status.success(), "{complained}");
}
