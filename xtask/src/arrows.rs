//! The rules for arrows inside crates, a part of `cargo xtask gates`.
//!
//! An arrow is a path in one file that names what another file of its crate defines. Files make no
//! circle, and in a crate whose rooms stand in ARCHITECTURE.md a file uses what its room may use.
//! What stood against that when the rules came is listed there, and the lists may only shrink.

mod lexer;
mod source;
mod tables;
mod tree;

use std::collections::{BTreeMap, BTreeSet, HashMap};
pub use tables::PAGE;
use tables::{Circles, CrateRooms, Standing, Tables};
use tree::{Arrow, Crate, Naming};

/// What every message names as the place of the rule.
const RULE: &str = "ARCHITECTURE.md, Rooms inside crates";

/// All breaches in the crates of `listed`, the paths of the files that git tracks. `text_of` gives
/// a file by its path in the workspace, `page` is the text of ARCHITECTURE.md.
pub fn breaches(
    listed: &[&str],
    text_of: &dyn Fn(&str) -> Option<String>,
    page: &str,
) -> Vec<String> {
    let tables = tables::read(page);
    let mut found = tables.faults.clone();
    let dirs = crates(listed);
    for dir in &dirs {
        found.extend(judge(dir, &tree::read(dir, text_of), &tables));
    }
    let rooms = tables.crates.iter().map(|(dir, of)| (dir, of.line));
    let circles = tables.circles.iter().map(|(dir, of)| (dir, of.line));
    let arrows = tables.arrows.iter().map(|(dir, of)| (dir, of.line));
    for (dir, line) in rooms.chain(circles).chain(arrows) {
        if !dirs.contains(&dir.as_str()) {
            found.push(format!("{PAGE}:{line}: {dir} is no crate; remove this"));
        }
    }
    found
}

/// The arrows and circles of one crate, for those who move files between rooms.
pub fn shown(dir: &str, text_of: &dyn Fn(&str) -> Option<String>) -> String {
    let read = tree::read(dir, text_of);
    let mut lines: Vec<String> = read
        .arrows
        .iter()
        .map(|arrow| line_of(dir, arrow))
        .collect();
    let row: Vec<String> = circles(&read.arrows, dir)
        .iter()
        .map(tables::compact)
        .collect();
    lines.push(format!("circles: {}", row.join("; ")));
    lines.join("\n")
}

/// Directories with a manifest and a source.
fn crates<'a>(listed: &[&'a str]) -> BTreeSet<&'a str> {
    let dir = |path: &&'a str| path.strip_suffix("/Cargo.toml");
    let has_root = |dir: &&str| {
        ["lib.rs", "main.rs"]
            .iter()
            .any(|root| listed.contains(&format!("{dir}/src/{root}").as_str()))
    };
    listed.iter().filter_map(dir).filter(has_root).collect()
}

fn judge(dir: &str, read: &Crate, tables: &Tables) -> Vec<String> {
    let mut found = judge_circles(dir, &read.arrows, tables.circles.get(dir));
    if let Some(table) = tables.crates.get(dir) {
        found.extend(judge_rooms(dir, read, table, tables.arrows.get(dir)));
    } else if let Some(standing) = tables.arrows.get(dir) {
        let line = standing.line;
        found.push(format!(
            "{PAGE}:{line}: {dir} has no table of rooms; remove this row"
        ));
    }
    found
}

/// How lists of the page name a file: from `src/`, without `.rs`.
fn short(dir: &str, file: &str) -> String {
    let inner = file.strip_prefix(dir).unwrap_or(file);
    let inner = inner.strip_prefix("/src/").unwrap_or(inner);
    inner.strip_suffix(".rs").unwrap_or(inner).to_owned()
}

fn line_of(dir: &str, arrow: &Arrow) -> String {
    let Arrow {
        from,
        line,
        names,
        to,
        ..
    } = arrow;
    format!("{from}:{line}: names {names} of {}", short(dir, to))
}

