//! The client of PMIx, by the library `libpmix.so.2`, which is loaded at run time. PRRTE, Open
//! MPI's mpirun and Slurm's `--mpi=pmix` serve PMIx.
//!
//! The structures are those of the PMIx standard's binding for C, versions 3 to 5: a process's
//! name, a value (a type, then 24 bytes at most), and seven functions. Values that are read here
//! are of plain types. The library allocates them with the C library's malloc, and this module
//! frees them.

use crate::{Error, Outcome, Place};
use ferriband_host::Event;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Environment of a rank of a launcher that serves PMIx: the name of its job.
pub const NAMESPACE: &str = "PMIX_NAMESPACE";

const LIBRARY: &str = "libpmix.so.2";
const SUCCESS: c_int = 0;
/// An operation that was over when its call returned: no answer follows.
const OVER: c_int = -157;
/// All ranks of a namespace.
const WILDCARD: u32 = u32::MAX - 1;
/// A value that all ranks may read.
const GLOBAL: u8 = 3;
const STRING: u16 = 3;
const UINT32: u16 = 14;

/// A process: the name of its job, and its rank there.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    nspace: [c_char; 256],
    rank: u32,
}

/// A value.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    uint32: u32,
    string: *mut c_char,
    /// As much as the largest of them takes.
    room: [u64; 3],
}

const _: () = assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32);

type Answer = unsafe extern "C" fn(c_int, *mut c_void);

/// The functions, by their types in the standard.
struct Functions {
    init: unsafe extern "C" fn(*mut Proc, *mut c_void, usize) -> c_int,
    get: unsafe extern "C" fn(
        *const Proc,
        *const c_char,
        *const c_void,
        usize,
        *mut *mut Value,
    ) -> c_int,
    put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int,
    commit: unsafe extern "C" fn() -> c_int,
    fence_nb: unsafe extern "C" fn(
        *const Proc,
        usize,
        *const c_void,
        usize,
        Answer,
        *mut c_void,
    ) -> c_int,
    abort: unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int,
    finalize: unsafe extern "C" fn(*const c_void, usize) -> c_int,
}

/// A connection to a process manager that speaks PMIx: the library, and this process's place.
pub struct Pmix {
    functions: Functions,
    me: Proc,
    place: Place,
    fence: Box<Fence>,
}

/// The answer to a fence, given by a thread of the library's.
struct Fence {
    /// 1: none came; else what it said.
    status: AtomicI32,
    /// Can be read when it came.
    bell: Event,
}

const NONE_CAME: c_int = 1;

unsafe extern "C" fn answer(status: c_int, fence: *mut c_void) {
    // SAFETY: the fence of a Pmix, which is kept until the process ends.
    let fence = unsafe { &*fence.cast::<Fence>() };
    fence.status.store(status.min(SUCCESS), Ordering::SeqCst);
    fence.bell.signal();
}

/// A name of the place that the process manager has given to this process.
pub fn place_name() -> String {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    format!("pmix {} {}", variable(NAMESPACE), variable("PMIX_RANK"))
}

impl Pmix {
    /// Loads the library, from `file` if that is not empty, and connects.
    pub fn open(file: &str) -> Outcome<Self> {
        let functions = load(file)?;
        let mut me = Proc {
            nspace: [0; 256],
            rank: 0,
        };
        // SAFETY: the function's own type; nothing else is handed over.
        let status = unsafe { (functions.init)(&raw mut me, std::ptr::null_mut(), 0) };
        check("PMIx_Init", status)?;
        let bell =
            Event::new().map_err(|error| Error::new(format!("no eventfd can be made: {error}")))?;
        let job = name_of(&me);
        let mut pmix = Self {
            functions,
            me,
            place: Place {
                job,
                rank: me.rank,
                ranks: 0,
                program: None,
            },
            fence: Box::new(Fence {
                status: AtomicI32::new(NONE_CAME),
                bell,
            }),
        };
        pmix.place.ranks = pmix.number(WILDCARD, "pmix.job.size")?;
        pmix.place.program = pmix.number(me.rank, "pmix.appnum").ok();
        Ok(pmix)
    }

