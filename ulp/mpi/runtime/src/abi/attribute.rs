//! Attributes of communicators and datatypes, and what the attributes of any object need: [`put`], [`remove`], [`copy_all`], [`remove_all`].

use super::callback;
use super::raise::{on_comm, on_self};
use super::values::put as write;
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::objects::attr::{Attributes, Callback, Owner};
use crate::objects::process::process;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// An object that can have attributes: the handle that the program's functions are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    /// What it is.
    pub(super) owner: Owner,
    /// Its handle.
    pub(super) handle: i32,
}

impl Object {
    /// Its attributes, if it is there and ever had one.
    fn attributes(self, guard: &mut Guard) -> Option<&mut Attributes> {
        match self.owner {
            Owner::Comm => {
                let index = guard.point.objects.comms.index_of(self.handle)?;
                Some(&mut guard.point.objects.comms[index].attributes)
            }
            Owner::Datatype => guard.point.objects.types.attributes(self.handle),
            Owner::Window => None,
        }
    }

    fn missing(self) -> MpiError {
        MpiError::new(match self.owner {
            Owner::Comm => MPI_ERR_COMM,
            Owner::Datatype => MPI_ERR_TYPE,
            Owner::Window => MPI_ERR_WIN,
        })
    }
}

/// Calls the delete function of an attribute.
fn say_goodbye(guard: &mut Guard, object: Object, keyval: i32, value: usize) -> Outcome {
    let Ok(key) = guard.point.objects.keyvals.find(object.owner, keyval) else {
        return Ok(());
    };
    if key.delete.function == 0 {
        return Ok(());
    }
    // SAFETY: MPI_X_create_keyval was given a delete function of this kind of object.
    let code = guard.outside(|| unsafe {
        callback::delete(key.delete, object.handle, keyval, value, key.extra)
    });
    if code == MPI_SUCCESS {
        Ok(())
    } else {
        Err(MpiError::with(
            code,
            "the attribute's delete function failed",
        ))
    }
}

/// Sets an attribute; one that is there goes first.
pub(super) fn put(guard: &mut Guard, object: Object, keyval: i32, value: usize) -> Outcome {
    guard.point.objects.keyvals.find(object.owner, keyval)?;
    if let Some(old) = get(guard, object, keyval)? {
        say_goodbye(guard, object, keyval, old)?;
    }
    edit(guard, object, |keyvals, attributes| {
        keyvals.put(attributes, keyval, value);
    })
}

/// Takes an attribute out; without it nothing happens.
pub(super) fn remove(guard: &mut Guard, object: Object, keyval: i32) -> Outcome {
    guard.point.objects.keyvals.find(object.owner, keyval)?;
    let Some(value) = get(guard, object, keyval)? else {
        return Ok(());
    };
    say_goodbye(guard, object, keyval, value)?;
    edit(guard, object, |keyvals, attributes| {
        keyvals.take(attributes, keyval);
    })
}

/// The value of an attribute.
pub(super) fn get(guard: &mut Guard, object: Object, keyval: i32) -> Outcome<Option<usize>> {
    guard.point.objects.keyvals.find(object.owner, keyval)?;
    let attributes = object.attributes(guard).ok_or_else(|| object.missing())?;
    Ok(attributes.get(keyval))
}

fn edit(
    guard: &mut Guard,
    object: Object,
    change: impl FnOnce(&mut crate::objects::attr::Keyvals, &mut Attributes),
) -> Outcome {
    // The object is there still: only a program that frees it in its own function sees this error.
    let attributes = object.attributes(guard).ok_or_else(|| object.missing())?;
    let mut own = std::mem::take(attributes);
    change(&mut guard.point.objects.keyvals, &mut own);
    if let Some(attributes) = object.attributes(guard) {
        *attributes = own;
    }
    Ok(())
}

/// What a duplicate of the object has: the copy functions decide.
pub(super) fn copy_all(guard: &mut Guard, object: Object) -> Outcome<Attributes> {
    let attributes = object.attributes(guard).ok_or_else(|| object.missing())?;
    let mut copies = Attributes::default();
    for one in attributes.list().to_vec() {
        let Ok(key) = guard.point.objects.keyvals.find(object.owner, one.keyval) else {
            continue;
        };
        let copied = match key.copy.function {
            0 => Ok(None),
            1 => Ok(Some(one.value)),
            // SAFETY: MPI_X_create_keyval was given a copy function of this kind of object.
            _ => guard.outside(|| unsafe {
                callback::copy(key.copy, object.handle, one.keyval, key.extra, one.value)
            }),
        };
        match copied {
            Ok(Some(value)) => guard
                .point
                .objects
                .keyvals
                .put(&mut copies, one.keyval, value),
            Ok(None) => (),
            Err(code) => {
                forget(guard, &mut copies);
                return Err(MpiError::with(code, "an attribute's copy function failed"));
            }
        }
    }
    Ok(copies)
}

