//! Results as a table for people, as JSON, and as the table of the README.

use super::programs::Figure;
use serde_json::{Value, json};

/// What a cell of the table says.
pub enum Outcome {
    /// It ended well, with the figure if the program prints one.
    Fine(Option<Figure>),
    /// What happened instead.
    Failed(Failure),
    /// It is not run here.
    Left(&'static str),
}

/// What happened to a pair that did not end well.
pub struct Failure {
    /// In a sentence.
    pub what: String,
    /// The two commands and everything that they printed.
    pub details: String,
}

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its title.
    pub title: &'static str,
    /// The name in JSON.
    pub name: &'static str,
}

/// A row of the table.
pub struct Row {
    /// The program.
    pub title: String,
    /// What a good end proves.
    pub proves: String,
    /// One for each column.
    pub cells: Vec<Outcome>,
}

/// All of it.
pub struct Table {
    /// What the guests' kernel calls itself.
    pub kernel: String,
    /// The columns behind the program.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Packets of the guest that netem dropped on the way out while loss was on.
    pub lost: u64,
}

impl Outcome {
    /// The cell in a few letters.
    pub fn short(&self) -> String {
        match self {
            Outcome::Fine(Some(figure)) => figure.to_string(),
            Outcome::Fine(None) => "ok".to_owned(),
            Outcome::Failed(_) => "FAILED".to_owned(),
            Outcome::Left(_) => "-".to_owned(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Outcome::Fine(None) => json!({ "result": "ok" }),
            Outcome::Fine(Some(figure)) => {
                let (value, unit) = figure.parts();
                json!({ "result": "ok", "value": value, "unit": unit })
            }
            Outcome::Failed(failure) => {
                json!({ "result": "failed", "what": failure.what, "details": failure.details })
            }
            Outcome::Left(why) => json!({ "result": "not run", "why": why }),
        }
    }
}

impl Table {
    /// How many cells were run, and how many of them failed.
    pub fn count(&self) -> (usize, usize) {
        let cells = || self.rows.iter().flat_map(|row| &row.cells);
        let run = cells()
            .filter(|cell| !matches!(cell, Outcome::Left(_)))
            .count();
        let failed = cells()
            .filter(|cell| matches!(cell, Outcome::Failed(_)))
            .count();
        (run, failed)
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let cells: serde_json::Map<String, Value> = self
                    .columns
                    .iter()
                    .zip(&row.cells)
                    .map(|(column, cell)| (column.name.to_owned(), cell.json()))
                    .collect();
                json!({ "program": row.title, "proves": row.proves, "runs": cells })
            })
            .collect();
        let (run, failed) = self.count();
        json!({ "kernel": self.kernel, "run": run, "failed": failed, "packets_lost": self.lost, "programs": rows })
    }

    /// As text for a terminal, failures explained below.
    pub fn text(&self) -> String {
        let mut lines = self.lines(" ");
        let dashes = lines[0]
            .chars()
            .map(|c| if c == '|' { ' ' } else { '-' })
            .collect();
        lines.insert(1, dashes);
        let mut text = lines
            .iter()
            .map(|line| line.replace('|', " ").trim_end().to_owned() + "\n")
            .collect::<String>();
        for (row, column, failure) in self.failures() {
            text += &format!("\n{}, {}: {}\n", row.title, column.title, failure.what);
            for line in failure.details.lines() {
                text += &format!("    {line}\n");
            }
        }
        text + "\n" + &self.sum() + "\n"
    }

    /// As a table of Markdown.
    pub fn markdown(&self) -> String {
        let mut lines = self.lines(" ");
        let rule = lines[0]
            .chars()
            .map(|c| if c == '|' { '|' } else { '-' })
            .collect();
        lines.insert(1, rule);
        let mut text = lines
            .iter()
            .map(|line| format!("|{line}|\n"))
            .collect::<String>();
        for (row, column, failure) in self.failures() {
            text += &format!("\n{}, {}: {}\n", row.title, column.title, failure.what);
        }
        text + "\n" + &self.sum() + "\n"
    }

    /// The last line.
    pub fn sum(&self) -> String {
        let (run, failed) = self.count();
        let lost = match self.lost {
            0 => String::new(),
            lost => format!("; {lost} packets were lost on the way from the guest alone"),
        };
        match failed {
            0 => format!(
                "All {run} runs with Soft-RoCE of Linux {} ended well{lost}.",
                self.kernel
            ),
            _ => format!(
                "{failed} of {run} runs with Soft-RoCE of Linux {} failed{lost}.",
                self.kernel
            ),
        }
    }

    fn failures(&self) -> impl Iterator<Item = (&Row, &Column, &Failure)> {
        self.rows.iter().flat_map(|row| {
            self.columns
                .iter()
                .zip(&row.cells)
                .filter_map(move |(column, cell)| match cell {
                    Outcome::Failed(failure) => Some((row, column, failure)),
                    _ => None,
                })
        })
    }

    /// Header and rows with columns of equal width, parted by `|`.
    fn lines(&self, pad: &str) -> Vec<String> {
        let mut cells = vec![vec!["program".to_owned()]];
        cells[0].extend(self.columns.iter().map(|column| column.title.to_owned()));
        for row in &self.rows {
            let mut line = vec![row.title.clone()];
            line.extend(row.cells.iter().map(Outcome::short));
            cells.push(line);
        }
        let widths: Vec<usize> = (0..cells[0].len())
            .map(|at| cells.iter().map(|line| line[at].len()).max().unwrap_or(0))
            .collect();
        let line = |cells: &Vec<String>| {
            let mut parts = cells
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(at, (cell, &width))| match at {
                    0 => format!("{pad}{cell:<width$}{pad}"),
                    _ => format!("{pad}{cell:>width$}{pad}"),
                });
            let first = parts.next().unwrap_or_default();
            parts.fold(first, |line, part| line + "|" + &part)
        };
        cells.iter().map(line).collect()
    }
}

