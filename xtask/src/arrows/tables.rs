//! The tables of ARCHITECTURE.md that say which room of a crate may use which, and what stands
//! against the rules for the time being.

use std::collections::{BTreeMap, BTreeSet};

/// Where the tables are.
pub const PAGE: &str = "ARCHITECTURE.md";
/// The heading above them.
pub const HEADING: &str = "## Rooms inside crates";
/// The heading of the circles of files that are there still.
const CIRCLES: &str = "Circles that stand";
/// The heading of the arrows between rooms that are there still.
const ARROWS: &str = "Arrows that stand";
/// In place of a list: any circle of the crate.
const ALL_FILES: &str = "all files";

/// What the page says.
#[derive(Debug, Default)]
pub struct Tables {
    /// The rooms of each crate that has a table, by its directory.
    pub crates: BTreeMap<String, CrateRooms>,
    /// The circles that stand, by the crate's directory.
    pub circles: BTreeMap<String, Standing<Circles>>,
    /// The arrows that stand, by the crate's directory: file and what it uses.
    pub arrows: BTreeMap<String, Standing<BTreeSet<(String, String)>>>,
    /// What is wrong with the page itself.
    pub faults: Vec<String>,
}

/// The rooms of a crate.
#[derive(Debug, Default)]
pub struct CrateRooms {
    /// The line of its heading.
    pub line: usize,
    /// From the ground up.
    pub rooms: Vec<Room>,
}

/// A row of a crate's table.
#[derive(Debug)]
pub struct Room {
    /// Its name.
    pub name: String,
    /// The row's line.
    pub line: usize,
    /// Directories and files, from the crate's directory, without `.rs`.
    pub places: Vec<String>,
    /// Indices of the rooms that it may use.
    pub uses: BTreeSet<usize>,
}

/// A row of what stands, with its line.
#[derive(Debug)]
pub struct Standing<T> {
    /// The row's line.
    pub line: usize,
    /// What stands.
    pub what: T,
}

/// Circles of files of one crate.
#[derive(Debug, PartialEq, Eq)]
pub enum Circles {
    /// Any, while its files are being moved.
    All,
    /// Each with its files, from `src/`, without `.rs`.
    Listed(BTreeSet<BTreeSet<String>>),
}

/// Reads the page.
pub fn read(page: &str) -> Tables {
    let mut tables = Tables::default();
    let lines = page.lines().enumerate().map(|(at, line)| (at + 1, line));
    let mut lines = lines
        .skip_while(|(_, line)| *line != HEADING)
        .skip(1)
        .peekable();
    if lines.peek().is_none() {
        tables
            .faults
            .push(format!("{PAGE}: the section `{HEADING}` is not there"));
    }
    let mut heading = "";
    for (line, text) in lines.take_while(|(_, line)| !line.starts_with("## ")) {
        if let Some(name) = text.strip_prefix("### ") {
            heading = name.trim();
            if heading != CIRCLES && heading != ARROWS {
                let rooms = Vec::new();
                tables
                    .crates
                    .insert(heading.to_owned(), CrateRooms { line, rooms });
            }
            continue;
        }
        let Some(cells) = cells(text) else {
            continue;
        };
        if let Err(fault) = tables.take(heading, line, &cells) {
            tables.faults.push(format!("{PAGE}:{line}: {fault}"));
        }
    }
    tables
}

impl Tables {
    /// Takes a row.
    fn take(&mut self, heading: &str, line: usize, cells: &[&str]) -> Result<(), String> {
        match (heading, cells) {
            (CIRCLES, &[dir, circles]) => {
                let what = circles_of(circles);
                let old = self.circles.insert(dir.to_owned(), Standing { line, what });
                old.map_or(Ok(()), |_| Err(format!("{dir} has a row already")))
            }
            (ARROWS, &[dir, arrows]) => {
                let what = arrows_of(arrows)?;
                let old = self.arrows.insert(dir.to_owned(), Standing { line, what });
                old.map_or(Ok(()), |_| Err(format!("{dir} has a row already")))
            }
            (_, &[name, places, may]) if self.crates.contains_key(heading) => {
                let table = self.crates.get_mut(heading).expect("looked up just above");
                let uses = uses_of(&table.rooms, may)?;
                table.rooms.push(Room {
                    name: name.to_owned(),
                    line,
                    places: expanded(places),
                    uses,
                });
                Ok(())
            }
            _ => Err(format!(
                "a row of {} cells is not of this table",
                cells.len()
            )),
        }
    }
}

/// The cells of a row; none for a heading of a table and for what is no table.
fn cells(text: &str) -> Option<Vec<&str>> {
    let inner = text.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let is_head = matches!(cells[0], "crate" | "room") || cells[0].starts_with("--");
    (!is_head).then_some(cells)
}

