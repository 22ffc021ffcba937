//! What a process may make before MPI is there and use when it is gone: info objects, error handlers, error classes.
//!
//! Behind a lock of its own, which is taken for moments and never while the program's functions run.

use crate::constants::*;
use crate::errors::{MpiError, Outcome, describe};
use crate::ground::fresh::Fresh;
use crate::handle::{Kind, Slab};
use crate::objects::attr::Callback;
use crate::objects::info::Info;
use std::sync::MutexGuard;

/// What an error handler of the program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Communicators.
    Comm,
    /// Sessions.
    Session,
    /// Windows.
    Window,
    /// Files.
    File,
}

/// An error handler of the program.
#[derive(Clone, Copy, Debug)]
pub struct Handler {
    /// What it is for.
    pub scope: Scope,
    /// What is called.
    pub call: Callback,
    /// The program's handle and the objects that have it.
    uses: u32,
}

/// A class or code that the program has added.
#[derive(Clone, Debug)]
struct Added {
    /// The class of a code; a class is its own.
    class: i32,
    text: String,
}

/// First code that a program may add.
const FIRST_CODE: i32 = MPI_ERR_LASTCODE + 1;

/// All of it.
#[derive(Debug)]
pub struct Process {
    /// Info objects.
    pub infos: Slab<Info>,
    handlers: Slab<Handler>,
    /// By code, from [`FIRST_CODE`] on.
    added: Vec<Option<Added>>,
    /// The handler of errors in files that are not open.
    pub files: i32,
}

/// Takes the lock.
pub fn process() -> MutexGuard<'static, Process> {
    PROCESS.lock()
}

static PROCESS: Fresh<Process> = Fresh::new(Process::new);

/// In a forked child: objects and handlers are its parent's.
pub fn forget() {
    PROCESS.forget();
}

fn is_predefined(handler: i32) -> bool {
    [MPI_ERRORS_ARE_FATAL, MPI_ERRORS_ABORT, MPI_ERRORS_RETURN].contains(&handler)
}

impl Process {
    fn new() -> Self {
        Self {
            infos: Slab::new(Kind::Info),
            handlers: Slab::new(Kind::Errhandler),
            added: Vec::new(),
            files: MPI_ERRORS_RETURN,
        }
    }

    /// Keeps an info object; its handle.
    pub fn add_info(&mut self, info: Info) -> Outcome<i32> {
        let index = self
            .infos
            .insert(info)
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many info objects"))?;
        Ok(self.infos.handle(index))
    }

    /// What a handle names as argument of another call: nothing in MPI_INFO_NULL.
    pub fn hints(&self, handle: i32) -> Outcome<Info> {
        match handle {
            MPI_INFO_NULL => Ok(Info::default()),
            MPI_INFO_ENV => Ok(environment()),
            _ => Ok(self.info(handle)?.1.clone()),
        }
    }

    /// The info object that a handle names, and its index.
    pub fn info(&self, handle: i32) -> Outcome<(u32, &Info)> {
        let index = self.infos.index_of(handle);
        index
            .and_then(|index| Some((index, self.infos.get(index)?)))
            .ok_or_else(|| MpiError::new(MPI_ERR_INFO))
    }

