//! What processes write down for people who ask later, when the process is usually gone: lines of a
//! file in the user's own directory, to which many processes append.
//!
//! Owns: the file, which is of bounded size ([`FILE_BYTES`], with one older file of the same
//! bound), how many lines a process may write ([`Budget`]), and who a process is. Where nothing can
//! be written nothing happens. Must not know: what a line says.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes that a file may reach; there are at most two of them.
pub const FILE_BYTES: u64 = 64 << 10;
/// Longest line.
pub const LINE_BYTES: usize = 8 << 10;
/// Attempts to get hold of the file while others move it away.
const ATTEMPTS: usize = 8;
/// open(2)'s flags: not by a symbolic link, and a pipe that somebody put there does not stop us.
const O_NOFOLLOW: i32 = 0o400000;
const O_NONBLOCK: i32 = 0o4000;
/// Lines that a process writes within [`WINDOW_S`]: a thousand connections that lose their peer
/// make a thousand of the same.
pub const MOST: u32 = 16;
/// See [`MOST`], in seconds.
pub const WINDOW_S: u64 = 10;
/// Longest name of a program.
const NAME_CHARS: usize = 64;

/// Our directory below one that the environment names, or below the home's `else_in`; None if it
/// names neither.
pub fn directory(variable: &str, else_in: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(else_in)))
        .map(|dir| dir.join("ferriband"))
}

/// The directory of notes; None if the environment names no home.
pub fn state_directory() -> Option<PathBuf> {
    directory("XDG_STATE_HOME", ".local/state")
}

/// The program runs with its user's rights and no others, so its environment is its user's.
pub fn is_own_user() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    getuid() == geteuid() && getgid() == getegid()
}

/// Name of a process's program: what it was called by, without directories.
pub fn program_of(pid: u32) -> Option<String> {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = arguments.split(|byte| *byte == 0).next()?;
    let name = String::from_utf8_lossy(first.rsplit(|byte| *byte == b'/').next()?).into_owned();
    let name: String = name
        .chars()
        .filter(|letter| !letter.is_control())
        .take(NAME_CHARS)
        .collect();
    (!name.is_empty()).then_some(name)
}

/// When a process began, in clock ticks since the machine did: with its number it names one process
/// (proc_pid_stat(5), field 22). None if there is no such process.
pub fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may have any letters.
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(19)?.parse().ok()
}

/// How much a process has written lately.
#[derive(Debug, Default)]
pub struct Budget {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Budget {
    /// Nothing was written.
    pub const fn new() -> Self {
        Self {
            since: None,
            written: 0,
            left_out: 0,
        }
    }

    /// How many were left out before this one; None if it is left out, too.
    pub fn take(&mut self, now: Instant) -> Option<u64> {
        if self
            .since
            .is_none_or(|since| now.duration_since(since).as_secs() >= WINDOW_S)
        {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written >= MOST {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Appends a line to the file `name` in a directory, which is made if need be. What is older than
/// [`FILE_BYTES`] moves to `name.old`, once.
///
/// # Errors
/// What the system says: the directory cannot be made or written, somebody else has it; the line is
/// too long, or is several. Nothing is half written.
pub fn append(directory: &Path, name: &str, line: &[u8]) -> io::Result<()> {
    if line.len() >= LINE_BYTES || line.contains(&b'\n') {
        return Err(io::Error::other("this is no line of the file"));
    }
    let mut line = line.to_vec();
    line.push(b'\n');
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let path = directory.join(name);
    for _ in 0..ATTEMPTS {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW | O_NONBLOCK)
            .open(&path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("what should be the file is none"));
        }
        // Whoever holds it may be stopped: without the lock a line is still whole, only the moving
        // away is left to others.
        let locked = file.try_lock().is_ok();
        if locked && found.len() > 0 && found.len() + line.len() as u64 > FILE_BYTES {
            // It may have been moved away before it was locked.
            if std::fs::metadata(&path).is_ok_and(|now| now.ino() == found.ino()) {
                std::fs::rename(&path, directory.join(format!("{name}.old")))?;
            }
            continue;
        }
        if !locked && found.len() > 2 * FILE_BYTES {
            return Err(io::Error::other("the file is full, and locked"));
        }
        return file.write_all(&line);
    }
    Err(io::Error::other("the file changes all the time"))
}

/// The lines of `name.old` and `name` that are not empty, oldest first. Nothing if there is no such
/// file.
///
/// # Errors
/// A file is there and cannot be read.
pub fn read(directory: &Path, name: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    for name in [&format!("{name}.old"), name] {
        let file = match File::open(directory.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(4 * FILE_BYTES).read_to_end(&mut text)?;
        let found = text.split(|byte| *byte == b'\n');
        lines.extend(found.filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_testkit::Scratch;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    #[test]
    fn lines_are_read_as_they_were_written_by_their_owner_alone() {
        let scratch = Scratch::directory("notes");
        let directory = scratch.path().join("state/ferriband");
        append(&directory, "of", b"one").unwrap();
        append(&directory, "of", b"two words").unwrap();
        append(&directory, "of", b"two\nlines").unwrap_err();
        append(&directory, "of", &[b'x'; LINE_BYTES]).unwrap_err();
        assert_eq!(
            read(&directory, "of").unwrap(),
            [&b"one"[..], b"two words"].map(<[u8]>::to_vec)
        );
        assert!(read(&directory, "other").unwrap().is_empty());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join("of")), 0o600);
    }

    #[test]
    fn the_newest_are_kept_within_two_files_of_bounded_size() {
        let directory = Scratch::directory("rotated-notes");
        let line = |number: u64| format!("{number:0200}").into_bytes();
        let count = 4 * FILE_BYTES / 201;
        for number in 0..count {
            append(directory.path(), "of", &line(number)).unwrap();
        }
        let kept = read(directory.path(), "of").unwrap();
        let first = count - kept.len() as u64;
        let expected: Vec<_> = (first..count).map(line).collect();
        assert_eq!(kept, expected);
        assert!(kept.len() as u64 * 201 > FILE_BYTES);
        for name in ["of", "of.old"] {
            assert!(
                std::fs::metadata(directory.path().join(name))
                    .unwrap()
                    .len()
                    <= FILE_BYTES
            );
        }
    }

    #[test]
    fn a_link_or_a_pipe_in_the_place_of_the_file_is_refused() {
        let directory = Scratch::directory("linked-notes");
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, "").unwrap();
        std::os::unix::fs::symlink(&elsewhere, directory.path().join("of")).unwrap();
        append(directory.path(), "of", b"one").unwrap_err();
        assert_eq!(std::fs::read(&elsewhere).unwrap(), b"");
        append(Path::new("/proc/self/nowhere"), "of", b"one").unwrap_err();
    }

    #[test]
    fn a_process_writes_few_at_a_time_and_says_how_many_it_left_out() {
        let mut budget = Budget::new();
        let begin = Instant::now();
        let taken = (0..MOST + 5).filter_map(|_| budget.take(begin)).count();
        assert_eq!(taken, MOST as usize);
        let later = begin + Duration::from_secs(WINDOW_S);
        assert_eq!(budget.take(later), Some(5));
        assert_eq!(budget.take(later), Some(0));
    }

    #[test]
    fn a_process_is_known_by_its_name_and_its_beginning() {
        let own = std::process::id();
        let name = program_of(own).unwrap();
        assert!(name.starts_with("ferriband_notes") && !name.contains('/'));
        assert!(started(own).unwrap() > 0);
        assert_eq!(started(own), started(own));
        assert_eq!(started(u32::MAX), None);
    }
}