/// Which rooms a row allows: names of rooms before it, `above` for all of those, `not` before
/// what is taken out.
fn uses_of(before: &[Room], may: &str) -> Result<BTreeSet<usize>, String> {
    let mut uses = BTreeSet::new();
    for word in may
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        if word == "above" {
            uses.extend(0..before.len());
            continue;
        }
        let (is_out, name) = match word.strip_prefix("not ") {
            Some(name) => (true, name.trim()),
            None => (false, word),
        };
        let Some(room) = before.iter().position(|room| room.name == name) else {
            return Err(format!("{name} is no room of a row before this one"));
        };
        if is_out {
            uses.remove(&room);
        } else {
            uses.insert(room);
        }
    }
    Ok(uses)
}

fn circles_of(text: &str) -> Circles {
    if text == ALL_FILES {
        return Circles::All;
    }
    let circles = text
        .split(';')
        .map(|files| expanded(files).into_iter().collect());
    Circles::Listed(circles.collect())
}

/// Reads `file -> room, room; file -> room`.
fn arrows_of(text: &str) -> Result<BTreeSet<(String, String)>, String> {
    let mut found = BTreeSet::new();
    for part in text.split(';') {
        let Some((files, rooms)) = part.split_once("->") else {
            return Err(format!(
                "`{}` is not of the form FILE -> ROOM, ROOM",
                part.trim()
            ));
        };
        for file in expanded(files) {
            let rooms = rooms.split(',').map(|room| room.trim().to_owned());
            found.extend(rooms.map(|room| (file.clone(), room)));
        }
    }
    Ok(found)
}

/// The files of a list: `a b/{c d}` is a, b/c and b/d.
fn expanded(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folder = "";
    for word in text.split_whitespace() {
        let (prefix, rest) = word.split_once('{').unwrap_or((folder, word));
        folder = prefix;
        let (name, is_last) = match rest.strip_suffix('}') {
            Some(name) => (name, true),
            None => (rest, false),
        };
        if !name.is_empty() {
            found.push(format!("{folder}{name}"));
        }
        if is_last {
            folder = "";
        }
    }
    found
}

/// A list of files in the form that `expanded` reads.
pub fn compact(files: &BTreeSet<String>) -> String {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files {
        let (folder, name) = file
            .rsplit_once('/')
            .map_or(("", file.as_str()), |parts| parts);
        folders.entry(folder).or_default().push(name);
    }
    let shown = folders
        .into_iter()
        .map(|(folder, names)| match (folder, &names[..]) {
            ("", names) => names.join(" "),
            (folder, [name]) => format!("{folder}/{name}"),
            (folder, names) => format!("{folder}/{{{}}}", names.join(" ")),
        });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn lists_are_written_as_they_are_read() {
        let text = "a b c/{d e} f/g h/i/{j k}";
        let files = expanded(text);
        assert_eq!(files, ["a", "b", "c/d", "c/e", "f/g", "h/i/j", "h/i/k"]);
        assert_eq!(compact(&files.into_iter().collect()), text);
    }

    #[test]
    fn the_tables_of_a_page_are_read() {
        let page = "# P\n| no | row |\n## Rooms inside crates\n\n### x/y\n| room | files | may use |\n\
            |---|---|---|\n| base | src/base | |\n| top | src/top src/lib | above |\n\
            | side | src/side | above, not top |\n### Circles that stand\n| crate | circles |\n|---|---|\n\
            | x/y | a b; c/{d e} |\n| z | all files |\n### Arrows that stand\n\
            | x/y | a -> top, *; c/{d e} -> base |\n## Laws\n| z | b |\n";
        let tables = read(page);
        assert_eq!(tables.faults, Vec::<String>::new());
        let rooms = &tables.crates["x/y"].rooms;
        assert_eq!(rooms[1].places, ["src/top", "src/lib"]);
        let uses: Vec<Vec<usize>> = rooms
            .iter()
            .map(|room| room.uses.iter().copied().collect())
            .collect();
        assert_eq!(uses, [vec![], vec![0], vec![0]]);
        let listed = [set(&["a", "b"]), set(&["c/d", "c/e"])].into();
        assert_eq!(tables.circles["x/y"].what, Circles::Listed(listed));
        assert_eq!(tables.circles["x/y"].line, 14);
        assert_eq!(tables.circles["z"].what, Circles::All);
        let pair = |file: &str, room: &str| (file.to_owned(), room.to_owned());
        let arrows = [
            pair("a", "*"),
            pair("a", "top"),
            pair("c/d", "base"),
            pair("c/e", "base"),
        ];
        assert_eq!(tables.arrows["x/y"].what, arrows.into());
    }

    #[test]
    fn what_a_page_cannot_mean_is_told_with_its_line() {
        let faults = |text: &str| read(&format!("{HEADING}\n{text}")).faults;
        let up = faults("### a\n| one | src/one | two |\n| two | src/two | |");
        assert_eq!(
            up,
            ["ARCHITECTURE.md:3: two is no room of a row before this one"]
        );
        assert_eq!(faults("| a | b |").len(), 1);
        assert_eq!(
            faults("### Circles that stand\n| a | b c |\n| a | d e |").len(),
            1
        );
        assert_eq!(faults("### Arrows that stand\n| a | b c |").len(), 1);
        assert_eq!(read("# P").faults.len(), 1);
    }
}
