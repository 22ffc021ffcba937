//! The text of the process management interface, versions 1 and 2: what a rank says to the process
//! manager that has started it, and what the process manager answers.
//!
//! Owns: the form of commands and replies. Must not know: the socket that carries them, what the
//! values mean. A connection of either version begins with a line of version 1, in which the rank
//! says which version it speaks. Replies are read by key, because process managers differ in the
//! order and number of fields. Any bytes may come from a socket, so none are trusted.

#![forbid(unsafe_code)]

/// Bytes of the longest command or reply that is taken.
pub const LONGEST: usize = 16384;
/// Bytes before a message of version 2: its length in decimal digits, with spaces before them.
pub const LENGTH: usize = 6;
/// Characters of the longest key that every process manager takes.
pub const LONGEST_KEY: usize = 63;
/// Characters of the longest value that every process manager takes.
pub const LONGEST_VALUE: usize = 1000;

/// A version of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Lines of words.
    One,
    /// A length, then fields that end in semicolons.
    Two,
}

/// A command: its name and its fields.
#[derive(Clone, Debug)]
pub struct Command {
    name: &'static str,
    fields: Vec<(&'static str, String)>,
}

impl Command {
    /// A command without fields.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            fields: Vec::new(),
        }
    }

    /// With one more field.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.fields.push((key, value.to_string()));
        self
    }

    /// The command's bytes. A value of version 1 cannot have spaces: they become underlines.
    pub fn emit(&self, version: Version) -> Vec<u8> {
        match version {
            Version::One => {
                let mut line = format!("cmd={}", self.name);
                for (key, value) in &self.fields {
                    let value: String = value
                        .chars()
                        .map(|one| if one.is_whitespace() { '_' } else { one })
                        .collect();
                    line.push_str(&format!(" {key}={value}"));
                }
                line.push('\n');
                line.into_bytes()
            }
            Version::Two => {
                let mut body = format!("cmd={};", self.name);
                for (key, value) in &self.fields {
                    body.push_str(&format!("{key}={};", value.replace(';', ";;")));
                }
                format!("{:>LENGTH$}{body}", body.len()).into_bytes()
            }
        }
    }
}

/// A message: its fields. Its name is the field `cmd`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    fields: Vec<(String, String)>,
}

/// What has come so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// A message, and how many of the bytes are its own.
    Message(Message, usize),
    /// It is not whole.
    NotYet,
    /// It is no reply, or longer than any may be.
    Nonsense,
}

impl Message {
    /// The first reply in `bytes`.
    pub fn take(bytes: &[u8], version: Version) -> Taken {
        let found = match version {
            Version::One => bytes.iter().position(|byte| *byte == b'\n').map(|end| {
                let line = String::from_utf8_lossy(&bytes[..end]);
                Some((Self::line(&line), end + 1))
            }),
            Version::Two => bytes.get(..LENGTH).and_then(|digits| {
                let length = std::str::from_utf8(digits).ok();
                let length = length.and_then(|text| text.trim().parse::<usize>().ok());
                let Some(length) = length.filter(|length| *length <= LONGEST) else {
                    return Some(None);
                };
                let body = bytes.get(LENGTH..LENGTH + length)?;
                Some(Some((Self::fields(body), LENGTH + length)))
            }),
        };
        match found {
            Some(Some((reply, length))) => Taken::Message(reply, length),
            None if bytes.len() < LENGTH + LONGEST => Taken::NotYet,
            _ => Taken::Nonsense,
        }
    }

