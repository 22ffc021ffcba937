//! What a subcommand says when it cannot go on: what happened, to what, and what to do.

use std::fmt;
use std::io;

/// An error that ends a subcommand, with the exit status that goes with it.
#[derive(Debug)]
pub struct Failure {
    what: String,
    remedy: Option<String>,
    /// The exit status of `ferriband`.
    pub exit_status: u8,
}

impl Failure {
    /// A failure with exit status 1. `what` says what happened, to what.
    pub fn new(what: impl Into<String>) -> Self {
        Failure {
            what: what.into(),
            remedy: None,
            exit_status: 1,
        }
    }

    /// The last operating system error, from the attempt to `verb` the `object`.
    pub fn os(verb: &str, object: &str) -> Self {
        Self::io(verb, object, &io::Error::last_os_error())
    }

    /// An I/O error, from the attempt to `verb` the `object`.
    pub fn io(verb: &str, object: &str, error: &io::Error) -> Self {
        let failure = Failure::new(format!("cannot {verb} {object}: {error}"));
        if error.raw_os_error() == Some(libc::EFBIG) {
            return failure.remedy(
                "files may not be so long here, and shared memory is a file to the kernel: raise the limit (ulimit -f)",
            );
        }
        failure
    }

    /// Says what the reader can do about it.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Ends with this exit status instead of 1.
    pub fn status(mut self, exit_status: u8) -> Self {
        self.exit_status = exit_status;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // a file's words may be quoted in it, and a terminal obeys control characters
        for letter in self.what.chars() {
            match letter {
                '\n' | '\t' => write!(f, "{letter}")?,
                letter if letter.is_control() => write!(f, "{}", letter.escape_default())?,
                letter => write!(f, "{letter}")?,
            }
        }
        match &self.remedy {
            Some(remedy) => write!(f, "\n  {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_from_a_file_gives_a_terminal_no_orders() {
        let failure = Failure::new("line 2: \"a\u{1b}[31mb\u{7}\u{9b}é\"\n\tmore");
        let said = failure.to_string();
        assert_eq!(said, "line 2: \"a\\u{1b}[31mb\\u{7}\\u{9b}é\"\n\tmore");
    }
}