    /// Makes an error handler; its handle.
    pub fn add_handler(&mut self, scope: Scope, call: Callback) -> Outcome<i32> {
        if call.function == 0 {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let index = self
            .handlers
            .insert(Handler {
                scope,
                call,
                uses: 1,
            })
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many error handlers"))?;
        Ok(self.handlers.handle(index))
    }

    /// The program's error handler that a handle names; none for a predefined one.
    pub fn handler(&self, handle: i32) -> Outcome<Option<Handler>> {
        if is_predefined(handle) {
            return Ok(None);
        }
        let index = self.handlers.index_of(handle);
        index
            .map(|index| Some(self.handlers[index]))
            .ok_or_else(|| MpiError::new(MPI_ERR_ERRHANDLER))
    }

    /// Something keeps a handler: an object of this kind, or the program.
    pub fn retain(&mut self, handle: i32, scope: Option<Scope>) -> Outcome {
        let Some(handler) = self.handler(handle)? else {
            return Ok(());
        };
        if scope.is_some_and(|scope| scope != handler.scope) {
            return Err(MpiError::with(
                MPI_ERR_ERRHANDLER,
                "it is for another kind of object",
            ));
        }
        if let Some(index) = self.handlers.index_of(handle) {
            self.handlers[index].uses += 1;
        }
        Ok(())
    }

    /// Something keeps a handler no more.
    pub fn release(&mut self, handle: i32) {
        let Some(index) = self.handlers.index_of(handle) else {
            return;
        };
        self.handlers[index].uses -= 1;
        if self.handlers[index].uses == 0 {
            self.handlers.remove(index);
        }
    }

    fn place(&self, code: i32) -> Option<usize> {
        let at = usize::try_from(code.checked_sub(FIRST_CODE)?).ok()?;
        self.added.get(at)?.as_ref().map(|_| at)
    }

    fn add(&mut self, class: Option<i32>) -> Outcome<i32> {
        let at = self.added.iter().position(Option::is_none);
        let at = at.unwrap_or(self.added.len());
        let code = i32::try_from(at)
            .ok()
            .and_then(|at| FIRST_CODE.checked_add(at))
            .ok_or_else(|| MpiError::with(MPI_ERR_OTHER, "too many error codes"))?;
        let added = Some(Added {
            class: class.unwrap_or(code),
            text: String::new(),
        });
        if at == self.added.len() {
            self.added.push(added);
        } else {
            self.added[at] = added;
        }
        Ok(code)
    }

    /// MPI_Add_error_class.
    pub fn add_class(&mut self) -> Outcome<i32> {
        self.add(None)
    }

    /// MPI_Add_error_code.
    pub fn add_code(&mut self, class: i32) -> Outcome<i32> {
        if self.class_of(class) != Some(class) {
            return Err(MpiError::with(MPI_ERR_ARG, format!("{class} is no class")));
        }
        self.add(Some(class))
    }

    /// MPI_Add_error_string; an empty one takes it away.
    pub fn set_text(&mut self, code: i32, text: String) -> Outcome {
        let at = self.place(code).ok_or_else(|| not_added(code))?;
        if text.len() >= MPI_MAX_ERROR_STRING as usize {
            return Err(MpiError::with(MPI_ERR_ARG, format!("{} bytes", text.len())));
        }
        if let Some(added) = &mut self.added[at] {
            added.text = text;
        }
        Ok(())
    }

    /// MPI_Remove_error_string.
    pub fn remove_text(&mut self, code: i32) -> Outcome {
        self.set_text(code, String::new())
    }

    /// MPI_Remove_error_class (`is_class`) and MPI_Remove_error_code.
    pub fn remove(&mut self, code: i32, is_class: bool) -> Outcome {
        let at = self.place(code).ok_or_else(|| not_added(code))?;
        let class = self.class_of(code);
        if (class == Some(code)) != is_class {
            return Err(not_added(code));
        }
        let codes = (0..).zip(&self.added).filter(|(other, added)| {
            *other != at && added.as_ref().is_some_and(|added| added.class == code)
        });
        if is_class && codes.count() > 0 {
            return Err(MpiError::with(MPI_ERR_OTHER, "the class has codes"));
        }
        if self.text(code) != Some("") {
            return Err(MpiError::with(MPI_ERR_OTHER, "it has a string"));
        }
        self.added[at] = None;
        while let Some(None) = self.added.last() {
            self.added.pop();
        }
        Ok(())
    }

    /// The class of a code, if there is such a code.
    pub fn class_of(&self, code: i32) -> Option<i32> {
        if describe(code).is_some() {
            return Some(code);
        }
        let at = self.place(code)?;
        self.added[at].as_ref().map(|added| added.class)
    }

    /// What MPI_Error_string says of a code that the program has added.
    pub fn text(&self, code: i32) -> Option<&str> {
        let at = self.place(code)?;
        self.added[at].as_ref().map(|added| added.text.as_str())
    }

    /// The value of MPI_LASTUSEDCODE.
    pub fn last_code(&self) -> i32 {
        MPI_ERR_LASTCODE + self.added.len() as i32
    }
}

#[cold]
fn not_added(code: i32) -> MpiError {
    MpiError::with(MPI_ERR_ARG, format!("{code} was not added by the program"))
}

/// MPI_INFO_ENV: how this process was started, as far as it is known.
pub fn environment() -> Info {
    let mut info = Info::default();
    let mut set = |key: &str, value: &str| {
        // A value that is too long is left out.
        let _ = info.set(key, value);
    };
    let mut arguments = std::env::args_os().map(|one| one.to_string_lossy().into_owned());
    if let Some(command) = arguments.next() {
        set("command", &command);
    }
    let rest: Vec<String> = arguments.collect();
    if !rest.is_empty() {
        set("argv", &rest.join(" "));
    }
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        set("host", name.trim());
    }
    set("arch", std::env::consts::ARCH);
    if let Ok(dir) = std::env::current_dir() {
        set("wdir", &dir.to_string_lossy());
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_belong_to_classes() {
        let mut process = Process::new();
        assert_eq!(process.last_code(), MPI_ERR_LASTCODE);
        let class = process.add_class().expect("room");
        let code = process.add_code(class).expect("room");
        let other = process.add_code(MPI_ERR_ARG).expect("room");
        assert_eq!((class, code, other), (0x4000, 0x4001, 0x4002));
        assert_eq!(process.last_code(), other);
        assert_eq!(process.class_of(code), Some(class));
        assert_eq!(process.class_of(other), Some(MPI_ERR_ARG));
        assert_eq!(process.class_of(0x4003), None);
        assert!(process.add_code(code).is_err(), "a code is no class");
        process.set_text(code, "burnt".to_owned()).expect("there");
        assert_eq!(process.text(code), Some("burnt"));
        assert!(process.set_text(MPI_ERR_ARG, "mine".to_owned()).is_err());
        assert!(process.remove(class, true).is_err(), "it has a code");
        assert!(process.remove(code, true).is_err(), "it is a code");
        assert!(process.remove(code, false).is_err(), "it has a string");
        process.remove_text(code).expect("there");
        process.remove(code, false).expect("there");
        process.remove(class, true).expect("empty");
        assert_eq!(process.class_of(class), None);
        assert_eq!(process.add_class(), Ok(class), "the number is used again");
    }

    #[test]
    fn a_handler_goes_with_the_last_that_has_it() {
        let mut process = Process::new();
        let call = Callback {
            function: 8,
            thunk: 16,
        };
        let handle = process.add_handler(Scope::Comm, call).expect("room");
        process.retain(handle, Some(Scope::Comm)).expect("fits");
        assert!(process.retain(handle, Some(Scope::Session)).is_err());
        process.release(handle);
        assert!(process.handler(handle).expect("kept").is_some());
        process.release(handle);
        assert_eq!(
            process.handler(handle).expect_err("gone").class,
            MPI_ERR_ERRHANDLER
        );
        process.retain(MPI_ERRORS_RETURN, None).expect("predefined");
        process.release(MPI_ERRORS_RETURN);
    }
}
