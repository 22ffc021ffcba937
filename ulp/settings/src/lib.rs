//! What a user may set of an upper protocol: one table for the library that obeys and for the
//! tools that show it.
//!
//! Owns: what a row of a table is ([`Setting`]), the form of the settings file, which source wins
//! ([`Values`]), and what is said of a value that means nothing. Must not know: which settings
//! there are, which each protocol says in a [`Table`] of its own; the environment and the file
//! system, which are handed in.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A longer settings file is not read.
pub const LONGEST_FILE: u64 = 65536;

/// The settings of one upper protocol.
#[derive(Debug)]
pub struct Table {
    /// Each setting is the variable with this before its name in capitals.
    pub prefix: &'static str,
    /// The variable that names another settings file than the user's own; empty: none is read.
    pub file_variable: &'static str,
    /// The settings file, below the user's directory of configurations (XDG_CONFIG_HOME, else
    /// ~/.config).
    pub file: &'static str,
    /// The command that lists them.
    pub shown_by: &'static str,
    /// Variables with the prefix that no user sets.
    pub reserved: &'static [&'static str],
    /// The settings; those of one subject stand together.
    pub rows: &'static [Setting],
}

impl Table {
    /// Where the settings file is, by what the environment says: the file that was named,
    /// XDG_CONFIG_HOME, HOME. None: none is read.
    pub fn path(
        &self,
        named: Option<&str>,
        config: Option<&str>,
        home: Option<&str>,
    ) -> Option<String> {
        let file = self.file;
        match (named, config, home) {
            (Some(""), ..) => None,
            (Some(named), ..) => Some(named.to_owned()),
            (None, Some(config), _) if config.starts_with('/') => Some(format!("{config}/{file}")),
            (None, _, Some(home)) if home.starts_with('/') => {
                Some(format!("{home}/.config/{file}"))
            }
            (None, ..) => None,
        }
    }

    /// The variable of a setting.
    pub fn variable(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.to_ascii_uppercase())
    }

    /// The value of each setting where nobody has set any.
    pub fn defaults(&'static self) -> Values {
        let value = |setting: &Setting| (setting.default.to_owned(), From::Default);
        Values {
            table: self,
            values: self.rows.iter().map(value).collect(),
            strangers: Vec::new(),
        }
    }

    /// The defaults, then what the file says, then the environment. `file` is its name and text;
    /// `environment` all variables.
    ///
    /// # Errors
    /// The first value that means nothing, with those that do.
    pub fn read(
        &'static self,
        file: Option<(&str, &str)>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Values, Wrong> {
        let mut values = self.defaults();
        if let Some((name, text)) = file {
            values.read_file(name, text)?;
        }
        for (variable, value) in environment {
            let Some(name) = variable.strip_prefix(self.prefix) else {
                continue;
            };
            if variable == self.file_variable || self.reserved.contains(&variable.as_str()) {
                continue;
            }
            let known = self
                .place(&name.to_ascii_lowercase())
                .filter(|_| !name.bytes().any(|byte| byte.is_ascii_lowercase()));
            match known {
                Some(at) => values.set_at(at, &value, From::Environment, &variable)?,
                None => values
                    .strangers
                    .push(self.stranger(&variable, self.prefix, name)),
            }
        }
        Ok(values)
    }

    /// Says which row cannot be one: a default that is no value, a name twice or of other letters,
    /// a subject whose rows stand apart. For the tests of those who make tables.
    ///
    /// # Errors
    /// The first such row, in words.
    pub fn check(&self) -> Result<(), String> {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        for (at, setting) in self.rows.iter().enumerate() {
            let name = setting.name;
            let first = |other: &Setting| other.about == setting.about;
            let first = self.rows.iter().position(first).unwrap_or(at);
            let wrong = if !setting.kind.takes(setting.default) {
                "its default is no value of its kind"
            } else if self.place(name) != Some(at) {
                "it is there twice"
            } else if !setting.help.ends_with('.') {
                "its help is no sentence"
            } else if !name.bytes().all(is_letter) {
                "its name has letters that a variable's name has not"
            } else if self.reserved.contains(&self.variable(name).as_str()) {
                "its variable is reserved"
            } else if self.rows[first..=at]
                .iter()
                .any(|other| other.about != setting.about)
            {
                "it stands apart from others of its subject"
            } else {
                continue;
            };
            return Err(format!("{name}: {wrong}"));
        }
        Ok(())
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.rows.iter().position(|setting| setting.name == name)
    }

    /// What is said of a name that is no setting; the likeliest that was meant.
    fn stranger(&self, named: &str, prefix: &str, name: &str) -> String {
        let name = name.to_ascii_lowercase();
        let near = self
            .rows
            .iter()
            .map(|setting| (distance(setting.name, &name), setting.name))
            .min()
            .filter(|(distance, _)| *distance <= 2);
        match near {
            Some((_, near)) if prefix.is_empty() => {
                format!("{named} is no setting; is {near} meant?")
            }
            Some((_, near)) => {
                format!("{named} is no setting; is {} meant?", self.variable(near))
            }
            None => format!("{named} is no setting; `{}` lists them", self.shown_by),
        }
    }
}

