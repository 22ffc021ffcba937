//! What datatypes are, and what a status says in their elements.

use super::raise::on_self;
use super::values::{put, put_string, text};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::array::Array;
use crate::ground::status::Status;
use crate::objects::datatype::size;
use ferriband_mpi_data::{Contents, Datatype};
use std::ffi::{c_char, c_int, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_size(datatype: i32, size: *mut i64) -> c_int {
    on_self("MPI_Type_size", |guard| {
        // SAFETY: the program's pointer.
        unsafe { put(size, guard.point.objects.types.datatype(datatype)?.size()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_size_x(datatype: i32, size: *mut i64) -> c_int {
    on_self("MPI_Type_size_x", |guard| {
        // SAFETY: the program's pointer.
        unsafe { put(size, guard.point.objects.types.datatype(datatype)?.size()) }
    })
}

/// Two numbers of a type.
fn pair(
    function: &str,
    datatype: i32,
    (to, also): (*mut i64, *mut i64),
    of: impl FnOnce(&Datatype) -> (i64, i64),
) -> c_int {
    on_self(function, |guard| {
        let (first, second) = of(&guard.point.objects.types.datatype(datatype)?);
        // SAFETY: the program's pointers.
        unsafe {
            put(to, first)?;
            put(also, second)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_extent(
    datatype: i32,
    lb: *mut i64,
    extent: *mut i64,
) -> c_int {
    pair("MPI_Type_get_extent", datatype, (lb, extent), |datatype| {
        (datatype.lb(), datatype.extent())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_extent_x(
    datatype: i32,
    lb: *mut i64,
    extent: *mut i64,
) -> c_int {
    pair(
        "MPI_Type_get_extent_x",
        datatype,
        (lb, extent),
        |datatype| (datatype.lb(), datatype.extent()),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_true_extent(
    datatype: i32,
    true_lb: *mut i64,
    true_extent: *mut i64,
) -> c_int {
    pair(
        "MPI_Type_get_true_extent",
        datatype,
        (true_lb, true_extent),
        |datatype| (datatype.true_lb(), datatype.true_extent()),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_true_extent_x(
    datatype: i32,
    true_lb: *mut i64,
    true_extent: *mut i64,
) -> c_int {
    pair(
        "MPI_Type_get_true_extent_x",
        datatype,
        (true_lb, true_extent),
        |datatype| (datatype.true_lb(), datatype.true_extent()),
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_name(
    datatype: i32,
    type_name: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    on_self("MPI_Type_get_name", |guard| {
        // SAFETY: the program's memory, of the standard's size.
        unsafe {
            put_string(
                guard.point.objects.types.name(datatype)?,
                type_name,
                MPI_MAX_OBJECT_NAME,
                resultlen,
            )
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_set_name(
    datatype: i32,
    type_name: *const c_char,
) -> c_int {
    on_self("MPI_Type_set_name", |guard| {
        // SAFETY: the program's string.
        let name = unsafe { text(type_name) }?.into_owned();
        guard.point.objects.types.set_name(datatype, name)
    })
}

/// Lengths of the contents, as MPI_Type_get_envelope gives them: integers, addresses, large counts, datatypes.
fn lengths(contents: &Contents) -> [usize; 4] {
    [
        contents.integers.len(),
        contents.addresses.len(),
        contents.counts.len(),
        contents.types.len(),
    ]
}

/// A type with large counts, which the functions without them cannot tell of.
fn too_large() -> MpiError {
    MpiError::with(
        MPI_ERR_TYPE,
        "it was made with large counts: ask by the function in _c",
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_envelope(
    datatype: i32,
    num_integers: *mut c_int,
    num_addresses: *mut c_int,
    num_datatypes: *mut c_int,
    combiner: *mut c_int,
) -> c_int {
    on_self("MPI_Type_get_envelope", |guard| {
        let datatype = guard.point.objects.types.datatype(datatype)?;
        let contents = datatype.contents();
        let [integers, addresses, counts, types] = lengths(contents);
        if counts > 0 {
            return Err(too_large());
        }
        // SAFETY: the program's pointers.
        unsafe {
            put(num_integers, integers as c_int)?;
            put(num_addresses, addresses as c_int)?;
            put(num_datatypes, types as c_int)?;
            put(combiner, contents.combiner.value())
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_envelope_c(
    datatype: i32,
    num_integers: *mut i64,
    num_addresses: *mut i64,
    num_large_counts: *mut i64,
    num_datatypes: *mut i64,
    combiner: *mut c_int,
) -> c_int {
    on_self("MPI_Type_get_envelope_c", |guard| {
        let datatype = guard.point.objects.types.datatype(datatype)?;
        let contents = datatype.contents();
        let [integers, addresses, counts, types] = lengths(contents).map(|length| length as i64);
        // SAFETY: the program's pointers.
        unsafe {
            put(num_integers, integers)?;
            put(num_addresses, addresses)?;
            put(num_large_counts, counts)?;
            put(num_datatypes, types)?;
            put(combiner, contents.combiner.value())
        }
    })
}

/// Where the contents go, and how many of each kind fit.
struct Room {
    fits: [i64; 4],
    integers: *mut c_int,
    addresses: *mut i64,
    counts: *mut i64,
    types: Array,
}

/// Writes the contents; derived types among them get handles of their own, which the program frees.
///
/// # Safety
/// The program's arrays have the room that it says.
unsafe fn contents(guard: &mut Guard, datatype: i32, room: &Room) -> Outcome {
    let datatype = guard.point.objects.types.datatype(datatype)?;
    if datatype.as_named().is_some() {
        return Err(MpiError::with(
            MPI_ERR_TYPE,
            "a predefined datatype has no contents",
        ));
    }
    let contents = datatype.contents();
    let lengths = lengths(contents);
    if lengths
        .iter()
        .zip(room.fits)
        .any(|(&length, fits)| fits < length as i64)
    {
        let text = format!("arrays of {:?} elements for {lengths:?}", room.fits);
        return Err(MpiError::with(MPI_ERR_ARG, text));
    }
    // SAFETY: as many elements as the program's arrays have, which was checked.
    unsafe {
        copy(&contents.integers, room.integers)?;
        copy(&contents.addresses, room.addresses)?;
        copy(&contents.counts, room.counts)?;
        if room.types.base.is_null() && !contents.types.is_empty() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        for (index, old) in contents.types.iter().enumerate() {
            let handle = guard.point.objects.types.handle_for(old)?;
            room.types.set_handle(index, handle);
        }
    }
    Ok(())
}

/// # Safety
/// `to` is null or has room for the elements.
unsafe fn copy<T: Copy>(from: &[T], to: *mut T) -> Outcome {
    if from.is_empty() {
        return Ok(());
    }
    if to.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_contents(
    datatype: i32,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut i64,
    array_of_datatypes: Array,
) -> c_int {
    on_self("MPI_Type_get_contents", |guard| {
        if !guard
            .point
            .objects
            .types
            .datatype(datatype)?
            .contents()
            .counts
            .is_empty()
        {
            return Err(too_large());
        }
        let room = Room {
            fits: [
                max_integers.into(),
                max_addresses.into(),
                0,
                max_datatypes.into(),
            ],
            integers: array_of_integers,
            addresses: array_of_addresses,
            counts: std::ptr::null_mut(),
            types: array_of_datatypes,
        };
        // SAFETY: the program's arrays.
        unsafe { contents(guard, datatype, &room) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_contents_c(
    datatype: i32,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut i64,
    array_of_large_counts: *mut i64,
    array_of_datatypes: Array,
) -> c_int {
    on_self("MPI_Type_get_contents_c", |guard| {
        let room = Room {
            fits: [max_integers, max_addresses, max_large_counts, max_datatypes],
            integers: array_of_integers,
            addresses: array_of_addresses,
            counts: array_of_large_counts,
            types: array_of_datatypes,
        };
        // SAFETY: the program's arrays.
        unsafe { contents(guard, datatype, &room) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_address(
    location: *const c_void,
    address: *mut i64,
) -> c_int {
    on_self("MPI_Get_address", |_| {
        // The program may reach what lies there through the number from now on.
        let number = location.expose_provenance() as i64;
        // SAFETY: the program's pointer.
        unsafe { put(address, number) }
    })
}

/// Bytes of the message that a status tells of.
unsafe fn bytes(status: *const Status) -> Outcome<i64> {
    if status.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    // SAFETY: the program's status, which is not null.
    let bytes = unsafe { status.read() }.byte_count();
    Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// What a number that has no value becomes.
fn or_undefined(number: Option<i64>) -> i64 {
    number.unwrap_or(i64::from(MPI_UNDEFINED))
}

/// Whole elements of the message that a status tells of; MPI_UNDEFINED if there are parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_count(
    status: *const Status,
    datatype: i32,
    count: *mut i64,
) -> c_int {
    on_self("MPI_Get_count", |guard| {
        // SAFETY: the program's pointers, here and below.
        let bytes = unsafe { bytes(status) }?;
        let found = match size(datatype) {
            Some(size) => (bytes % size as i64 == 0).then(|| bytes / size as i64),
            None => guard
                .point
                .objects
                .types
                .datatype(datatype)?
                .count_of(bytes),
        };
        // SAFETY: as above.
        unsafe { put(count, or_undefined(found)) }
    })
}

/// Basic elements of the message.
unsafe fn elements(function: &str, status: *const Status, datatype: i32, count: *mut i64) -> c_int {
    on_self(function, |guard| {
        // SAFETY: the program's pointers.
        unsafe {
            let found = guard
                .point
                .objects
                .types
                .datatype(datatype)?
                .elements_of(bytes(status)?);
            put(count, or_undefined(found))
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_elements(
    status: *const Status,
    datatype: i32,
    count: *mut i64,
) -> c_int {
    // SAFETY: passed on.
    unsafe { elements("MPI_Get_elements", status, datatype, count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_get_elements_x(
    status: *const Status,
    datatype: i32,
    count: *mut i64,
) -> c_int {
    // SAFETY: passed on.
    unsafe { elements("MPI_Get_elements_x", status, datatype, count) }
}

/// Makes a status tell of so many basic elements.
unsafe fn set_elements(function: &str, status: *mut Status, datatype: i32, count: i64) -> c_int {
    on_self(function, |guard| {
        let bytes = guard
            .point
            .objects
            .types
            .datatype(datatype)?
            .bytes_of(count);
        let bytes =
            bytes.ok_or_else(|| MpiError::with(MPI_ERR_COUNT, format!("{count} elements")))?;
        if status.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's status, which is not null.
        unsafe { (*status).bytes = [bytes as u32, (bytes >> 32) as u32] };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_status_set_elements(
    status: *mut Status,
    datatype: i32,
    count: i64,
) -> c_int {
    // SAFETY: passed on.
    unsafe { set_elements("MPI_Status_set_elements", status, datatype, count) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_status_set_elements_x(
    status: *mut Status,
    datatype: i32,
    count: i64,
) -> c_int {
    // SAFETY: passed on.
    unsafe { set_elements("MPI_Status_set_elements_x", status, datatype, count) }
}
