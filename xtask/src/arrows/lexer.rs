//! A Rust source as words and signs, without comments, literals and lifetimes.
//!
//! It knows as much of the language as the search for paths needs: where a string, a character or a
//! comment ends, and on which line a word stands. It knows nothing of modules or paths.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// An identifier or a keyword; a raw identifier without its `r#`.
    Word(&'a str),
    /// The text of a string without escapes, which `#[path = "..."]` needs.
    Text(&'a str),
    /// `::`
    Colons,
    /// Any other byte outside of white space; a number is `0`.
    Sign(u8),
}

/// A token and the line that it begins on, counted from 1.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind<'a>,
    /// Where it is.
    pub line: usize,
}

/// All tokens of a source, in order.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        line: 1,
        found: Vec::new(),
    };
    while lexer.step() {}
    lexer.found
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: usize,
    found: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    /// Takes what begins at the present byte; false at the end of the text.
    fn step(&mut self) -> bool {
        let Some(&byte) = self.bytes.get(self.at) else {
            return false;
        };
        match byte {
            b'\n' => {
                self.line += 1;
                self.at += 1;
            }
            b' ' | b'\t' | b'\r' => self.at += 1,
            b'/' if self.peek(1) == Some(b'/') => {
                while self.peek(0).is_some_and(|byte| byte != b'\n') {
                    self.at += 1;
                }
            }
            b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
            b'"' => self.string(),
            b'\'' => self.quote(),
            b':' if self.peek(1) == Some(b':') => self.push(Kind::Colons, 2),
            b'0'..=b'9' => {
                let length = self.word_length();
                self.push(Kind::Sign(b'0'), length);
            }
            _ if is_letter(byte) => self.word(),
            _ => self.push(Kind::Sign(byte), 1),
        }
        true
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn push(&mut self, kind: Kind<'a>, length: usize) {
        let line = self.line;
        self.found.push(Token { kind, line });
        self.at += length;
    }

    /// How many bytes of a word or a number stand here.
    fn word_length(&self) -> usize {
        let rest = &self.bytes[self.at..];
        let is_over = |byte: &u8| !is_letter(*byte) && !byte.is_ascii_digit();
        rest.iter().position(is_over).unwrap_or(rest.len())
    }

    /// A word, or a literal that begins like one: `b"..."`, `r#"..."#`, `b'x'`, `r#word`.
    fn word(&mut self) {
        let length = self.word_length();
        let word = &self.text[self.at..self.at + length];
        let next = self.peek(length);
        match (word, next) {
            ("b" | "c", Some(b'"')) => {
                self.at += 1;
                self.string();
            }
            ("b", Some(b'\'')) => {
                self.at += 1;
                self.quote();
            }
            ("r", Some(b'#')) if self.peek(2).is_some_and(is_letter) => {
                self.at += 2;
                let length = self.word_length();
                let word = &self.text[self.at..self.at + length];
                self.push(Kind::Word(word), length);
            }
            ("r" | "br" | "cr", Some(b'"' | b'#')) => {
                self.at += length;
                self.raw_string();
            }
            _ => self.push(Kind::Word(word), length),
        }
    }

    /// A string with escapes; the present byte is its first quotation mark.
    fn string(&mut self) {
        let line = self.line;
        let start = self.at + 1;
        self.at = start;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'"' => break,
                b'\\' if self.peek(1) != Some(b'\n') => self.at += 1,
                b'\n' => self.line += 1,
                _ => {}
            }
            self.at += 1;
        }
        let end = self.at.min(self.bytes.len());
        // An escape at the very end of a broken text may point into the middle of a character.
        let kind = Kind::Text(self.text.get(start..end).unwrap_or(""));
        self.found.push(Token { kind, line });
        self.at += 1;
    }

    /// A raw string; the present byte is the first `#` or the quotation mark.
    fn raw_string(&mut self) {
        let line = self.line;
        let mut hashes = 0;
        while self.peek(hashes) == Some(b'#') {
            hashes += 1;
        }
        self.at += hashes + 1;
        let end = format!("\"{}", "#".repeat(hashes));
        let rest = self.text.get(self.at..).unwrap_or("");
        let length = rest.find(&end).unwrap_or(rest.len());
        let kind = Kind::Text(&rest[..length]);
        self.found.push(Token { kind, line });
        self.line += rest[..length].matches('\n').count();
        self.at += length + end.len();
    }

    /// A character, which is left out, or a lifetime, which is left out, too.
    fn quote(&mut self) {
        self.at += 1;
        if self.peek(0) == Some(b'\\') {
            self.at += 2;
            while self.peek(0).is_some_and(|byte| byte != b'\'') {
                self.at += 1;
            }
            self.at += 1;
            return;
        }
        let rest = self.text.get(self.at..).unwrap_or("");
        let width = rest.chars().next().map_or(0, char::len_utf8);
        if self.peek(width) == Some(b'\'') {
            self.line += usize::from(rest.starts_with('\n'));
            self.at += width + 1;
        } else {
            self.at += self.word_length();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(byte) = self.peek(0) {
            match (byte, self.peek(1)) {
                (b'/', Some(b'*')) => depth += 1,
                (b'*', Some(b'/')) => depth -= 1,
                _ => {
                    self.line += usize::from(byte == b'\n');
                    self.at += 1;
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                return;
            }
        }
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a source, each with its line.
    fn words(text: &str) -> Vec<(&str, usize)> {
        tokens(text)
            .into_iter()
            .filter_map(|token| match token.kind {
                Kind::Word(word) => Some((word, token.line)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn comments_literals_and_lifetimes_are_no_words() {
        let text = "a // b\n/* c /* d */ e\n */ f \"g \\\" h\n\" i r#\"j \" k\n\"# l 'm' '\\'' '\\u{6e}' \
            <'o> b\"p\" b'q' b'\\'' br##\"r\"# s\"## t r#type 0x1f 'é' u";
        assert_eq!(
            words(text),
            [
                ("a", 1),
                ("f", 3),
                ("i", 4),
                ("l", 5),
                ("t", 5),
                ("type", 5),
                ("u", 5)
            ]
        );
    }

    #[test]
    fn a_line_that_goes_on_in_a_string_is_counted() {
        assert_eq!(words("\"a\\\n  b\" c"), [("c", 2)]);
    }

    #[test]
    fn a_text_that_breaks_off_ends() {
        for text in ["\"a", "r#\"a", "/* a", "'", "'\\", "\"\\", "r#", "b'"] {
            assert!(
                words(text).iter().all(|(word, _)| word.len() == 1),
                "{text}"
            );
        }
    }
}
