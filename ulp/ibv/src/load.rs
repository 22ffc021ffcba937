//! Which libibverbs, and its functions, each under the version that programs are linked against.
//!
//! The library is never closed again, so functions and objects live as long as the process.

use crate::error::VerbsError;
use ferriband_verbs_sys as sys;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// The variable that chooses.
const VARIABLE: &str = "FERRIBAND_VERBS";

/// The library's name, for the loader and beside us.
const SONAME: &str = "libibverbs.so.1";

/// A function that only Ferriband's library has.
const MARK: &CStr = c"ferriband_cm_create_id";

/// Where distributions keep libraries, for finding theirs when ours stands in front of it.
const SYSTEM_DIRECTORIES: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
];

/// Which library of verbs to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Ferriband's own, if it lies beside the library that contains this code; else the loader's first.
    Ferriband,
    /// The system's: the loader's first that is not Ferriband's.
    System,
    /// This file.
    File(PathBuf),
}

impl Choice {
    /// What the environment asks for: `FERRIBAND_VERBS` unset, empty or `ferriband`, `system`, or an absolute path.
    pub fn from_env() -> Result<Choice, LoadError> {
        std::env::var_os(VARIABLE).map_or(Ok(Choice::Ferriband), |value| Choice::parse(&value))
    }

    fn parse(value: &OsStr) -> Result<Choice, LoadError> {
        match value.as_bytes() {
            b"" | b"ferriband" => Ok(Choice::Ferriband),
            b"system" => Ok(Choice::System),
            [b'/', ..] => Ok(Choice::File(PathBuf::from(value))),
            _ => Err(LoadError::Choice(value.to_string_lossy().into_owned())),
        }
    }
}

/// Why a library could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// `FERRIBAND_VERBS` has a value that means nothing.
    Choice(String),
    /// The loader refused the file, in its words.
    Open(PathBuf, String),
    /// The file has not this function under this version.
    Symbol(PathBuf, &'static str, &'static str),
    /// The system's library was asked for, and Ferriband's is the only one there.
    NoSystem,
    /// This connection manager goes with another library of verbs than the one that is loaded, the
    /// second.
    Mixed(PathBuf, PathBuf),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Choice(value) => write!(
                f,
                "{VARIABLE}={value}: set it to ferriband, to system, or to the absolute path of a {SONAME}"
            ),
            LoadError::Open(path, why) => write!(
                f,
                "{} cannot be loaded: {why}; set {VARIABLE} to ferriband, system, or the path of another {SONAME}",
                path.display()
            ),
            LoadError::Symbol(path, name, node) => write!(
                f,
                "{} has no {name}@{node}, so it is no library of rdma-core 17 or newer; set {VARIABLE} to another {SONAME}",
                path.display()
            ),
            LoadError::Mixed(manager, verbs) => write!(
                f,
                "{} is not linked to {}, which is loaded: both must come from one installation",
                manager.display(),
                verbs.display()
            ),
            LoadError::NoSystem => write!(
                f,
                "{VARIABLE}=system, but the only {SONAME} found is Ferriband's; install the system's (Debian: libibverbs1) \
                 or set {VARIABLE} to its path"
            ),
        }
    }
}

impl std::error::Error for LoadError {}

/// A structure of functions of a library, each of a name under a version; those that may be missing
/// are options.
macro_rules! functions {
    (
        $(#[$doc:meta])* $struct:ident
        required { $($name:ident @ $node:literal: fn($($arg:ty),*) -> $ret:ty;)* }
        optional { $($oname:ident @ $onode:literal: fn($($oarg:ty),*) -> $oret:ty;)* }
    ) => {
        $(#[$doc])*
        pub(crate) struct $struct {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> $ret,)*
            $(pub $oname: Option<unsafe extern "C" fn($($oarg),*) -> $oret>,)*
        }

        impl $struct {
            /// Looks every function up in an opened library.
            pub(crate) fn of(library: Library, path: &Path) -> Result<$struct, LoadError> {
                Ok($struct {
                    $($name: {
                        let (name, node) = (stringify!($name), $node);
                        let at = library
                            .symbol(concat!(stringify!($name), "\0"), concat!($node, "\0"))
                            .ok_or_else(|| LoadError::Symbol(path.to_path_buf(), name, node))?;
                        // SAFETY: under this version the function has this prototype in every release of rdma-core.
                        unsafe { std::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($arg),*) -> $ret>(at) }
                    },)*
                    $($oname: library
                        .symbol(concat!(stringify!($oname), "\0"), concat!($onode, "\0"))
                        // SAFETY: as above.
                        .map(|at| unsafe {
                            std::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($oarg),*) -> $oret>(at)
                        }),)*
                })
            }
        }
    };
}