/// A file of the user's, named below the directory of configurations: XDG_CONFIG_HOME, if it is
/// absolute, or `~/.config`. None where there is no such directory.
pub fn user_file(name: &str, config_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(PathBuf::from);
    let directory = given(config_home).filter(|path| path.is_absolute());
    let directory = directory.or_else(|| Some(given(home)?.join(".config")))?;
    Some(directory.join(name))
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name, in small letters, as in the file.
    pub name: &'static str,
    /// What it is about: settings of one subject stand together.
    pub about: &'static str,
    /// Which values it takes.
    pub kind: Kind,
    /// The value where nothing is set.
    pub default: &'static str,
    /// What it does, in a sentence or two.
    pub help: &'static str,
}

/// Which values a setting takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// 0 or 1.
    Flag,
    /// A number.
    Number(RangeInclusive<u64>),
    /// A number of bytes: K, M and G after it count in powers of 1024.
    Bytes(RangeInclusive<u64>),
    /// Bytes, and a power of two.
    Power(RangeInclusive<u64>),
    /// Bytes, or one of these words.
    BytesOr(RangeInclusive<u64>, &'static [&'static str]),
    /// A power of two of bytes, or this word.
    PowerOr(RangeInclusive<u64>, &'static str),
    /// Any text; what it means is for its owner to say.
    Text,
}

impl Kind {
    /// The number that `text` is of a kind that has one.
    pub fn number(&self, text: &str) -> Option<u64> {
        let (range, counts_bytes) = match self {
            Self::Number(range) => (range, false),
            Self::Bytes(range) | Self::BytesOr(range, _) => (range, true),
            Self::Power(range) | Self::PowerOr(range, _) => (range, true),
            Self::Flag => (&(0..=1), false),
            Self::OneOf(_) | Self::Text => return None,
        };
        let shift = match text.bytes().last() {
            Some(b'K' | b'k') if counts_bytes => 10,
            Some(b'M' | b'm') if counts_bytes => 20,
            Some(b'G' | b'g') if counts_bytes => 30,
            _ => 0,
        };
        let digits = if shift == 0 {
            text
        } else {
            &text[..text.len() - 1]
        };
        let number = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
        let fits = !matches!(self, Self::Power(_) | Self::PowerOr(..)) || number.is_power_of_two();
        (fits && range.contains(&number)).then_some(number)
    }

    /// Whether `text` is a value.
    pub fn takes(&self, text: &str) -> bool {
        match self {
            Self::OneOf(words) => words.contains(&text),
            Self::Text => true,
            Self::PowerOr(_, word) if *word == text => true,
            Self::BytesOr(_, words) if words.contains(&text) => true,
            _ => self.number(text).is_some(),
        }
    }
}