    /// Who this process is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The eventfd that can be read when a fence is over.
    pub fn fd(&self) -> RawFd {
        self.fence.bell.as_raw_fd()
    }

    /// Leaves a value of this rank, which other ranks find after the next fence.
    pub fn put(&mut self, key: &str, value: &str) -> Outcome {
        let (key, value) = (text(key)?, text(value)?);
        let mut value = Value {
            kind: STRING,
            data: Data {
                string: value.as_ptr().cast_mut(),
            },
        };
        // SAFETY: strings that live as long as the call, which copies them.
        let status = unsafe { (self.functions.put)(GLOBAL, key.as_ptr(), &raw mut value) };
        check("PMIx_Put", status)
    }

    /// What a rank has put before the last fence.
    pub fn get(&mut self, rank: u32, key: &str) -> Outcome<String> {
        self.value(rank, key, STRING, |value| {
            // SAFETY: a value of that type is a string that ends in zero, or none. It was made by
            // the C library's malloc, and nobody else has it.
            unsafe {
                let string = value.data.string;
                if string.is_null() {
                    return String::new();
                }
                let text = CStr::from_ptr(string).to_string_lossy().into_owned();
                libc::free(string.cast());
                text
            }
        })
    }

    fn number(&self, rank: u32, key: &str) -> Outcome<u32> {
        // SAFETY: a value of that type.
        self.value(rank, key, UINT32, |value| unsafe { value.data.uint32 })
    }

    /// What a rank of this job has put, or the process manager says of the rank.
    fn value<T>(
        &self,
        rank: u32,
        key: &str,
        kind: u16,
        read: impl FnOnce(&Value) -> T,
    ) -> Outcome<T> {
        let name = text(key)?;
        let who = Proc { rank, ..self.me };
        let mut found: *mut Value = std::ptr::null_mut();
        // SAFETY: local memory; the library sets the pointer to a value that is now ours.
        let status = unsafe {
            (self.functions.get)(
                &raw const who,
                name.as_ptr(),
                std::ptr::null(),
                0,
                &raw mut found,
            )
        };
        check(&format!("PMIx_Get({key} of {rank})"), status)?;
        if found.is_null() {
            return Err(Error::new(format!("PMIx knows no {key} of {rank}")));
        }
        // SAFETY: as above.
        let value = unsafe { &*found };
        let outcome = if value.kind == kind {
            Ok(read(value))
        } else {
            Err(Error::new(format!(
                "PMIx says {key} of {rank} in type {}, not {kind}",
                value.kind
            )))
        };
        // SAFETY: the C library's memory, and nobody has it any more.
        unsafe { libc::free(found.cast()) };
        outcome
    }

    /// Comes to a fence.
    pub fn begin_fence(&mut self) -> Outcome {
        // SAFETY: a function without arguments.
        check("PMIx_Commit", unsafe { (self.functions.commit)() })?;
        self.fence.status.store(NONE_CAME, Ordering::SeqCst);
        let data = (&raw const *self.fence).cast_mut().cast();
        // SAFETY: nothing but the fence is handed over, which lives as long as the process.
        let status = unsafe {
            (self.functions.fence_nb)(std::ptr::null(), 0, std::ptr::null(), 0, answer, data)
        };
        if status == OVER {
            self.fence.status.store(SUCCESS, Ordering::SeqCst);
            return Ok(());
        }
        check("PMIx_Fence_nb", status)
    }

    /// Whether the fence is over.
    pub fn is_fence_over(&mut self) -> Outcome<bool> {
        let status = self.fence.status.load(Ordering::SeqCst);
        if status == NONE_CAME {
            return Ok(false);
        }
        let mut count = 0_u64;
        // SAFETY: a local word of eight bytes.
        unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
        check("PMIx_Fence", status).map(|()| true)
    }

    /// Has all ranks of the job ended with status `code`.
    pub fn abort(&mut self, code: i32, why: &str) {
        let why = text(why).unwrap_or_default();
        // SAFETY: a string that lives as long as the call; no processes means all.
        unsafe { (self.functions.abort)(code, why.as_ptr(), std::ptr::null_mut(), 0) };
    }

