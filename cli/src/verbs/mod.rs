//! The C verbs API of a library opened at run time: Ferriband's own or the system's.
//!
//! Owns: the symbol table, device lists and queries. Objects of one queue pair's life are in
//! [`session`]. Must not know: who implements the library.

pub mod devices;
pub mod many;
pub mod session;

use crate::failure::Failure;
use crate::launch;
use ferriband_verbs_sys::*;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::{io, ptr};

/// Which libibverbs to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Ferriband's.
    Ours,
    /// The one that the dynamic loader finds.
    System,
}

impl Source {
    /// The choice of a `--system` flag.
    pub fn from_flag(system: bool) -> Self {
        if system { Source::System } else { Source::Ours }
    }
}

macro_rules! library {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// An opened library and the functions of it that we call. It stays loaded for the life of
        /// the process (libibverbs is not made to be unloaded).
        #[allow(missing_docs)]
        pub struct Library {
            /// What was opened, for messages.
            pub path: PathBuf,
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn load(handle: *mut c_void, path: PathBuf) -> Result<Self, Failure> {
                Ok(Library {
                    $($name: {
                        let name = CString::new(stringify!($name)).expect("an identifier has no NUL");
                        // SAFETY: handle came from dlopen and is never closed; name is a C string.
                        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
                        if address.is_null() {
                            return Err(Failure::new(format!(
                                "{} has no symbol {}", path.display(), stringify!($name)
                            )).remedy("it is not a libibverbs.so.1, or a very old one"));
                        }
                        // SAFETY: the symbol's type is what verbs.h declares, spelled in the table below.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(address)
                        }
                    },)*
                    path,
                })
            }
        }
    };
}

library! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list: fn(*mut *mut ibv_device);
    ibv_get_device_name: fn(*mut ibv_device) -> *const c_char;
    ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device: fn(*mut ibv_context) -> c_int;
    ibv_query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    ibv_query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    ibv_query_gid: fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
    ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    ibv_dereg_mr: fn(*mut ibv_mr) -> c_int;
    ibv_create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
    ibv_create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    ibv_destroy_cq: fn(*mut ibv_cq) -> c_int;
    ibv_get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut ibv_cq, u32);
    ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_destroy_qp: fn(*mut ibv_qp) -> c_int;
    ibv_create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    ibv_destroy_ah: fn(*mut ibv_ah) -> c_int;
    ibv_wc_status_str: fn(ibv_wc_status) -> *const c_char;
}

impl Library {
    /// Opens the library and binds every function that we use.
    pub fn open(source: Source) -> Result<Rc<Self>, Failure> {
        let path = match source {
            Source::Ours => launch::lib_dir()?.join(launch::VERBS_SONAME),
            Source::System => launch::VERBS_SONAME.into(),
        };
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| Failure::new(format!("{} has a NUL in its name", path.display())))?;
        // SAFETY: opening a libibverbs runs its constructors, as for any program linked to it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: after a failed dlopen, dlerror returns a C string that lives until the next call.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) }
                .to_string_lossy()
                .into_owned();
            let remedy = match source {
                Source::Ours => "build it again with: cargo xtask libs",
                Source::System => "install it by package name: libibverbs1",
            };
            return Err(
                Failure::new(format!("cannot open {}: {why}", path.display())).remedy(remedy),
            );
        }
        Library::load(handle, path).map(Rc::new)
    }

    /// Opens every adapter, or the one of that name.
    pub fn contexts(self: &Rc<Self>, only: Option<&str>) -> Result<Vec<Context>, Failure> {
        let mut count = 0;
        // SAFETY: count is a valid int to write to.
        let list = unsafe { (self.ibv_get_device_list)(&mut count) };
        if list.is_null() {
            return Err(Failure::os(
                "list the adapters of",
                &self.path.display().to_string(),
            ));
        }
        let mut contexts = Vec::new();
        let mut failure = None;
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the list holds count devices.
            let device = unsafe { *list.add(index) };
            // SAFETY: the device is of this list; its name is a C string inside it.
            let name = unsafe { CStr::from_ptr((self.ibv_get_device_name)(device)) }
                .to_string_lossy()
                .into_owned();
            if only.is_some_and(|only| only != name) {
                continue;
            }
            // SAFETY: the device is of a list that is freed only after its context is open.
            let raw = unsafe { (self.ibv_open_device)(device) };
            if raw.is_null() {
                failure = Some(Failure::os("open", &format!("adapter {name}")));
                break;
            }
            contexts.push(Context {
                library: self.clone(),
                raw,
                name,
            });
        }
        // SAFETY: the list came from ibv_get_device_list; open contexts keep their devices.
        unsafe { (self.ibv_free_device_list)(list) };
        match failure {
            Some(failure) => Err(failure),
            None => Ok(contexts),
        }
    }

    /// The first adapter, or the one of that name.
    pub fn context(self: &Rc<Self>, name: Option<&str>) -> Result<Context, Failure> {
        self.contexts(name)?.into_iter().next().ok_or_else(|| {
            let what = match name {
                Some(name) => format!("{} has no adapter {name}", self.path.display()),
                None => format!("{} has no adapter", self.path.display()),
            };
            Failure::new(what).remedy("see what there is with: ferriband devices")
        })
    }

    /// What a completion status means.
    pub fn status_name(&self, status: ibv_wc_status) -> String {
        // SAFETY: the function takes any value and returns a static C string.
        unsafe { CStr::from_ptr((self.ibv_wc_status_str)(status)) }
            .to_string_lossy()
            .into_owned()
    }
}