/// The circles of a crate's files, by the names that lists have for them.
fn circles(arrows: &[Arrow], dir: &str) -> BTreeSet<BTreeSet<String>> {
    let mut ways: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for arrow in arrows.iter().filter(|arrow| !arrow.is_family) {
        ways.entry(&arrow.from).or_default().insert(&arrow.to);
        ways.entry(&arrow.to).or_default();
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = ways
        .keys()
        .map(|&file| (file, reach(&ways, file)))
        .collect();
    let circle = |&file: &&str| {
        let both = reached[file]
            .iter()
            .filter(|other| reached[**other].contains(file));
        both.map(|other| short(dir, other)).collect::<BTreeSet<_>>()
    };
    ways.keys()
        .map(circle)
        .filter(|files| files.len() > 1)
        .collect()
}

/// All that `from` leads to, over any number of arrows.
fn reach<'a>(ways: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for &next in &ways[file] {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

fn judge_circles(dir: &str, arrows: &[Arrow], row: Option<&Standing<Circles>>) -> Vec<String> {
    let there = circles(arrows, dir);
    let none = BTreeSet::new();
    let (line, listed) = match row {
        Some(Standing {
            line,
            what: Circles::All,
        }) => {
            let gone = format!("{PAGE}:{line}: {dir} has no circle of files; remove this row");
            return if there.is_empty() {
                vec![gone]
            } else {
                Vec::new()
            };
        }
        Some(Standing {
            line,
            what: Circles::Listed(listed),
        }) => (*line, listed),
        None => (0, &none),
    };
    let new = there
        .iter()
        .filter(|files| !listed.iter().any(|known| files.is_subset(known)));
    let found: Vec<String> = new
        .map(|files| circle_closed(dir, arrows, files, listed))
        .collect();
    if !found.is_empty() || there == *listed {
        return found;
    }
    let rest: Vec<String> = there.iter().map(tables::compact).collect();
    let row = format!("| {dir} | {} |", rest.join("; "));
    let what = if there.is_empty() {
        "remove this row".to_owned()
    } else {
        format!("the row has to be `{row}`")
    };
    vec![format!(
        "{PAGE}:{line}: circles of {dir} are smaller than this says, and the list may only shrink: {what} ({RULE})"
    )]
}

/// The message about a circle that no row allows: by which arrows the shortest way around goes,
/// beginning with one that is new.
fn circle_closed(
    dir: &str,
    arrows: &[Arrow],
    files: &BTreeSet<String>,
    listed: &BTreeSet<BTreeSet<String>>,
) -> String {
    let ends = |arrow: &Arrow| [short(dir, &arrow.from), short(dir, &arrow.to)];
    let is_known = |arrow: &Arrow| {
        let ends = ends(arrow);
        listed
            .iter()
            .any(|known| ends.iter().all(|end| known.contains(end)))
    };
    let inside =
        |arrow: &&Arrow| !arrow.is_family && ends(arrow).iter().all(|end| files.contains(end));
    let inner: Vec<&Arrow> = arrows.iter().filter(inside).collect();
    let new = inner.iter().filter(|arrow| !is_known(arrow));
    let way = new
        .map(|first| way(&inner, first))
        .min_by_key(Vec::len)
        .unwrap_or_default();
    let steps: Vec<String> = way.iter().map(|arrow| line_of(dir, arrow)).collect();
    format!(
        "{}\n    closes a circle of {} files: files of a crate make no circle ({RULE}); move what closes it \
         to a file that both may name, or hand it in as a parameter or a trait",
        steps.join("\n    "),
        way.len()
    )
}

/// `first`, and the fewest arrows from where it leads back to where it begins.
fn way<'a>(arrows: &[&'a Arrow], first: &'a Arrow) -> Vec<&'a Arrow> {
    let mut came: HashMap<&str, &Arrow> = HashMap::new();
    let mut open = vec![first.to.as_str()];
    while !open.is_empty() && !came.contains_key(first.from.as_str()) {
        let mut next = Vec::new();
        for arrow in arrows
            .iter()
            .filter(|arrow| open.contains(&arrow.from.as_str()))
        {
            if arrow.to != first.to && !came.contains_key(arrow.to.as_str()) {
                came.insert(&arrow.to, arrow);
                next.push(arrow.to.as_str());
            }
        }
        open = next;
    }
    let mut back = Vec::new();
    let mut file = first.from.as_str();
    while let Some(arrow) = came.get(file).filter(|_| file != first.to) {
        back.push(*arrow);
        file = &arrow.from;
    }
    back.push(first);
    back.reverse();
    back
}