    /// Says that this rank may end.
    pub fn leave(self: Box<Self>) {
        // SAFETY: nothing is handed over.
        unsafe { (self.functions.finalize)(std::ptr::null(), 0) };
        // A late answer would find it.
        let Self { fence, .. } = *self;
        std::mem::forget(fence);
    }
}

fn name_of(process: &Proc) -> String {
    let bytes: Vec<u8> = process
        .nspace
        .iter()
        .map(|letter| letter.cast_unsigned())
        .take_while(|letter| *letter != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn text(text: &str) -> Outcome<CString> {
    CString::new(text).map_err(|_| Error::new(format!("{text:?} has a zero in it")))
}

fn check(call: &str, status: c_int) -> Outcome {
    if status == SUCCESS {
        Ok(())
    } else {
        Err(Error::new(format!(
            "{call} fails with PMIx's status {status}"
        )))
    }
}

/// The library's functions. Its file is the one that was named; else the one that the launcher has
/// loaded; else the one that the loader finds. The launcher's comes before the loader's, because
/// clients of version 4 do not understand all that servers of version 5 say.
fn load(file: &str) -> Outcome<Functions> {
    let names: Vec<String> = if file.is_empty() {
        let own = launchers_own();
        own.into_iter().chain([LIBRARY.to_owned()]).collect()
    } else {
        vec![file.to_owned()]
    };
    let mut why = String::new();
    for name in &names {
        let path = text(name)?;
        // Its own plug-ins look for its symbols, so they must be seen by all.
        // SAFETY: loading a library runs its initializers. The user has chosen this launcher, and
        // with it the library.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if !handle.is_null() {
            return functions(handle, name);
        }
        // SAFETY: a string of the loader's, valid until the next call.
        let said = unsafe { CStr::from_ptr(libc::dlerror()) };
        why = said.to_string_lossy().into_owned();
    }
    Err(Error::new(format!(
        "the launcher serves PMIx, and {LIBRARY} cannot be loaded: {why} (FERRIBAND_MPI_PMIX_LIBRARY names the file)"
    )))
}

/// The file of the library in the process that has started this one.
fn launchers_own() -> Option<String> {
    let parent = std::os::unix::process::parent_id();
    let maps = std::fs::read_to_string(format!("/proc/{parent}/maps")).ok()?;
    let mut files = maps
        .lines()
        .filter_map(|line| line.split_once('/').map(|(_, path)| path));
    let path = files.find(|path| {
        path.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("libpmix.so"))
    })?;
    Some(format!("/{path}"))
}

fn functions(handle: *mut c_void, file: &str) -> Outcome<Functions> {
    let find = |name: &str| -> Outcome<*mut c_void> {
        let symbol = text(name)?;
        // SAFETY: a handle of the loader's and a string.
        let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        if found.is_null() {
            Err(Error::new(format!("{file} has no {name}")))
        } else {
            Ok(found)
        }
    };
    // SAFETY: each is a function of the type that the standard gives it.
    unsafe {
        Ok(Functions {
            init: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut Proc, *mut c_void, usize) -> c_int,
            >(find("PMIx_Init")?),
            get: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(
                    *const Proc,
                    *const c_char,
                    *const c_void,
                    usize,
                    *mut *mut Value,
                ) -> c_int,
            >(find("PMIx_Get")?),
            put: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int,
            >(find("PMIx_Put")?),
            commit: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(find(
                "PMIx_Commit",
            )?),
            fence_nb: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(
                    *const Proc,
                    usize,
                    *const c_void,
                    usize,
                    Answer,
                    *mut c_void,
                ) -> c_int,
            >(find("PMIx_Fence_nb")?),
            abort: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int,
            >(find("PMIx_Abort")?),
            finalize: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*const c_void, usize) -> c_int,
            >(find("PMIx_Finalize")?),
        })
    }
}

// SAFETY: the library may be called from any thread; the pointers are its functions.
unsafe impl Send for Pmix {}
