//! Sessions: MPI without a world. The runtime is there as long as the world or a session uses it; it is kept when nobody does, for a later session.

use super::buffered::take_back;
use super::group::give as give_group;
use super::info::give as give_info;
use super::init;
use super::raise::{at_any_time, decide, on_self, outside, raise};
use super::values::{put, put_string, text};
use crate::coll::state::{ENTRY, Guard, enter};
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::job::state::{Phase, phase};
use crate::objects::comms::{SELF, WORLD};
use crate::objects::group::Group;
use crate::objects::info::Info;
use crate::objects::process::{Scope, process};
use crate::objects::session::Session;
use crate::p2p::buffered::Owner;
use crate::trace;
use std::ffi::{c_char, c_int};

/// The process sets that there are.
const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// Levels of thread support, by name.
const LEVELS: [(&str, i32); 4] = [
    ("MPI_THREAD_SINGLE", MPI_THREAD_SINGLE),
    ("MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED),
    ("MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED),
    ("MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE),
];

/// The level of thread support that a session asks for; a single thread if it does not.
fn level(info: &Info) -> Outcome<i32> {
    let wanted = info.get("thread_level")?.unwrap_or(LEVELS[0].0);
    let found = LEVELS.iter().find(|(name, _)| *name == wanted);
    Ok(found.unwrap_or(&LEVELS[0]).1)
}

/// The runtime is there, for as many threads as are asked for.
pub(super) fn begin(threads: i32) -> Outcome<Guard> {
    if !ENTRY.awake() {
        ENTRY.install(init::start(threads)?);
    }
    ENTRY.share(threads == MPI_THREAD_MULTIPLE);
    let mut guard = enter().expect("it was just made or woken");
    guard.transports.wake();
    guard.job.threads = guard.job.threads.max(threads);
    Ok(guard)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_init(
    info: i32,
    errhandler: i32,
    session: *mut i32,
) -> c_int {
    if phase() == Phase::Child {
        return outside("MPI_Session_init");
    }
    let name = "MPI_Session_init";
    let begun_ns = trace::now_ns();
    let kept = process().retain(errhandler, Some(Scope::Session));
    if let Err(error) = kept {
        return at_any_time(name, || Err(error));
    }
    let _span = trace::span(name);
    // SAFETY: the program's pointer.
    let made = unsafe { make(info, errhandler, session, begun_ns) };
    let Err(error) = made else {
        return MPI_SUCCESS;
    };
    // The handler that is given is for this call, too.
    let code = decide(enter(), errhandler, "", MPI_SESSION_NULL, name, &error);
    process().release(errhandler);
    code
}

/// Makes a session that has a handler already.
unsafe fn make(info: i32, errhandler: i32, session: *mut i32, begun_ns: u64) -> Outcome {
    if session.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    let hints = process().hints(info)?;
    let threads = level(&hints)?;
    let was_on = trace::is_on();
    let mut guard = begin(threads)?;
    if !was_on {
        // A call that the trace begins with, as MPI_Init is.
        drop(trace::span_from("MPI_Session_init", begun_ns));
    }
    // What others have asked for holds for all.
    let provided = LEVELS.iter().find(|(_, level)| *level == guard.job.threads);
    let mut own = Info::default();
    own.set("thread_level", provided.unwrap_or(&LEVELS[0]).0)?;
    let index = guard
        .point
        .objects
        .sessions
        .insert(Session {
            errhandler,
            info: own,
        })
        .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many sessions"))?;
    // SAFETY: the program's pointer.
    unsafe { put(session, guard.point.objects.sessions.handle(index)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_finalize(session: *mut i32) -> c_int {
    // A null pointer names no session.
    let handle = if session.is_null() {
        0
    } else {
        // SAFETY: the program's pointer.
        unsafe { session.read() }
    };
    on_session("MPI_Session_finalize", handle, |guard, index| {
        // Its messages are waited for; the buffer is the program's again.
        take_back(guard, Owner::Session(handle))?;
        if let Some(ended) = guard.point.objects.sessions.remove(index) {
            process().release(ended.errhandler);
        }
        if guard.point.objects.sessions.is_empty() && phase() != Phase::Alive {
            init::leave(guard)?;
            ENTRY.retire();
        }
        // SAFETY: as above.
        unsafe { put(session, MPI_SESSION_NULL) }
    })
}

/// A call about the session that `handle` names.
pub(super) fn on_session(
    function: &str,
    handle: i32,
    body: impl FnOnce(&mut Guard, u32) -> Outcome,
) -> c_int {
    let _span = trace::span(function);
    let Some(mut guard) = enter() else {
        return outside(function);
    };
    let Some(index) = guard.point.objects.sessions.index_of(handle) else {
        return raise(guard, SELF, function, &MpiError::new(MPI_ERR_SESSION));
    };
    let errhandler = guard.point.objects.sessions[index].errhandler;
    match body(&mut guard, index) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => decide(
            Some(guard),
            errhandler,
            "a session",
            handle,
            function,
            &error,
        ),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_get_info(session: i32, info: *mut i32) -> c_int {
    on_session("MPI_Session_get_info", session, |guard, index| {
        let own = guard.point.objects.sessions[index].info.clone();
        // SAFETY: the program's pointer.
        unsafe { give_info(own, info) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_get_num_psets(
    session: i32,
    _info: i32,
    count: *mut c_int,
) -> c_int {
    on_session("MPI_Session_get_num_psets", session, |_, _| {
        // SAFETY: the program's pointer.
        unsafe { put(count, SETS.len() as c_int) }
    })
}

/// The length counts the end mark, and 0 asks for nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_get_nth_pset(
    session: i32,
    _info: i32,
    at: c_int,
    length: *mut c_int,
    name: *mut c_char,
) -> c_int {
    on_session("MPI_Session_get_nth_pset", session, |_, _| {
        let set = usize::try_from(at)
            .ok()
            .and_then(|at| SETS.get(at))
            .ok_or_else(|| MpiError::with(MPI_ERR_ARG, format!("process set {at}")))?;
        if length.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's pointers; the length says how much room there is.
        unsafe {
            let room = length.read();
            if room > 0 {
                put_string(set, name, room, std::ptr::null_mut())?;
            }
            put(length, set.len() as c_int + 1)
        }
    })
}

/// The processes of a set.
fn members(guard: &Guard, name: &str) -> Outcome<Group> {
    if name.eq_ignore_ascii_case(SETS[0]) {
        Ok(guard.point.objects.comms[WORLD].group.clone())
    } else if name.eq_ignore_ascii_case(SETS[1]) {
        Ok(Group::of(vec![guard.point.rank]))
    } else {
        Err(MpiError::with(
            MPI_ERR_ARG,
            format!("there is no process set \"{name}\""),
        ))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_get_pset_info(
    session: i32,
    name: *const c_char,
    info: *mut i32,
) -> c_int {
    on_session("MPI_Session_get_pset_info", session, |guard, _| {
        // SAFETY: the program's string and pointer.
        unsafe {
            let group = members(guard, &text(name)?)?;
            let mut about = Info::default();
            about.set("mpi_size", &group.size().to_string())?;
            give_info(about, info)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_group_from_session_pset(
    session: i32,
    name: *const c_char,
    group: *mut i32,
) -> c_int {
    on_session("MPI_Group_from_session_pset", session, |guard, _| {
        // SAFETY: the program's string and pointer.
        unsafe {
            let members = members(guard, &text(name)?)?;
            give_group(guard, members, Some(session), group)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_set_errhandler(
    session: i32,
    errhandler: i32,
) -> c_int {
    on_session("MPI_Session_set_errhandler", session, |guard, index| {
        let mut process = process();
        process.retain(errhandler, Some(Scope::Session))?;
        process.release(guard.point.objects.sessions[index].errhandler);
        guard.point.objects.sessions[index].errhandler = errhandler;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_get_errhandler(
    session: i32,
    errhandler: *mut i32,
) -> c_int {
    on_session("MPI_Session_get_errhandler", session, |guard, index| {
        let handle = guard.point.objects.sessions[index].errhandler;
        // SAFETY: the program's pointer.
        unsafe { put(errhandler, handle) }?;
        // The program frees what it gets.
        process().retain(handle, None)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_session_call_errhandler(session: i32, code: c_int) -> c_int {
    let outcome = on_session("MPI_Session_call_errhandler", session, |_, _| Ok(()));
    if outcome == MPI_SUCCESS {
        // The handler's own answer is not this call's.
        on_session("MPI_Session_call_errhandler", session, |_, _| {
            Err(MpiError::new(code))
        });
    }
    outcome
}

/// What MPI_Comm_split_type can be guided by.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_hw_resource_info(info: *mut i32) -> c_int {
    on_self("MPI_Get_hw_resource_info", |_| {
        let mut about = Info::default();
        about.set("mpi_shared_memory", "true")?;
        // SAFETY: the program's pointer.
        unsafe { give_info(about, info) }
    })
}

/// How wide the ABI's own integers are, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_abi_get_info(info: *mut i32) -> c_int {
    at_any_time("MPI_Abi_get_info", || {
        let mut about = Info::default();
        for key in ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"] {
            about.set(key, "8")?;
        }
        // SAFETY: the program's pointer.
        unsafe { give_info(about, info) }
    })
}