/// Lets the copies go of an object that does not come to be.
fn forget(guard: &mut Guard, copies: &mut Attributes) {
    while let Some(last) = copies.last() {
        guard.point.objects.keyvals.take(copies, last.keyval);
    }
}

/// The object goes: its attributes do before, the last one first. It stays if a delete function fails.
pub(super) fn remove_all(guard: &mut Guard, object: Object) -> Outcome {
    while let Some(last) = object
        .attributes(guard)
        .and_then(|attributes| attributes.last())
    {
        say_goodbye(guard, object, last.keyval, last.value)?;
        edit(guard, object, |keyvals, attributes| {
            keyvals.take(attributes, last.keyval);
        })?;
    }
    Ok(())
}

/// Makes a key.
///
/// # Safety
/// `place` is null or may be written.
pub(super) unsafe fn create(
    function: &str,
    owner: Owner,
    (copy, delete): (Callback, Callback),
    place: *mut c_int,
    extra: *mut c_void,
) -> c_int {
    on_self(function, |guard| {
        if place.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let keyval =
            guard
                .point
                .objects
                .keyvals
                .create(owner, copy, delete, extra.expose_provenance())?;
        // SAFETY: the caller's promise.
        unsafe { write(place, keyval) }
    })
}

/// Frees a key.
///
/// # Safety
/// `place` is null or may be read and written.
pub(super) unsafe fn free(function: &str, owner: Owner, place: *mut c_int) -> c_int {
    on_self(function, |guard| {
        if place.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the caller's promise.
        let key = unsafe { place.read() };
        guard.point.objects.keyvals.free(owner, key)?;
        // SAFETY: as above.
        unsafe { write(place, MPI_KEYVAL_INVALID) }
    })
}

/// What every communicator has: the address of a number of this process, if there is something to say.
fn predefined(guard: &Guard, keyval: i32) -> Option<Option<usize>> {
    static TAG_UB: AtomicI32 = AtomicI32::new(i32::MAX);
    static ANYWHERE: AtomicI32 = AtomicI32::new(MPI_ANY_SOURCE);
    static NOWHERE: AtomicI32 = AtomicI32::new(MPI_PROC_NULL);
    static IS_GLOBAL: AtomicI32 = AtomicI32::new(1);
    static APPLICATION: AtomicI32 = AtomicI32::new(0);
    static LAST_CODE: AtomicI32 = AtomicI32::new(0);
    static UNIVERSE: AtomicI32 = AtomicI32::new(0);
    let place = match keyval {
        MPI_TAG_UB => &TAG_UB,
        MPI_IO => &ANYWHERE,
        MPI_HOST => &NOWHERE,
        MPI_WTIME_IS_GLOBAL => &IS_GLOBAL,
        MPI_APPNUM => {
            APPLICATION.store(guard.job.program.cast_signed(), Ordering::Relaxed);
            &APPLICATION
        }
        MPI_LASTUSEDCODE => {
            LAST_CODE.store(process().last_code(), Ordering::Relaxed);
            &LAST_CODE
        }
        MPI_UNIVERSE_SIZE => {
            let size = guard.point.objects.comms[crate::objects::comms::WORLD]
                .group
                .size();
            UNIVERSE.store(size.cast_signed(), Ordering::Relaxed);
            &UNIVERSE
        }
        MPI_WIN_BASE | MPI_WIN_DISP_UNIT | MPI_WIN_SIZE | MPI_WIN_CREATE_FLAVOR | MPI_WIN_MODEL => {
            return Some(None);
        }
        _ => return None,
    };
    Some(Some(place.as_ptr().expose_provenance()))
}

fn of_comm(handle: i32) -> Object {
    Object {
        owner: Owner::Comm,
        handle,
    }
}

unsafe fn comm_get(
    function: &str,
    comm: i32,
    keyval: c_int,
    place: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    on_comm(function, comm, |guard, index| {
        let value = match predefined(guard, keyval) {
            // Of the environment a session's communicators say no more than that (MPI 5.0, 9.1.2).
            Some(Some(_))
                if keyval != MPI_TAG_UB && guard.point.objects.comms[index].session.is_some() =>
            {
                None
            }
            Some(Some(value)) => Some(value),
            Some(None) => return Err(MpiError::new(MPI_ERR_KEYVAL)),
            None => get(guard, of_comm(comm), keyval)?,
        };
        // SAFETY: the program's pointers.
        unsafe { tell(value, place, flag) }
    })
}

