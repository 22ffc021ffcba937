//! What ranks write: passed on in whole lines, so that those of different ranks do not mix.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

/// A line that is longer is passed on in parts.
const LONGEST: usize = 1 << 16;

/// Where a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// One stream of a rank.
pub struct Stream<R> {
    from: Option<R>,
    to: To,
    rest: Vec<u8>,
    has_come: bool,
}

impl<R: Read + AsRawFd> Stream<R> {
    /// What comes from `from` goes to `to`.
    pub fn new(from: Option<R>, to: To) -> Self {
        Self {
            from,
            to,
            rest: Vec::new(),
            has_come: false,
        }
    }

    /// What is readable when something has come; none after its end.
    pub fn fd(&self) -> Option<RawFd> {
        self.from.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Whether the first bytes have come.
    pub fn is_first(&self, is_ready: &impl Fn(RawFd) -> bool) -> bool {
        !self.has_come && self.fd().is_some_and(is_ready)
    }

    /// Whether an unfinished line waits.
    pub fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Reads what has come, and passes on whole lines.
    pub fn relay(&mut self, prefix: &str) -> io::Result<()> {
        let mut bytes = [0; 16384];
        let Some(from) = &mut self.from else {
            return Ok(());
        };
        match from.read(&mut bytes) {
            Ok(0) => {
                self.from = None;
                self.flush(prefix)
            }
            Ok(count) => {
                self.has_come = true;
                self.rest.extend_from_slice(&bytes[..count]);
                let whole = match self.rest.iter().rposition(|byte| *byte == b'\n') {
                    Some(at) => at + 1,
                    None if self.rest.len() > LONGEST => self.rest.len(),
                    None => return Ok(()),
                };
                let lines: Vec<u8> = self.rest.drain(..whole).collect();
                self.show(&lines, prefix)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) =>
            {
                Ok(())
            }
            Err(_) => {
                self.from = None;
                self.flush(prefix)
            }
        }
    }

    /// Passes on an unfinished line.
    pub fn flush(&mut self, prefix: &str) -> io::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            Ok(())
        } else {
            self.show(&rest, prefix)
        }
    }

    fn show(&self, lines: &[u8], prefix: &str) -> io::Result<()> {
        let text = tagged(lines, prefix);
        match self.to {
            To::Out => {
                let mut out = io::stdout().lock();
                out.write_all(&text).and_then(|()| out.flush())
            }
            // What cannot be said there is lost, as it is to a program whose own standard error that is.
            To::Err => match io::stderr().lock().write_all(&text) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Ok(()),
                written => written,
            },
        }
    }
}

/// Each line with the prefix before it.
fn tagged(lines: &[u8], prefix: &str) -> Vec<u8> {
    if prefix.is_empty() {
        return lines.to_vec();
    }
    let mut text = Vec::with_capacity(lines.len() * 2);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        text.extend_from_slice(prefix.as_bytes());
        text.extend_from_slice(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_prefix() {
        assert_eq!(tagged(b"a\nb\n", "[1] "), b"[1] a\n[1] b\n");
        assert_eq!(tagged(b"a", "[1] "), b"[1] a");
        assert_eq!(tagged(b"a\n", ""), b"a\n");
    }
}