/// Turns a verbs return value (0, or an errno; some return -1 and set errno) into a result.
pub fn check(rc: c_int, verb: &str, object: &str) -> Result<(), Failure> {
    match rc {
        0 => Ok(()),
        -1 => Err(Failure::os(verb, object)),
        errno => Err(Failure::io(
            verb,
            object,
            &io::Error::from_raw_os_error(errno.abs()),
        )),
    }
}

/// An open adapter.
pub struct Context {
    library: Rc<Library>,
    raw: *mut ibv_context,
    /// Its name.
    pub name: String,
}

impl Context {
    /// Limits and identity.
    pub fn attributes(&self) -> Result<ibv_device_attr, Failure> {
        let mut attributes = ibv_device_attr::default();
        // SAFETY: the context is open, attributes is a valid struct to write to.
        let rc = unsafe { (self.library.ibv_query_device)(self.raw, &mut attributes) };
        check(rc, "query", &format!("adapter {}", self.name)).map(|()| attributes)
    }

    /// State of a port, counted from 1.
    pub fn port(&self, port: u8) -> Result<ibv_port_attr, Failure> {
        let mut attributes = ibv_port_attr::default();
        // SAFETY: the context is open; the exported function writes at most the struct of verbs.h.
        let rc = unsafe { (self.library.ibv_query_port)(self.raw, port, &mut attributes) };
        check(
            rc,
            "query",
            &format!("port {port} of adapter {}", self.name),
        )
        .map(|()| attributes)
    }

    /// An entry of a port's GID table.
    pub fn gid(&self, port: u8, index: c_int) -> Result<[u8; 16], Failure> {
        let mut gid = ibv_gid::default();
        // SAFETY: the context is open, gid is a valid union to write to.
        let rc = unsafe { (self.library.ibv_query_gid)(self.raw, port, index, &mut gid) };
        check(
            rc,
            "read",
            &format!("GID {index} of port {port} of adapter {}", self.name),
        )?;
        // SAFETY: the raw view of a GID is defined for every value.
        Ok(unsafe { gid.raw })
    }

    /// The verbs_context around an ibv_context, as verbs_get_ctx() finds it; NULL when there is none.
    fn extended(&self) -> *mut verbs_context {
        // SAFETY: the context is open and its abi_compat field is set at creation.
        let marker = unsafe { (*self.raw).abi_compat };
        if marker as usize != usize::MAX {
            return ptr::null_mut();
        }
        let offset = std::mem::offset_of!(verbs_context, context);
        // SAFETY: the marker says that the context is the last field of a verbs_context.
        unsafe { self.raw.byte_sub(offset).cast() }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once, after every object made from it (they hold an Rc).
        unsafe { (self.library.ibv_close_device)(self.raw) };
    }
}