functions! {
    /// The functions of a loaded library of verbs.
    Functions
    required {
        ibv_get_device_list @ "IBVERBS_1.1": fn(*mut c_int) -> *mut *mut sys::ibv_device;
        ibv_free_device_list @ "IBVERBS_1.1": fn(*mut *mut sys::ibv_device) -> ();
        ibv_get_device_name @ "IBVERBS_1.1": fn(*mut sys::ibv_device) -> *const c_char;
        ibv_get_device_guid @ "IBVERBS_1.1": fn(*mut sys::ibv_device) -> u64;
        ibv_open_device @ "IBVERBS_1.1": fn(*mut sys::ibv_device) -> *mut sys::ibv_context;
        ibv_close_device @ "IBVERBS_1.1": fn(*mut sys::ibv_context) -> c_int;
        ibv_query_device @ "IBVERBS_1.1": fn(*mut sys::ibv_context, *mut sys::ibv_device_attr) -> c_int;
        ibv_query_port @ "IBVERBS_1.1": fn(*mut sys::ibv_context, u8, *mut sys::ibv_port_attr) -> c_int;
        ibv_query_gid @ "IBVERBS_1.1": fn(*mut sys::ibv_context, u8, c_int, *mut sys::ibv_gid) -> c_int;
        ibv_query_pkey @ "IBVERBS_1.1": fn(*mut sys::ibv_context, u8, c_int, *mut u16) -> c_int;
        ibv_get_async_event @ "IBVERBS_1.1": fn(*mut sys::ibv_context, *mut sys::ibv_async_event) -> c_int;
        ibv_ack_async_event @ "IBVERBS_1.1": fn(*mut sys::ibv_async_event) -> ();
        ibv_alloc_pd @ "IBVERBS_1.1": fn(*mut sys::ibv_context) -> *mut sys::ibv_pd;
        ibv_dealloc_pd @ "IBVERBS_1.1": fn(*mut sys::ibv_pd) -> c_int;
        ibv_reg_mr @ "IBVERBS_1.1": fn(*mut sys::ibv_pd, *mut c_void, usize, c_int) -> *mut sys::ibv_mr;
        ibv_dereg_mr @ "IBVERBS_1.1": fn(*mut sys::ibv_mr) -> c_int;
        ibv_create_comp_channel @ "IBVERBS_1.0": fn(*mut sys::ibv_context) -> *mut sys::ibv_comp_channel;
        ibv_destroy_comp_channel @ "IBVERBS_1.0": fn(*mut sys::ibv_comp_channel) -> c_int;
        ibv_create_cq @ "IBVERBS_1.1":
            fn(*mut sys::ibv_context, c_int, *mut c_void, *mut sys::ibv_comp_channel, c_int) -> *mut sys::ibv_cq;
        ibv_destroy_cq @ "IBVERBS_1.1": fn(*mut sys::ibv_cq) -> c_int;
        ibv_get_cq_event @ "IBVERBS_1.1":
            fn(*mut sys::ibv_comp_channel, *mut *mut sys::ibv_cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events @ "IBVERBS_1.1": fn(*mut sys::ibv_cq, c_uint) -> ();
        ibv_create_srq @ "IBVERBS_1.1": fn(*mut sys::ibv_pd, *mut sys::ibv_srq_init_attr) -> *mut sys::ibv_srq;
        ibv_modify_srq @ "IBVERBS_1.1": fn(*mut sys::ibv_srq, *mut sys::ibv_srq_attr, c_int) -> c_int;
        ibv_query_srq @ "IBVERBS_1.1": fn(*mut sys::ibv_srq, *mut sys::ibv_srq_attr) -> c_int;
        ibv_destroy_srq @ "IBVERBS_1.1": fn(*mut sys::ibv_srq) -> c_int;
        ibv_create_qp @ "IBVERBS_1.1": fn(*mut sys::ibv_pd, *mut sys::ibv_qp_init_attr) -> *mut sys::ibv_qp;
        ibv_modify_qp @ "IBVERBS_1.1": fn(*mut sys::ibv_qp, *mut sys::ibv_qp_attr, c_int) -> c_int;
        ibv_query_qp @ "IBVERBS_1.1":
            fn(*mut sys::ibv_qp, *mut sys::ibv_qp_attr, c_int, *mut sys::ibv_qp_init_attr) -> c_int;
        ibv_destroy_qp @ "IBVERBS_1.1": fn(*mut sys::ibv_qp) -> c_int;
        ibv_create_ah @ "IBVERBS_1.1": fn(*mut sys::ibv_pd, *mut sys::ibv_ah_attr) -> *mut sys::ibv_ah;
        ibv_destroy_ah @ "IBVERBS_1.1": fn(*mut sys::ibv_ah) -> c_int;
        ibv_fork_init @ "IBVERBS_1.1": fn() -> c_int;
    }
    optional {
        ibv_reg_mr_iova2 @ "IBVERBS_1.8": fn(*mut sys::ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut sys::ibv_mr;
        ibv_query_qp_data_in_order @ "IBVERBS_1.14": fn(*mut sys::ibv_qp, sys::ibv_wr_opcode, u32) -> c_int;
    }
}
pub(crate) use functions;

/// A loaded library of verbs.
pub struct Verbs {
    pub(crate) f: Functions,
    path: PathBuf,
    ours: bool,
}

impl Verbs {
    /// Loads a library and looks its functions up. It stays loaded for the life of the process; programs load once.
    pub fn load(choice: &Choice) -> Result<&'static Verbs, LoadError> {
        let library = match choice {
            Choice::File(path) => Library::open(path)?,
            Choice::Ferriband => open_ours()?,
            Choice::System => open_system()?,
        };
        let path = library.path();
        let f = Functions::of(library, &path)?;
        let ours = library.is_ours();
        Ok(Box::leak(Box::new(Verbs { f, path, ours })))
    }

    /// The file that was loaded.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if it is Ferriband's own: for messages, and for what only its adapter promises.
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// Makes registered memory survive `fork` in the parent, on kernels before 5.12. To be called before anything is registered.
    pub fn fork_init(&self) -> Result<(), VerbsError> {
        // SAFETY: the function takes no argument.
        let returned = unsafe { (self.f.ibv_fork_init)() };
        VerbsError::check("ibv_fork_init", returned)
    }
}

impl fmt::Debug for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verbs")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The library beside the file that contains this code, else the loader's.
fn open_ours() -> Result<Library, LoadError> {
    let beside = own_directory().map(|directory| directory.join(SONAME));
    match beside.filter(|file| file.exists()) {
        Some(file) => Library::open(&file),
        None => Library::open(Path::new(SONAME)),
    }
}

/// The loader's library if it is not Ferriband's, else the first in the system's directories that is not.
///
/// Ours must not even be tried: providers of the system's library (`libmlx5-rdmav34.so`) name it by SONAME, and would be bound to
/// whichever of the two was loaded first. So files in `LD_LIBRARY_PATH` are looked into before the loader is asked.
fn open_system() -> Result<Library, LoadError> {
    let first = std::env::var_os("LD_LIBRARY_PATH").and_then(|value| {
        std::env::split_paths(&value)
            .map(|directory| directory.join(SONAME))
            .find(|file| file.exists())
    });
    if !first.is_some_and(|file| file_is_ours(&file)) {
        let library = Library::open(Path::new(SONAME))?;
        if !library.is_ours() {
            return Ok(library);
        }
    }
    let theirs = SYSTEM_DIRECTORIES
        .iter()
        .map(|directory| Path::new(directory).join(SONAME))
        .find(|file| file.exists() && !file_is_ours(file));
    Library::open(&theirs.ok_or(LoadError::NoSystem)?)
}

/// True if a file's table of names has the mark; what cannot be read is not ours.
fn file_is_ours(file: &Path) -> bool {
    let mark = MARK.to_bytes_with_nul();
    std::fs::read(file).is_ok_and(|bytes| bytes.windows(mark.len()).any(|window| window == mark))
}

/// The directory of the file that contains this code.
fn own_directory() -> Option<PathBuf> {
    let path = file_of(own_directory as *const c_void)?;
    std::fs::canonicalize(path)
        .ok()?
        .parent()
        .map(Path::to_path_buf)
}

/// The loaded file that contains an address.
pub(crate) fn file_of(address: *const c_void) -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the address is only compared, and `info` is writable.
    let found = unsafe { libc::dladdr(address, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name belongs to the loader and ends in a zero; the file that contains this code is not unloaded meanwhile.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(std::ffi::OsString::from_vec(
        name.to_bytes().to_vec(),
    )))
}

/// A library that was opened and is never closed.
#[derive(Clone, Copy)]
pub(crate) struct Library(NonNull<c_void>);

impl Library {
    pub(crate) fn open(path: &Path) -> Result<Library, LoadError> {
        let refused = |why: String| LoadError::Open(path.to_path_buf(), why);
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| refused("its name contains a zero byte".into()))?;
        // SAFETY: the name is a string; what the library's constructors do is its affair, as for each library.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle)
            .map(Library)
            .ok_or_else(|| refused(last_dl_error()))
    }

    /// A function under a version. Both names end in a zero byte.
    pub(crate) fn symbol(self, name: &'static str, node: &'static str) -> Option<NonNull<c_void>> {
        let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("written with its zero");
        let node = CStr::from_bytes_with_nul(node.as_bytes()).expect("written with its zero");
        // SAFETY: the handle is open, both strings end in a zero.
        NonNull::new(unsafe { libc::dlvsym(self.0.as_ptr(), name.as_ptr(), node.as_ptr()) })
    }

    fn is_ours(self) -> bool {
        // SAFETY: the handle is open, the string ends in a zero.
        !unsafe { libc::dlsym(self.0.as_ptr(), MARK.as_ptr()) }.is_null()
    }

    /// The file behind the handle.
    fn path(self) -> PathBuf {
        self.verbs_list()
            .and_then(|at| file_of(at.as_ptr()))
            .unwrap_or_else(|| PathBuf::from(SONAME))
    }

    /// A function that tells libraries of verbs apart: its own, or that of the one that it is
    /// linked to.
    pub(crate) fn verbs_list(self) -> Option<NonNull<c_void>> {
        self.symbol("ibv_get_device_list\0", "IBVERBS_1.1\0")
    }
}

/// What the loader says of the call that just failed.
fn last_dl_error() -> String {
    // SAFETY: the text belongs to this thread until its next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader gives no reason".into();
    }
    // SAFETY: a string of the loader's.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_as_documented() {
        let parse = |text: &str| Choice::parse(OsStr::new(text));
        assert_eq!(parse(""), Ok(Choice::Ferriband));
        assert_eq!(parse("ferriband"), Ok(Choice::Ferriband));
        assert_eq!(parse("system"), Ok(Choice::System));
        assert_eq!(parse("/opt/x.so"), Ok(Choice::File("/opt/x.so".into())));
        let error = parse("sytem").expect_err("a slip of the pen").to_string();
        assert!(
            error.contains("sytem") && error.contains("system"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_no_library_is_named_with_the_loaders_reason() {
        let error = Verbs::load(&Choice::File("/dev/null".into())).expect_err("no library");
        let text = error.to_string();
        assert!(
            text.contains("/dev/null") && text.contains(VARIABLE),
            "{text}"
        );
    }
}