    /// Reads a line of words `key=value`. A word without an equals sign belongs to the value before
    /// it, after a space.
    pub fn line(text: &str) -> Self {
        let mut fields: Vec<(String, String)> = Vec::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    fields.push((key.to_owned(), value.to_owned()));
                }
                // Of a text with spaces, as in `msg=no such key`.
                _ => {
                    if let Some((_, value)) = fields.last_mut() {
                        value.push(' ');
                        value.push_str(word);
                    }
                }
            }
        }
        Self { fields }
    }

    /// Reads fields that end in one semicolon each. Two semicolons are one of the value's.
    fn fields(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let mut fields = Vec::new();
        let mut field = String::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            if letter != ';' {
                field.push(letter);
            } else if letters.peek() == Some(&';') {
                letters.next();
                field.push(';');
            } else {
                let whole = std::mem::take(&mut field);
                if let Some((key, value)) = whole.split_once('=') {
                    fields.push((key.to_owned(), value.to_owned()));
                }
            }
        }
        Self { fields }
    }

    /// The value of a field.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The name of the command or reply; empty if there is none.
    pub fn name(&self) -> &str {
        self.get("cmd").unwrap_or_default()
    }

    /// Whether the process manager did what it was asked for. A reply without a status says so.
    pub fn is_good(&self) -> bool {
        self.get("rc").is_none_or(|code| code == "0")
    }

    /// The value of a field that is a number.
    pub fn number(&self, key: &str) -> Option<u32> {
        self.get(key)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reply(fields: &[(&str, &str)]) -> Message {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Message {
            fields: fields.iter().map(owned).collect(),
        }
    }

    #[test]
    fn commands_have_the_form_of_their_version() {
        let put = Command::new("put").with("key", "a").with("value", "b;c d");
        assert_eq!(put.emit(Version::One), b"cmd=put key=a value=b;c_d\n");
        assert_eq!(put.emit(Version::Two), b"    27cmd=put;key=a;value=b;;c d;");
    }

    #[test]
    fn replies_are_read_by_key() {
        let line = b"cmd=get_result rc=-1 msg=no such key value=x\ncmd=barrier_out\n";
        let expected = reply(&[
            ("cmd", "get_result"),
            ("rc", "-1"),
            ("msg", "no such key"),
            ("value", "x"),
        ]);
        assert!(!expected.is_good());
        assert_eq!(
            Message::take(line, Version::One),
            Taken::Message(expected, 45)
        );
        let Taken::Message(second, 16) = Message::take(&line[45..], Version::One) else {
            panic!("the second reply is whole");
        };
        assert!(second.name() == "barrier_out" && second.is_good());
        let two = b"    31cmd=x-response;value=a;;b;rc=0;    ";
        let expected = reply(&[("cmd", "x-response"), ("value", "a;b"), ("rc", "0")]);
        assert_eq!(
            Message::take(two, Version::Two),
            Taken::Message(expected, 37)
        );
    }

    #[test]
    fn what_is_not_whole_waits_and_nonsense_ends() {
        assert_eq!(Message::take(b"cmd=x", Version::One), Taken::NotYet);
        assert_eq!(Message::take(b"   1", Version::Two), Taken::NotYet);
        assert_eq!(Message::take(b"    10cmd=x;", Version::Two), Taken::NotYet);
        assert_eq!(Message::take(b"hello cmd", Version::Two), Taken::Nonsense);
        assert_eq!(Message::take(b"999999", Version::Two), Taken::Nonsense);
        let endless = vec![b'x'; LENGTH + LONGEST];
        assert_eq!(Message::take(&endless, Version::One), Taken::Nonsense);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for version in [Version::One, Version::Two] {
                if let Taken::Message(_, length) = Message::take(&bytes, version) {
                    prop_assert!(length <= bytes.len());
                }
            }
        }

        #[test]
        fn a_value_comes_back_from_version_two(value in "[ -~]{0,80}") {
            let bytes = Command::new("put").with("value", &value).emit(Version::Two);
            let Taken::Message(reply, length) = Message::take(&bytes, Version::Two) else {
                panic!("it is whole");
            };
            prop_assert_eq!(length, bytes.len());
            prop_assert_eq!(reply.get("value"), Some(value.as_str()));
        }
    }
}
