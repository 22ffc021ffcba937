//! Which librdmacm, its functions, and the devices that it has opened.

use crate::error::VerbsError;
use crate::load::{Library, LoadError, Verbs, file_of, functions};
use crate::objects::context::Context;
use crate::objects::device::Device;
use ferriband_rdmacm_sys as cm;
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The library's name, for the loader and beside the library of verbs.
const SONAME: &str = "librdmacm.so.1";

functions! {
    /// The functions of a loaded connection manager.
    Functions
    required {
        rdma_create_event_channel @ "RDMACM_1.0": fn() -> *mut cm::rdma_event_channel;
        rdma_destroy_event_channel @ "RDMACM_1.0": fn(*mut cm::rdma_event_channel) -> ();
        rdma_get_cm_event @ "RDMACM_1.0": fn(*mut cm::rdma_event_channel, *mut *mut cm::rdma_cm_event) -> c_int;
        rdma_ack_cm_event @ "RDMACM_1.0": fn(*mut cm::rdma_cm_event) -> c_int;
        rdma_create_id @ "RDMACM_1.0":
            fn(*mut cm::rdma_event_channel, *mut *mut cm::rdma_cm_id, *mut c_void, cm::rdma_port_space) -> c_int;
        rdma_destroy_id @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id) -> c_int;
        rdma_bind_addr @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id, *mut libc::sockaddr) -> c_int;
        rdma_listen @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id, c_int) -> c_int;
        rdma_resolve_addr @ "RDMACM_1.0":
            fn(*mut cm::rdma_cm_id, *mut libc::sockaddr, *mut libc::sockaddr, c_int) -> c_int;
        rdma_resolve_route @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id, c_int) -> c_int;
        rdma_connect @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id, *mut cm::rdma_conn_param) -> c_int;
        rdma_accept @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id, *mut cm::rdma_conn_param) -> c_int;
        rdma_reject @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id, *const c_void, u8) -> c_int;
        rdma_disconnect @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id) -> c_int;
        rdma_notify @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id, sys::ibv_event_type) -> c_int;
        rdma_set_option @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id, c_int, c_int, *mut c_void, usize) -> c_int;
        rdma_create_qp @ "RDMACM_1.0":
            fn(*mut cm::rdma_cm_id, *mut sys::ibv_pd, *mut sys::ibv_qp_init_attr) -> c_int;
        rdma_destroy_qp @ "RDMACM_1.0": fn(*mut cm::rdma_cm_id) -> ();
        rdma_get_devices @ "RDMACM_1.0": fn(*mut c_int) -> *mut *mut sys::ibv_context;
        rdma_free_devices @ "RDMACM_1.0": fn(*mut *mut sys::ibv_context) -> ();
    }
    optional {
        rdma_establish @ "RDMACM_1.2": fn(*mut cm::rdma_cm_id) -> c_int;
        rdma_init_qp_attr @ "RDMACM_1.2": fn(*mut cm::rdma_cm_id, *mut sys::ibv_qp_attr, *mut c_int) -> c_int;
    }
}

/// A loaded connection manager.
pub struct Cm {
    pub(crate) f: Functions,
    verbs: &'static Verbs,
    path: PathBuf,
    /// Contexts that somebody uses, by their address.
    contexts: Mutex<Vec<(usize, Weak<Context>)>>,
}

impl Cm {
    /// Loads the connection manager that goes with a library of verbs: the one beside it, else the
    /// loader's first. It stays loaded for the life of the process; programs load once.
    ///
    /// # Errors
    /// Those of [`Verbs::load`], and [`LoadError::Mixed`] if it is linked to another library of
    /// verbs.
    pub fn load(verbs: &'static Verbs) -> Result<&'static Cm, LoadError> {
        let beside = verbs.path().parent().map(|beside| beside.join(SONAME));
        let library = match beside.filter(|file| file.exists()) {
            Some(file) => Library::open(&file)?,
            None => Library::open(Path::new(SONAME))?,
        };
        let path = library
            .symbol("rdma_create_id\0", "RDMACM_1.0\0")
            .and_then(|at| file_of(at.as_ptr()))
            .unwrap_or_else(|| PathBuf::from(SONAME));
        let f = Functions::of(library, &path)?;
        if library.verbs_list() != NonNull::new(verbs.f.ibv_get_device_list as *mut c_void) {
            return Err(LoadError::Mixed(path, verbs.path().to_path_buf()));
        }
        Ok(Box::leak(Box::new(Cm {
            f,
            verbs,
            path,
            contexts: Mutex::default(),
        })))
    }

    /// The file that was loaded.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The library of verbs that it works with.
    pub fn verbs(&self) -> &'static Verbs {
        self.verbs
    }

    /// The object of a context that the library has opened: one for all identifiers of the device.
    pub(super) fn context(
        &'static self,
        at: NonNull<sys::ibv_context>,
    ) -> Result<Arc<Context>, VerbsError> {
        // Each update leaves the table whole.
        let mut known = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let address = at.as_ptr().addr();
        known.retain(|(_, context)| context.strong_count() > 0);
        let found = known.iter().find(|(of, _)| *of == address);
        if let Some(context) = found.and_then(|(_, context)| context.upgrade()) {
            return Ok(context);
        }
        let context = self.hold(at)?;
        known.push((address, Arc::downgrade(&context)));
        Ok(context)
    }

    /// Holds the library's devices, one of whose contexts is asked for.
    fn hold(&'static self, at: NonNull<sys::ibv_context>) -> Result<Arc<Context>, VerbsError> {
        let mut count: c_int = 0;
        // SAFETY: the count is writable.
        let list = unsafe { (self.f.rdma_get_devices)(&raw mut count) };
        let list = NonNull::new(list).ok_or_else(|| VerbsError::last("rdma_get_devices"))?;
        let is_there = (0..usize::try_from(count).unwrap_or(0))
            // SAFETY: the library's array has `count` elements.
            .any(|index| unsafe { list.add(index).read() } == at.as_ptr());
        if !is_there {
            // SAFETY: nobody uses the list.
            unsafe { (self.f.rdma_free_devices)(list.as_ptr()) };
            return Err(VerbsError::new("rdma_get_devices", libc::ENODEV));
        }
        // SAFETY: the list is an answer of the library's, and the context is in it.
        let device = unsafe { Device::of_manager(self, list, at) }?;
        // SAFETY: as above.
        Ok(unsafe { Context::of_manager(at, device) })
    }
}

impl fmt::Debug for Cm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cm")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
