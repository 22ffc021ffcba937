//! The tables of `ulp/mpi/abi/table`: what the MPI 5.0 standard ABI says of functions, callbacks and constants.
//!
//! A parameter is `C declaration:kind`. The kind says how the face hands it to the runtime, which knows handles as 32-bit numbers and counts
//! as 64-bit ones whatever the program's ABI is:
//!
//! | kind | |
//! |---|---|
//! | h, ho, hio, ha | a handle: by value, out, in and out, an array |
//! | n, no, nio, na | a count or displacement that the `_c` function has wider: by value, out, in and out, an array |
//! | w, wp | an MPI_Aint, MPI_Offset or MPI_Count in both, and a pointer to such |
//! | i, ip, d, b, bp, str, strv, st, raw | passed on as it is: int, double, buffer, string, status, tools interface |
//! | f | a function: passed with the thunk that calls it |
//! | va | dots: dropped |

use std::path::Path;

/// A function of the standard.
pub struct Function {
    pub name: String,
    pub chapter: String,
    pub state: State,
    /// Name of the parameter whose error handler is asked, or MPI_FILE_NULL of calls without an open file; none: that of MPI_COMM_SELF.
    pub handler: Option<String>,
    pub returns: String,
    pub parameters: Vec<Parameter>,
}

impl Function {
    /// Whether it makes a datatype and none of its arguments tells by its width which of the two forms was called: the runtime must
    /// know, because MPI_Type_get_envelope_c tells the arguments again.
    fn hides_its_form(&self) -> bool {
        let has = |kind: &str| self.parameters.iter().any(|other| other.kind == kind);
        self.name.starts_with("MPI_Type_")
            && self.parameters.iter().any(|other| other.name == "newtype")
            && !has("na")
    }
}

/// What becomes of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The runtime has it.
    Offered,
    /// It belongs to the core, and raises MPI_ERR_UNSUPPORTED_OPERATION until the runtime has it.
    Core,
    /// Windows, files, dynamic processes, Fortran: raises MPI_ERR_UNSUPPORTED_OPERATION.
    Later,
    /// The tools interface, which cannot be initialized.
    Tools,
    /// The face does it alone.
    Face,
}

/// A parameter of a function.
#[derive(Clone)]
pub struct Parameter {
    /// The C declaration, as it stands in mpi.h.
    pub declaration: String,
    /// The C type without name and brackets.
    pub c_type: String,
    pub name: String,
    /// `[]` or `[][3]` or nothing.
    pub brackets: String,
    pub kind: String,
}

/// A callback's type.
pub struct Callback {
    pub name: String,
    pub returns: String,
    pub parameters: String,
}

/// A constant: `=` as type makes it another name for its value.
pub struct Constant {
    pub name: String,
    pub c_type: String,
    pub value: String,
}

/// The tables.
pub struct Tables {
    pub functions: Vec<Function>,
    pub callbacks: Vec<Callback>,
    pub constants: Vec<Constant>,
    /// Functions that are no part of the standard: mpi-ext.h declares them.
    pub extensions: Vec<Function>,
    pub extension_constants: Vec<Constant>,
}

impl Tables {
    /// Reads them from `dir`.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let rows = |name: &str, width: usize| -> Result<Vec<Vec<String>>, String> {
            let path = dir.join(name);
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            text.lines()
                .enumerate()
                .skip(1)
                .map(|(index, line)| {
                    let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
                    if cells.len() == width {
                        Ok(cells)
                    } else {
                        Err(format!(
                            "{}:{}: {} columns, not {width}",
                            path.display(),
                            index + 1,
                            cells.len()
                        ))
                    }
                })
                .collect()
        };
        let functions_of = |name: &str| -> Result<Vec<Function>, String> {
            let rows = rows(name, 6)?;
            rows.iter().map(|cells| function(cells)).collect()
        };
        let constants_of = |name: &str| -> Result<Vec<Constant>, String> {
            let rows = rows(name, 3)?.into_iter();
            Ok(rows.map(constant).collect())
        };
        let callbacks = rows("callbacks.tsv", 3)?
            .into_iter()
            .map(|cells| Callback {
                name: cells[0].clone(),
                returns: cells[1].clone(),
                parameters: cells[2].clone(),
            })
            .collect();
        Ok(Self {
            functions: functions_of("functions.tsv")?,
            callbacks,
            constants: constants_of("constants.tsv")?,
            extensions: functions_of("extensions.tsv")?,
            extension_constants: constants_of("extension_constants.tsv")?,
        })
    }

    /// All functions: the standard's and those of extensions.
    pub fn all(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().chain(&self.extensions)
    }

    /// The value of an integral constant.
    pub fn value(&self, name: &str) -> Option<i64> {
        let constant = self
            .constants
            .iter()
            .find(|constant| constant.name == name)?;
        number(&constant.value)
    }

    /// The symbol of the runtime that serves `function`: `_c` and plain form share one when they take the same parameters.
    pub fn private_name(&self, function: &Function) -> String {
        let base = function
            .name
            .strip_suffix("_c")
            .and_then(|short| self.functions.iter().find(|other| other.name == short))
            .filter(|other| other.parameters.len() == function.parameters.len())
            .filter(|other| !other.hides_its_form())
            .unwrap_or(function);
        format!("ferriband_{}", base.name.to_lowercase())
    }
}

/// A decimal or hexadecimal number.
pub fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn constant(cells: Vec<String>) -> Constant {
    Constant {
        name: cells[0].clone(),
        c_type: cells[1].clone(),
        value: cells[2].clone(),
    }
}

fn function(cells: &[String]) -> Result<Function, String> {
    let state = match cells[2].as_str() {
        "offered" => State::Offered,
        "core" => State::Core,
        "later" => State::Later,
        "tools" => State::Tools,
        "face" => State::Face,
        other => return Err(format!("functions.tsv: {}: state {other}", cells[0])),
    };
    let parameters = cells[5]
        .split("; ")
        .filter(|text| !text.is_empty())
        .map(|text| parameter(text).ok_or_else(|| format!("functions.tsv: {}: {text}", cells[0])))
        .collect::<Result<_, _>>()?;
    Ok(Function {
        name: cells[0].clone(),
        chapter: cells[1].clone(),
        state,
        handler: Some(cells[3].clone()).filter(|name| name != "-"),
        returns: cells[4].clone(),
        parameters,
    })
}

fn parameter(text: &str) -> Option<Parameter> {
    let (declaration, kind) = text.rsplit_once(':')?;
    let (plain, brackets) = match declaration.find('[') {
        Some(at) => declaration.split_at(at),
        None => (declaration, ""),
    };
    let at = plain
        .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map_or(0, |at| at + 1);
    let (c_type, name) = plain.split_at(at);
    Some(Parameter {
        declaration: declaration.to_owned(),
        c_type: c_type.trim().to_owned(),
        name: name.to_owned(),
        brackets: brackets.to_owned(),
        kind: kind.to_owned(),
    })
}