fn judge_rooms(
    dir: &str,
    read: &Crate,
    table: &CrateRooms,
    standing: Option<&Standing<BTreeSet<(String, String)>>>,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut rooms: HashMap<&str, usize> = HashMap::new();
    for file in &read.files {
        match room_of(dir, file, table) {
            Some(room) => {
                rooms.insert(file, room);
            }
            None => found.push(format!(
                "{file}: lies in no room of {dir}; move it into one, or name it in the table ({RULE})"
            )),
        }
    }
    for (index, room) in table.rooms.iter().enumerate() {
        if !rooms.values().any(|&of| of == index) {
            let (line, name) = (room.line, &room.name);
            found.push(format!(
                "{PAGE}:{line}: no file of {dir} lies in room {name}; remove this row"
            ));
        }
    }
    let mut left = standing.map(|of| of.what.clone()).unwrap_or_default();
    let mut told = BTreeSet::new();
    for arrow in &read.arrows {
        let ends = (rooms.get(arrow.from.as_str()), rooms.get(arrow.to.as_str()));
        let (Some(&from), Some(&to)) = ends else {
            continue;
        };
        let Some((key, message)) = breach_of(dir, arrow, table, from, to) else {
            continue;
        };
        let pair = (short(dir, &arrow.from), key);
        left.remove(&pair);
        let is_standing = standing.is_some_and(|of| of.what.contains(&pair));
        // One message for all that a file names of another.
        if !is_standing && told.insert((pair, &arrow.to)) {
            found.push(message);
        }
    }
    let line = standing.map_or(0, |of| of.line);
    found.extend(left.into_iter().map(|(file, room)| {
        format!(
            "{PAGE}:{line}: the arrow `{file} -> {room}` of {dir} is gone, and the list may only shrink: \
             remove it ({RULE})"
        )
    }));
    found
}

/// The room of a file: of the places that it lies in, the longest one's.
fn room_of(dir: &str, file: &str, table: &CrateRooms) -> Option<usize> {
    let inner = file.strip_prefix(dir)?.strip_prefix('/')?;
    let lies_in = |place: &str| {
        let rest = inner.strip_prefix(place.strip_suffix(".rs").unwrap_or(place));
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    let rooms = table.rooms.iter().enumerate();
    let places = rooms.flat_map(|(room, row)| row.places.iter().map(move |place| (room, place)));
    let fitting = places.filter(|(_, place)| lies_in(place));
    fitting
        .max_by_key(|(_, place)| place.len())
        .map(|(room, _)| room)
}

/// What is wrong with an arrow between two rooms, if anything is: how a list of what stands names
/// it, and the message.
fn breach_of(
    dir: &str,
    arrow: &Arrow,
    table: &CrateRooms,
    from: usize,
    to: usize,
) -> Option<(String, String)> {
    let (own, other) = (&table.rooms[from], &table.rooms[to]);
    let named = own.uses.iter().map(|&room| table.rooms[room].name.as_str());
    let may = match named.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "no other".to_owned(),
        some => some,
    };
    let place = format!("{}:{}", arrow.from, arrow.line);
    let (names, name) = (&arrow.names, &own.name);
    if arrow.kind == Naming::All {
        let message = format!(
            "{place}: brings in all of {names}, and with it what that uses: name what is used ({RULE})"
        );
        return Some(("*".to_owned(), message));
    }
    if from == to {
        return None;
    }
    if arrow.kind == Naming::Impl {
        let message = format!(
            "{place}: `impl {names}` in room {name}, and the type is of room {}: write the methods there, or \
             functions here ({RULE})",
            other.name
        );
        return Some(("impl".to_owned(), message));
    }
    if own.uses.contains(&to) {
        return None;
    }
    let message = format!(
        "{} of room {}: room {name} may use {may} ({RULE}); move what is named to a room that both may use, or \
         hand it in as a parameter or a trait",
        line_of(dir, arrow),
        other.name
    );
    Some((other.name.clone(), message))
}

#[cfg(test)]
mod tests;