/// Marks of the place in a document that a table takes.
const MARKS: [&str; 2] = [
    "<!-- interop: written by make interop INTEROP=--readme -->\n",
    "<!-- interop: end -->\n",
];

/// `document` with what lies between the marks replaced.
pub fn replace_between_marks(document: &str, table: &str) -> Result<String, String> {
    let missing = || format!("the document has no {}", MARKS[0].trim());
    let (before, rest) = document.split_once(MARKS[0]).ok_or_else(missing)?;
    let (_, after) = rest.split_once(MARKS[1]).ok_or_else(missing)?;
    Ok(format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let column = |title, name| Column { title, name };
        Table {
            kernel: "6.1".to_owned(),
            columns: vec![column("we serve", "a"), column("it serves", "b")],
            rows: vec![
                Row {
                    title: "rping".to_owned(),
                    proves: "much".to_owned(),
                    cells: vec![Outcome::Fine(None), Outcome::Left("unreliable")],
                },
                Row {
                    title: "ib_send_lat".to_owned(),
                    proves: "more".to_owned(),
                    cells: vec![
                        Outcome::Fine(Some(Figure::Microseconds(51.2))),
                        Outcome::Failed(Failure {
                            what: "the client ended with status 1".to_owned(),
                            details: "client: ib_send_lat\n  no".to_owned(),
                        }),
                    ],
                },
            ],
            lost: 12,
        }
    }

    #[test]
    fn a_failure_is_shown_and_counted() {
        let table = table();
        assert_eq!(table.count(), (3, 1));
        let text = table.text();
        assert!(text.contains(
            "ib_send_lat, it serves: the client ended with status 1\n    client: ib_send_lat"
        ));
        assert!(text.ends_with(
            "1 of 3 runs with Soft-RoCE of Linux 6.1 failed; 12 packets were lost on the way from the guest alone.\n"
        ));
        assert_eq!(table.json()["programs"][1]["runs"]["b"]["result"], "failed");
        assert_eq!(table.json()["programs"][1]["runs"]["a"]["value"], 51.2);
    }

    #[test]
    fn markdown_has_one_cell_for_each_column() {
        let markdown = table().markdown();
        let rows: Vec<&str> = markdown.lines().take(4).collect();
        assert_eq!(rows[0], "| program     | we serve | it serves |");
        assert_eq!(rows[1], "|-------------|----------|-----------|");
        assert_eq!(rows[3], "| ib_send_lat |    51 us |    FAILED |");
        assert!(rows.iter().all(|row| row.matches('|').count() == 4));
    }

    #[test]
    fn a_document_keeps_what_is_around_the_table() {
        let document = format!("a\n{}old\n{}z\n", MARKS[0], MARKS[1]);
        let new = replace_between_marks(&document, "new\n").expect("there are marks");
        assert_eq!(new, format!("a\n{}new\n{}z\n", MARKS[0], MARKS[1]));
        assert!(replace_between_marks("a\n", "new\n").is_err());
    }
}
