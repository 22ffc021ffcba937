//! Beginning, end, and what a program asks about its environment.

use super::attribute::{Object, remove_all};
use super::init;
use super::raise::{abort, at_any_time, decide, on_any, on_no_file, outside};
use super::session;
use super::values::{put, put_string};
use crate::coll::state::{ENTRY, enter};
use crate::constants::*;
use crate::errors::MpiError;
use crate::job::settings::initial_errhandler;
use crate::job::state::{Phase, phase, set_phase};
use crate::objects::attr::Owner;
use crate::objects::comms::SELF;
use crate::objects::process::process;
use crate::trace;
use std::ffi::{c_char, c_double, c_int, c_void};

/// What MPI_Init_thread was asked for, and by which thread it was called.
static PROVIDED: std::sync::atomic::AtomicI32 =
    std::sync::atomic::AtomicI32::new(MPI_THREAD_SINGLE);
static MAIN_THREAD: std::sync::OnceLock<std::thread::ThreadId> = std::sync::OnceLock::new();

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_init(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
) -> c_int {
    begin("MPI_Init", MPI_THREAD_SINGLE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    let levels = [
        MPI_THREAD_SINGLE,
        MPI_THREAD_FUNNELED,
        MPI_THREAD_SERIALIZED,
    ];
    let level = levels
        .into_iter()
        .find(|level| required <= *level)
        .unwrap_or(MPI_THREAD_MULTIPLE);
    let code = begin("MPI_Init_thread", level);
    if code == MPI_SUCCESS && !provided.is_null() {
        // SAFETY: the program's pointer.
        unsafe { provided.write(level) };
    }
    code
}

fn begin(function: &str, threads: i32) -> c_int {
    if phase() == Phase::Child {
        return outside(function);
    }
    if phase() != Phase::Before {
        let twice = || Err(MpiError::with(MPI_ERR_OTHER, "MPI is initialized once"));
        return at_any_time(function, twice);
    }
    let begun_ns = trace::now_ns();
    match session::begin(threads) {
        Ok(guard) => drop(guard),
        Err(error) => return decide(None, initial_errhandler(), "", 0, function, &error),
    }
    drop(trace::span_from(function, begun_ns));
    PROVIDED.store(threads, std::sync::atomic::Ordering::Relaxed);
    let _ = MAIN_THREAD.set(std::thread::current().id());
    set_phase(Phase::Alive);
    MPI_SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_finalize() -> c_int {
    // A function that the parent has given to atexit, perhaps: there is nothing that could end.
    if phase() == Phase::Child {
        return MPI_SUCCESS;
    }
    on_any("MPI_Finalize", |guard| {
        // The program's functions still find MPI as it was.
        for handle in [MPI_COMM_SELF, MPI_COMM_WORLD] {
            let object = Object {
                owner: Owner::Comm,
                handle,
            };
            remove_all(guard, object).map_err(|error| (SELF, error))?;
        }
        init::finish(guard).map_err(|error| (SELF, error))?;
        if guard.point.objects.sessions.is_empty() {
            ENTRY.retire();
        }
        set_phase(Phase::After);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_initialized(flag: *mut c_int) -> c_int {
    let has_begun = c_int::from(phase() != Phase::Before);
    // SAFETY: the program's pointer.
    at_any_time("MPI_Initialized", || unsafe { put(flag, has_begun) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_finalized(flag: *mut c_int) -> c_int {
    let is_over = c_int::from(matches!(phase(), Phase::After | Phase::Child));
    // SAFETY: the program's pointer.
    at_any_time("MPI_Finalized", || unsafe { put(flag, is_over) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_query_thread(provided: *mut c_int) -> c_int {
    let level = PROVIDED.load(std::sync::atomic::Ordering::Relaxed);
    // SAFETY: the program's pointer.
    at_any_time("MPI_Query_thread", || unsafe { put(provided, level) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_is_thread_main(flag: *mut c_int) -> c_int {
    let is_main = MAIN_THREAD.get() == Some(&std::thread::current().id());
    // SAFETY: the program's pointer.
    at_any_time("MPI_Is_thread_main", || unsafe {
        put(flag, c_int::from(is_main))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_abort(_comm: i32, code: c_int) -> c_int {
    let guard = enter();
    let rank = guard.as_ref().map_or(0, |guard| guard.point.rank);
    complain!("ferriband: rank {rank}: MPI_Abort with code {code}");
    abort(guard.as_ref(), code)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_processor_name(
    name: *mut c_char,
    length: *mut c_int,
) -> c_int {
    let mut host = [0_u8; MPI_MAX_PROCESSOR_NAME as usize];
    // SAFETY: a local buffer, whose last byte stays 0.
    unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
    let end = host
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(host.len());
    let text = String::from_utf8_lossy(&host[..end]);
    // SAFETY: the standard promises room for MPI_MAX_PROCESSOR_NAME characters.
    at_any_time("MPI_Get_processor_name", || unsafe {
        put_string(&text, name, MPI_MAX_PROCESSOR_NAME, length)
    })
}

/// Seconds since some time in the past, the same for all ranks of a host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_wtime() -> c_double {
    let _span = trace::span("MPI_Wtime");
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as c_double + now.tv_nsec as c_double * 1e-9
}

/// Seconds between two ticks of that clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_wtick() -> c_double {
    let _span = trace::span("MPI_Wtick");
    1e-9
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_version(
    version: *mut c_int,
    subversion: *mut c_int,
) -> c_int {
    // SAFETY: the program's pointers.
    at_any_time("MPI_Get_version", || unsafe {
        put(version, MPI_VERSION)?;
        put(subversion, MPI_SUBVERSION)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_abi_get_version(
    major: *mut c_int,
    minor: *mut c_int,
) -> c_int {
    // SAFETY: the program's pointers.
    at_any_time("MPI_Abi_get_version", || unsafe {
        put(major, MPI_ABI_VERSION)?;
        put(minor, MPI_ABI_SUBVERSION)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_library_version(
    version: *mut c_char,
    length: *mut c_int,
) -> c_int {
    let text = concat!(
        "Ferriband MPI ",
        env!("CARGO_PKG_VERSION"),
        " (MPI 5.0 standard ABI)"
    );
    // SAFETY: the standard promises room for MPI_MAX_LIBRARY_VERSION_STRING characters.
    at_any_time("MPI_Get_library_version", || unsafe {
        put_string(text, version, MPI_MAX_LIBRARY_VERSION_STRING, length)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_pcontrol(_level: c_int) -> c_int {
    let _span = trace::span("MPI_Pcontrol");
    MPI_SUCCESS
}

/// Bytes that the C library's memory is aligned to in any case.
const ALIGNED: usize = 16;

/// Memory from the C library, aligned as `mpi_minimum_memory_alignment` asks; `place` is where the pointer goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_alloc_mem(
    size: i64,
    info: i32,
    place: *mut c_void,
) -> c_int {
    on_any("MPI_Alloc_mem", |_| {
        let at = |error| (SELF, error);
        let size = usize::try_from(size)
            .map_err(|_| at(MpiError::with(MPI_ERR_ARG, format!("{size} bytes"))))?;
        let hints = process().hints(info).map_err(at)?;
        let wanted = hints.get("mpi_minimum_memory_alignment").map_err(at)?;
        // A hint that says nothing is none.
        let alignment = wanted
            .and_then(|wanted| wanted.trim().parse().ok())
            .filter(|bytes: &usize| bytes.is_power_of_two())
            .unwrap_or(ALIGNED)
            .max(ALIGNED);
        let mut memory = std::ptr::null_mut();
        // SAFETY: an allocation; one of no bytes still has an address of its own.
        let refused = unsafe { libc::posix_memalign(&raw mut memory, alignment, size.max(1)) };
        if refused != 0 {
            return Err(at(MpiError::with(MPI_ERR_NO_MEM, format!("{size} bytes"))));
        }
        // SAFETY: the program's pointer to a pointer.
        unsafe { put(place.cast::<*mut c_void>(), memory) }.map_err(at)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_free_mem(memory: *mut c_void) -> c_int {
    let _span = trace::span("MPI_Free_mem");
    // SAFETY: what MPI_Alloc_mem returned.
    unsafe { libc::free(memory) };
    MPI_SUCCESS
}

/// Raises MPI_ERR_UNSUPPORTED_OPERATION for `function` at the handler of its object: 1 communicator, 2 window, 3 file, 4 session, 0 none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_unsupported(
    object: c_int,
    handle: i32,
    function: *const c_char,
) -> c_int {
    // SAFETY: a name that the face has.
    let name = unsafe { std::ffi::CStr::from_ptr(function) }.to_string_lossy();
    if object == 3 {
        return on_no_file(&name, || Err(MpiError::new(MPI_ERR_UNSUPPORTED_OPERATION)));
    }
    on_any(&name, |guard| {
        let index = if object == 1 {
            guard.point.objects.comms.index_of(handle)
        } else {
            Some(SELF)
        };
        match index {
            Some(index) => Err((index, MpiError::new(MPI_ERR_UNSUPPORTED_OPERATION))),
            None => Err((SELF, MpiError::new(MPI_ERR_COMM))),
        }
    })
}