/// Writes what MPI_X_get_attr says.
///
/// # Safety
/// `place` points to a pointer, `flag` to an int; or they are null.
pub(super) unsafe fn tell(value: Option<usize>, place: *mut c_void, flag: *mut c_int) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        write(flag, c_int::from(value.is_some()))?;
        match value {
            Some(value) => write(
                place.cast::<*mut c_void>(),
                std::ptr::with_exposed_provenance_mut(value),
            ),
            None => Ok(()),
        }
    }
}

unsafe fn comm_set(function: &str, comm: i32, keyval: c_int, value: *mut c_void) -> c_int {
    on_comm(function, comm, |guard, _| {
        if predefined(guard, keyval).is_some() {
            return Err(MpiError::with(MPI_ERR_KEYVAL, "it is MPI's own"));
        }
        put(guard, of_comm(comm), keyval, value.expose_provenance())
    })
}

unsafe fn comm_delete(function: &str, comm: i32, keyval: c_int) -> c_int {
    on_comm(function, comm, |guard, _| {
        if predefined(guard, keyval).is_some() {
            return Err(MpiError::with(MPI_ERR_KEYVAL, "it is MPI's own"));
        }
        remove(guard, of_comm(comm), keyval)
    })
}

/// The functions of MPI-1 that do the same under other names.
macro_rules! entries {
    ($($create:ident $free:ident $get:ident $set:ident $delete:ident: $names:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $create(
            copy: *const c_void,
            copy_thunk: *const c_void,
            delete: *const c_void,
            delete_thunk: *const c_void,
            keyval: *mut c_int,
            extra: *mut c_void,
        ) -> c_int {
            let calls = (callback::callback(copy, copy_thunk), callback::callback(delete, delete_thunk));
            // SAFETY: the program's pointer.
            unsafe { create($names[0], Owner::Comm, calls, keyval, extra) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $free(keyval: *mut c_int) -> c_int {
            // SAFETY: the program's pointer.
            unsafe { free($names[1], Owner::Comm, keyval) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(comm: i32, keyval: c_int, value: *mut c_void, flag: *mut c_int) -> c_int {
            // SAFETY: the program's pointers.
            unsafe { comm_get($names[2], comm, keyval, value, flag) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(comm: i32, keyval: c_int, value: *mut c_void) -> c_int {
            // SAFETY: the value is kept, not looked at.
            unsafe { comm_set($names[3], comm, keyval, value) }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $delete(comm: i32, keyval: c_int) -> c_int {
            // SAFETY: nothing is passed by pointer.
            unsafe { comm_delete($names[4], comm, keyval) }
        }
    )*};
}

entries! {
    ferriband_mpi_comm_create_keyval ferriband_mpi_comm_free_keyval ferriband_mpi_comm_get_attr
    ferriband_mpi_comm_set_attr ferriband_mpi_comm_delete_attr:
        ["MPI_Comm_create_keyval", "MPI_Comm_free_keyval", "MPI_Comm_get_attr", "MPI_Comm_set_attr", "MPI_Comm_delete_attr"];
    ferriband_mpi_keyval_create ferriband_mpi_keyval_free ferriband_mpi_attr_get
    ferriband_mpi_attr_put ferriband_mpi_attr_delete:
        ["MPI_Keyval_create", "MPI_Keyval_free", "MPI_Attr_get", "MPI_Attr_put", "MPI_Attr_delete"];
}

/// A datatype as what has attributes.
pub(super) fn of_type(handle: i32) -> Object {
    Object {
        owner: Owner::Datatype,
        handle,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_keyval(
    copy: *const c_void,
    copy_thunk: *const c_void,
    delete: *const c_void,
    delete_thunk: *const c_void,
    keyval: *mut c_int,
    extra: *mut c_void,
) -> c_int {
    let calls = (
        callback::callback(copy, copy_thunk),
        callback::callback(delete, delete_thunk),
    );
    // SAFETY: the program's pointer.
    unsafe {
        create(
            "MPI_Type_create_keyval",
            Owner::Datatype,
            calls,
            keyval,
            extra,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_free_keyval(keyval: *mut c_int) -> c_int {
    // SAFETY: the program's pointer.
    unsafe { free("MPI_Type_free_keyval", Owner::Datatype, keyval) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_attr(
    datatype: i32,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    on_self("MPI_Type_get_attr", |guard| {
        let found = get(guard, of_type(datatype), keyval)?;
        // SAFETY: the program's pointers.
        unsafe { tell(found, value, flag) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_set_attr(
    datatype: i32,
    keyval: c_int,
    value: *mut c_void,
) -> c_int {
    on_self("MPI_Type_set_attr", |guard| {
        put(guard, of_type(datatype), keyval, value.expose_provenance())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_delete_attr(datatype: i32, keyval: c_int) -> c_int {
    on_self("MPI_Type_delete_attr", |guard| {
        remove(guard, of_type(datatype), keyval)
    })
}