impl fmt::Display for Kind {
    /// The values that it takes, as the end of "it can be ..".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(words) => f.write_str(&words.join(" or ")),
            Self::Flag => f.write_str("0 or 1"),
            Self::Number(range) => {
                write!(f, "a number from {} to {}", range.start(), range.end())
            }
            Self::Bytes(range) => write!(f, "bytes from {} to {}", range.start(), range.end()),
            Self::BytesOr(range, words) => {
                let (least, most) = (range.start(), range.end());
                write!(f, "{} or bytes from {least} to {most}", words.join(" or "))
            }
            Self::Power(range) => {
                write!(
                    f,
                    "a power of two from {} to {}",
                    range.start(),
                    range.end()
                )
            }
            Self::PowerOr(range, word) => {
                let (least, most) = (range.start(), range.end());
                write!(f, "{word} or a power of two from {least} to {most}")
            }
            Self::Text => f.write_str("any text"),
        }
    }
}

/// Where a value comes from. A later one wins over an earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum From {
    /// Nobody set it.
    Default,
    /// The settings file.
    File,
    /// The environment.
    Environment,
    /// A tool's arguments.
    CommandLine,
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::CommandLine => "command line",
        })
    }
}

/// A value that means nothing, in words for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of each setting, and where it is from.
#[derive(Clone, Debug)]
pub struct Values {
    table: &'static Table,
    values: Vec<(String, From)>,
    /// What is set and no setting, in words.
    pub strangers: Vec<String>,
}

impl Values {
    /// Sets one by name, as a tool's argument does.
    ///
    /// # Errors
    /// There is no such setting, or the value means nothing.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        let at = self
            .table
            .place(name)
            .ok_or_else(|| Wrong(self.table.stranger(name, "", name)))?;
        self.set_at(at, value, From::CommandLine, name)
    }

    fn set_at(&mut self, at: usize, value: &str, from: From, named: &str) -> Result<(), Wrong> {
        let kind = &self.table.rows[at].kind;
        if !kind.takes(value) {
            return Err(Wrong(format!("{named}={value}: it can be {kind}")));
        }
        self.values[at] = (value.to_owned(), from);
        Ok(())
    }

    /// Lines `name = value`; what comes after # is for people.
    fn read_file(&mut self, file: &str, text: &str) -> Result<(), Wrong> {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let here = |text: &str| Wrong(format!("{file}, line {number}: {text}"));
            let (name, value) = line
                .split_once('=')
                .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
                .ok_or_else(|| here("a line is NAME = VALUE"))?;
            match self.table.place(name) {
                Some(at) => self
                    .set_at(at, value, From::File, name)
                    .map_err(|wrong| here(&wrong.0))?,
                None => {
                    let text = here(&self.table.stranger(name, "", name));
                    self.strangers.push(text.0);
                }
            }
        }
        Ok(())
    }

    /// Each setting with its value and where that is from.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, &str, From)> {
        self.table
            .rows
            .iter()
            .zip(&self.values)
            .map(|(setting, (value, from))| (setting, value.as_str(), *from))
    }

    /// The value of a setting, as it was written.
    ///
    /// # Panics
    /// There is no row of that name: a bug of who asks.
    pub fn text(&self, name: &str) -> &str {
        &self.values[self.row(name)].0
    }

    /// Whether somebody has set it.
    ///
    /// # Panics
    /// As [`Self::text`].
    pub fn is_set(&self, name: &str) -> bool {
        self.values[self.row(name)].1 != From::Default
    }

    /// The value of a setting that is a number, of bytes or of anything else.
    ///
    /// # Panics
    /// There is no such row, or it has no number: a bug of who asks.
    pub fn number(&self, name: &str) -> u64 {
        let number = self.table.rows[self.row(name)].kind.number(self.text(name));
        number.unwrap_or_else(|| panic!("the setting {name} is no number"))
    }

    /// Whether a flag is up.
    ///
    /// # Panics
    /// As [`Self::number`].
    pub fn flag(&self, name: &str) -> bool {
        self.number(name) == 1
    }

    fn row(&self, name: &str) -> usize {
        let place = self.table.place(name);
        place.unwrap_or_else(|| panic!("there is no setting {name}"))
    }
}

/// Letters to insert, take away or change (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let change = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;
