//! What a header of the MPI standard ABI declares, as facts: `cargo xtask mpi --standard HEADER` writes them to `ulp/mpi/abi/table/standard.tsv`, and tests compare what we
//! offer with them. The header was mpi_abi.h of MPICH 5.0.2; the Forum's own (mpi-forum/mpi-abi-stubs) says the same but of MPI_Psend_init and MPI_Precv_init, whose count is MPI_Count
//! in MPI 5.0 and an int there.
//!
//! Reads C as such headers have it: comments, `#define` of one value, enumerations, one structure, types, types of functions and functions. Conditions are not evaluated:
//! the first definition of a name counts. A row says `what`, `name`, `type` and `detail`:
//!
//! | what | type | detail |
//! |---|---|---|
//! | type | what it stands for; `handle` for a pointer to a structure that nobody defines, `enum` | fields of a structure |
//! | callback, function | what it returns | types of its parameters |
//! | constant | its C type | its value, decimal |

use super::table::number;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The first line of the table.
const HEAD: &str = "what\tname\ttype\tdetail\n";

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Type,
    Callback,
    Function,
    Constant,
}

impl What {
    const ALL: [(Self, &str); 4] = [
        (Self::Type, "type"),
        (Self::Callback, "callback"),
        (Self::Function, "function"),
        (Self::Constant, "constant"),
    ];

    fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The type and the detail of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub c_type: String,
    pub detail: String,
}

/// Facts by kind and name.
pub type Facts = BTreeMap<(What, String), Fact>;

/// The facts as the table has them.
pub fn write(facts: &Facts) -> String {
    let mut out = HEAD.to_owned();
    for ((what, name), fact) in facts {
        let _ = writeln!(
            out,
            "{}\t{name}\t{}\t{}",
            what.word(),
            fact.c_type,
            fact.detail
        );
    }
    out
}

/// The facts of a table.
#[cfg(test)]
pub fn read(table: &str) -> Result<Facts, String> {
    let rows = table
        .strip_prefix(HEAD)
        .ok_or("standard.tsv: another first line")?;
    rows.lines()
        .map(|line| {
            let [what, name, c_type, detail] = line.split('\t').collect::<Vec<_>>()[..] else {
                return Err(format!("standard.tsv: not four columns: {line}"));
            };
            let (what, _) = What::ALL
                .into_iter()
                .find(|(_, word)| *word == what)
                .ok_or_else(|| format!("standard.tsv: {what}"))?;
            let (c_type, detail) = (c_type.to_owned(), detail.to_owned());
            Ok(((what, name.to_owned()), Fact { c_type, detail }))
        })
        .collect()
}

/// The facts of a header. Names of one implementation (`MPIX_`) are none.
pub fn parse(header: &str) -> Result<Facts, String> {
    let (defines, code) = split_defines(&without_comments(header));
    let mut facts = Facts::new();
    let mut twins = Facts::new();
    for statement in statements(&code) {
        declaration(&statement, &defines, &mut facts, &mut twins)?;
    }
    for ((what, name), twin) in &twins {
        if facts.get(&(*what, name.clone())) != Some(twin) {
            return Err(format!("P{name} is not declared as {name} is"));
        }
    }
    let functions = |facts: &Facts| {
        facts
            .keys()
            .filter(|(what, _)| *what == What::Function)
            .count()
    };
    if functions(&twins) != functions(&facts) {
        return Err("a function has no PMPI name".to_owned());
    }
    for name in defines.keys().filter(|name| is_standard(name)) {
        if let Some(fact) = constant(name, &defines, &facts) {
            facts.insert((What::Constant, name.clone()), fact);
        }
    }
    Ok(facts)
}

fn is_standard(name: &str) -> bool {
    name.starts_with("MPI_")
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        out.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    out + rest
}

/// What `#define` says of each name, and the lines that are no directives.
fn split_defines(text: &str) -> (BTreeMap<String, String>, String) {
    let mut defines = BTreeMap::new();
    let mut code = String::new();
    for line in text.replace("\\\n", " ").lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            code.push_str(line);
            code.push('\n');
            continue;
        };
        let Some(definition) = directive.trim_start().strip_prefix("define ") else {
            continue;
        };
        let definition = definition.trim();
        let (name, body) = definition
            .split_once(char::is_whitespace)
            .unwrap_or((definition, ""));
        defines
            .entry(name.to_owned())
            .or_insert_with(|| body.trim().to_owned());
    }
    (defines, code.replace("extern \"C\" {", ""))
}

/// The declarations, each on one line with single spaces.
fn statements(code: &str) -> Vec<String> {
    let mut list = Vec::new();
    let mut one = String::new();
    let mut depth = 0_usize;
    for letter in code.chars() {
        match letter {
            '{' => depth += 1,
            // The one that ends `extern "C"` has no beginning here.
            '}' if depth == 0 => continue,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                list.push(one.split_whitespace().collect::<Vec<_>>().join(" "));
                one.clear();
                continue;
            }
            _ => {}
        }
        one.push(letter);
    }
    list.retain(|statement| !statement.is_empty());
    list
}

