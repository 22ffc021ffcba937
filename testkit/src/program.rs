//! Programs that a test runs.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long nobody looks whether a program has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// False, with a word about it, if a program of a package of Debian's is not installed.
pub fn is_there(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = places.any(|dir| dir.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed (apt install {package})");
    }
    found
}

/// Runs a program to its end, which must come in time. What it prints is there as far as the
/// command has pipes for it.
pub fn finish(command: &mut Command, patience: Duration) -> Output {
    let mut child = command.spawn().expect("the program starts");
    // It may say more than a pipe holds.
    let stdout = child.stdout.take().map(read);
    let stderr = child.stderr.take().map(read);
    let all = |pipe: Option<JoinHandle<Vec<u8>>>| {
        pipe.map_or(Vec::new(), |pipe| pipe.join().expect("reading"))
    };
    let end = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting for our child") {
            break status;
        }
        if Instant::now() > end {
            child.kill().expect("killing our child");
            child.wait().expect("waiting for our child");
            let name = Path::new(command.get_program()).display();
            panic!("{name} ({command:?}) did not end within {patience:?}");
        }
        std::thread::sleep(PAUSE);
    };
    Output {
        status,
        stdout: all(stdout),
        stderr: all(stderr),
    }
}

/// Reads a pipe to its end, beside the caller.
fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe of our own");
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn what_is_more_than_a_pipe_holds_is_read() {
        let mut command = Command::new("head");
        command
            .args(["-c", "300000", "/dev/zero"])
            .stdout(Stdio::piped());
        let output = finish(&mut command, Duration::from_secs(60));
        assert!(output.status.success());
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 0));
    }

    #[test]
    #[should_panic(expected = "did not end within")]
    fn a_program_that_hangs_is_ended() {
        finish(Command::new("sleep").arg("1000"), Duration::from_millis(50));
    }

    #[test]
    fn programs_are_looked_for_on_the_path() {
        assert!(is_there("sh", "dash"));
        assert!(!is_there("no-program-has-this-name", "nothing"));
    }
}