fn declaration(
    statement: &str,
    defines: &BTreeMap<String, String>,
    facts: &mut Facts,
    twins: &mut Facts,
) -> Result<(), String> {
    let unknown = || format!("not understood: {statement}");
    let fact = |c_type: &str, detail: String| Fact {
        c_type: c_type.to_owned(),
        detail,
    };
    if let Some((head, rest)) = statement.split_once('{') {
        let (body, name) = rest.split_once('}').ok_or_else(unknown)?;
        let name = name.trim();
        if head.contains("struct") {
            let fields: Vec<String> = body
                .split(';')
                .map(str::trim)
                .filter(|field| !field.is_empty())
                .map(str::to_owned)
                .collect();
            facts.insert(
                (What::Type, name.to_owned()),
                fact("struct", fields.join("; ")),
            );
            return Ok(());
        }
        if !name.is_empty() {
            facts.insert((What::Type, name.to_owned()), fact("enum", String::new()));
        }
        let c_type = if name.is_empty() { "int" } else { name };
        for enumerator in body
            .split(',')
            .map(str::trim)
            .filter(|text| !text.is_empty())
        {
            let (name, value) = enumerator.split_once('=').ok_or_else(unknown)?;
            let (name, value) = (name.trim(), number(value.trim()).ok_or_else(unknown)?);
            if is_standard(name) {
                facts.insert(
                    (What::Constant, name.to_owned()),
                    fact(c_type, value.to_string()),
                );
            }
        }
        return Ok(());
    }
    if let Some(rest) = statement.strip_prefix("typedef ") {
        if let Some((head, list)) = rest.split_once(")(").or_else(|| rest.split_once(") (")) {
            let (returns, name) = head.split_once('(').ok_or_else(unknown)?;
            let list = list.strip_suffix(')').ok_or_else(unknown)?;
            if is_standard(name) {
                facts.insert(
                    (What::Callback, name.to_owned()),
                    fact(returns.trim(), parameters(list)),
                );
            }
            return Ok(());
        }
        let (c_type, name) = type_and_name(rest);
        let c_type = match c_type.strip_prefix("struct ") {
            Some(_) => "handle".to_owned(),
            None => stands_for(&c_type, defines, facts),
        };
        if is_standard(&name) {
            facts.insert((What::Type, name), fact(&c_type, String::new()));
        }
        return Ok(());
    }
    let (head, list) = statement.split_once('(').ok_or_else(unknown)?;
    let list = list.strip_suffix(')').ok_or_else(unknown)?;
    let (returns, name) = type_and_name(head);
    let fact = fact(&returns, parameters(list));
    if let Some(short) = name.strip_prefix('P').filter(|short| is_standard(short)) {
        twins.insert((What::Function, short.to_owned()), fact);
    } else if is_standard(&name) {
        facts.insert((What::Function, name), fact);
    }
    Ok(())
}

/// `MPI_Count` may be a name for a name for `int64_t`.
fn stands_for(c_type: &str, defines: &BTreeMap<String, String>, facts: &Facts) -> String {
    let mut found = c_type.to_owned();
    loop {
        let known = facts.get(&(What::Type, found.clone()));
        let next = defines.get(&found).or(known.map(|fact| &fact.c_type));
        match next {
            Some(next) if *next != found => found.clone_from(next),
            _ => return found,
        }
    }
}

/// The types of parameters: `const int x[]` is `const int *`, `int x[][3]` is `int (*)[3]`.
fn parameters(list: &str) -> String {
    let types: Vec<String> = list
        .split(',')
        .map(str::trim)
        .filter(|parameter| !matches!(*parameter, "" | "void"))
        .map(|parameter| type_and_name(parameter).0)
        .collect();
    types.join("; ")
}

/// The type of a declaration, in one way of writing, and the name that it declares.
fn type_and_name(declaration: &str) -> (String, String) {
    let (plain, brackets) = match declaration.find('[') {
        Some(at) => declaration.split_at(at),
        None => (declaration, ""),
    };
    let plain = plain.trim();
    let at = plain
        .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map_or(0, |at| at + 1);
    let (before, name) = plain.split_at(at);
    if before.is_empty() {
        return (plain.to_owned(), String::new());
    }
    let stars = before.matches('*').count();
    let mut base: Vec<&str> = before
        .split(['*', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    // The const of a parameter itself says nothing to the caller.
    if stars == 0 && brackets.is_empty() {
        base.retain(|word| *word != "const");
    }
    let base = base.join(" ");
    let c_type = match (stars, brackets.matches('[').count()) {
        (0, 0) => base,
        (0, 2) => format!(
            "{base} (*){}",
            &brackets[brackets.rfind('[').unwrap_or(0)..]
        ),
        (stars, dimensions) => format!("{base} {}", "*".repeat(stars + dimensions)),
    };
    (c_type, name.to_owned())
}

/// The constant that `#define` makes of a name, if it does: `((T)value)`, a number, or another constant.
fn constant(name: &str, defines: &BTreeMap<String, String>, facts: &Facts) -> Option<Fact> {
    let body = defines.get(name)?;
    if defines.contains_key(body) {
        return constant(body, defines, facts);
    }
    if let Some(known) = facts.get(&(What::Constant, body.clone())) {
        return Some(known.clone());
    }
    let mut text = body.as_str();
    while let Some(inner) = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
    {
        text = inner.trim();
    }
    let (c_type, value) = match text.strip_prefix('(') {
        Some(cast) => cast.split_once(')')?,
        None => ("int", text),
    };
    let stars = c_type.matches('*').count();
    let base = c_type.replace('*', "").trim().to_owned();
    let c_type = if stars == 0 {
        base
    } else {
        format!("{base} {}", "*".repeat(stars))
    };
    let value = number(value.trim())?;
    Some(Fact {
        c_type,
        detail: value.to_string(),
    })
}
