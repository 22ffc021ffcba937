//! The constructors of datatypes, their commit and their end.
//!
//! The functions whose arguments tell by their width whether they came from MPI_Type_x or from MPI_Type_x_c serve both; of the others there are two,
//! because MPI_Type_get_envelope tells them apart.

use super::attribute::{copy_all, of_type, remove_all};
use super::raise::on_self;
use super::values::{list, longs, put};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::array::Array;
use crate::objects::datatype::named;
use ferriband_mpi_data::{Datatype, Distribution, Form, Order, TypeClass, match_size, value_index};
use std::ffi::c_int;

/// Makes a type and gives the program its handle.
fn make(
    function: &str,
    newtype: *mut i32,
    body: impl FnOnce(&Guard) -> Outcome<Datatype>,
) -> c_int {
    on_self(function, |guard| {
        if newtype.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let made = body(guard)?;
        let handle = guard.point.objects.types.add(made, false)?;
        // SAFETY: the program's pointer, which is not null.
        unsafe { put(newtype, handle) }
    })
}

/// How many elements arrays have.
fn length(count: i64, class: i32) -> Outcome<usize> {
    usize::try_from(count).map_err(|_| MpiError::with(class, format!("{count} elements")))
}

/// Whose arguments an array of counts is.
fn form(counts: &Array) -> Form {
    if counts.width == 8 {
        Form::Count
    } else {
        Form::Int
    }
}

/// Both functions of a constructor without arrays of counts.
macro_rules! both {
    ($narrow:ident, $wide:ident, $function:literal, ($($name:ident: $kind:ty),*), $old:ident, |$form:ident, $type:ident| $body:expr) => {
        both!(@ $narrow, $function, Form::Int, ($($name: $kind),*), $old, |$form, $type| $body);
        both!(@ $wide, concat!($function, "_c"), Form::Count, ($($name: $kind),*), $old, |$form, $type| $body);
    };
    (@ $symbol:ident, $function:expr, $value:expr, ($($name:ident: $kind:ty),*), $old:ident, |$form:ident, $type:ident| $body:expr) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($name: $kind,)* $old: i32, newtype: *mut i32) -> c_int {
            make($function, newtype, |guard| {
                let ($form, $type) = ($value, guard.point.objects.types.datatype($old)?);
                $body
            })
        }
    };
}

both!(
    ferriband_mpi_type_contiguous, ferriband_mpi_type_contiguous_c, "MPI_Type_contiguous",
    (count: i64), oldtype, |form, old| Ok(Datatype::contiguous_of(form, count, &old)?)
);

both!(
    ferriband_mpi_type_vector, ferriband_mpi_type_vector_c, "MPI_Type_vector",
    (count: i64, blocklength: i64, stride: i64), oldtype,
    |form, old| Ok(Datatype::vector(form, count, blocklength, stride, &old)?)
);

both!(
    ferriband_mpi_type_create_hvector, ferriband_mpi_type_create_hvector_c, "MPI_Type_create_hvector",
    (count: i64, blocklength: i64, stride: i64), oldtype,
    |form, old| Ok(Datatype::hvector(form, count, blocklength, stride, &old)?)
);

both!(
    ferriband_mpi_type_create_hindexed_block, ferriband_mpi_type_create_hindexed_block_c,
    "MPI_Type_create_hindexed_block",
    (count: i64, blocklength: i64, array_of_displacements: *const i64), oldtype,
    |form, old| {
        let length = length(count, MPI_ERR_COUNT)?;
        // SAFETY: the program's array.
        let places = unsafe { longs(array_of_displacements, length) }?;
        Ok(Datatype::hindexed_block(form, blocklength, &places, &old)?)
    }
);

/// MPI_Type_create_resized: the old type comes first.
unsafe fn resized(
    function: &str,
    form: Form,
    oldtype: i32,
    lb: i64,
    extent: i64,
    newtype: *mut i32,
) -> c_int {
    make(function, newtype, |guard| {
        let old = guard.point.objects.types.datatype(oldtype)?;
        Ok(Datatype::resized(form, lb, extent, &old)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_resized(
    oldtype: i32,
    lb: i64,
    extent: i64,
    newtype: *mut i32,
) -> c_int {
    // SAFETY: passed on.
    unsafe {
        resized(
            "MPI_Type_create_resized",
            Form::Int,
            oldtype,
            lb,
            extent,
            newtype,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_resized_c(
    oldtype: i32,
    lb: i64,
    extent: i64,
    newtype: *mut i32,
) -> c_int {
    // SAFETY: passed on.
    unsafe {
        resized(
            "MPI_Type_create_resized_c",
            Form::Count,
            oldtype,
            lb,
            extent,
            newtype,
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_indexed(
    count: i64,
    array_of_blocklengths: Array,
    array_of_displacements: Array,
    oldtype: i32,
    newtype: *mut i32,
) -> c_int {
    make("MPI_Type_indexed", newtype, |guard| {
        let length = length(count, MPI_ERR_COUNT)?;
        // SAFETY: the program's arrays.
        let (blocks, places) = unsafe {
            (
                list(&array_of_blocklengths, length)?,
                list(&array_of_displacements, length)?,
            )
        };
        let old = guard.point.objects.types.datatype(oldtype)?;
        Ok(Datatype::indexed(
            form(&array_of_blocklengths),
            &blocks,
            &places,
            &old,
        )?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_hindexed(
    count: i64,
    array_of_blocklengths: Array,
    array_of_displacements: *const i64,
    oldtype: i32,
    newtype: *mut i32,
) -> c_int {
    make("MPI_Type_create_hindexed", newtype, |guard| {
        let length = length(count, MPI_ERR_COUNT)?;
        // SAFETY: the program's arrays.
        let (blocks, places) = unsafe {
            (
                list(&array_of_blocklengths, length)?,
                longs(array_of_displacements, length)?,
            )
        };
        let old = guard.point.objects.types.datatype(oldtype)?;
        Ok(Datatype::hindexed(
            form(&array_of_blocklengths),
            &blocks,
            &places,
            &old,
        )?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_indexed_block(
    count: i64,
    blocklength: i64,
    array_of_displacements: Array,
    oldtype: i32,
    newtype: *mut i32,
) -> c_int {
    make("MPI_Type_create_indexed_block", newtype, |guard| {
        let length = length(count, MPI_ERR_COUNT)?;
        // SAFETY: the program's array.
        let places = unsafe { list(&array_of_displacements, length) }?;
        let old = guard.point.objects.types.datatype(oldtype)?;
        Ok(Datatype::indexed_block(
            form(&array_of_displacements),
            blocklength,
            &places,
            &old,
        )?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_struct(
    count: i64,
    array_of_blocklengths: Array,
    array_of_displacements: *const i64,
    array_of_types: Array,
    newtype: *mut i32,
) -> c_int {
    make("MPI_Type_create_struct", newtype, |guard| {
        let length = length(count, MPI_ERR_COUNT)?;
        // SAFETY: the program's arrays.
        let (blocks, places) = unsafe {
            (
                list(&array_of_blocklengths, length)?,
                longs(array_of_displacements, length)?,
            )
        };
        if array_of_types.base.is_null() && length > 0 {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let types: Vec<Datatype> = (0..length)
            .map(|index| {
                // SAFETY: the program's array.
                let handle = unsafe { array_of_types.handle(index) };
                guard.point.objects.types.datatype(handle)
            })
            .collect::<Outcome<_>>()?;
        Ok(Datatype::structure(
            form(&array_of_blocklengths),
            &blocks,
            &places,
            &types,
        )?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_subarray(
    ndims: c_int,
    array_of_sizes: Array,
    array_of_subsizes: Array,
    array_of_starts: Array,
    order: c_int,
    oldtype: i32,
    newtype: *mut i32,
) -> c_int {
    make("MPI_Type_create_subarray", newtype, |guard| {
        let length = length(ndims.into(), MPI_ERR_DIMS)?;
        // SAFETY: the program's arrays.
        let (sizes, parts, starts) = unsafe {
            (
                list(&array_of_sizes, length)?,
                list(&array_of_subsizes, length)?,
                list(&array_of_starts, length)?,
            )
        };
        let (order, old) = (
            Order::from_value(order)?,
            guard.point.objects.types.datatype(oldtype)?,
        );
        let form = form(&array_of_sizes);
        Ok(Datatype::subarray(
            form, &sizes, &parts, &starts, order, &old,
        )?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: Array,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: i32,
    newtype: *mut i32,
) -> c_int {
    make("MPI_Type_create_darray", newtype, |guard| {
        let length = length(ndims.into(), MPI_ERR_DIMS)?;
        // SAFETY: the program's arrays.
        let (gsizes, distribs, dargs, psizes) = unsafe {
            (
                list(&array_of_gsizes, length)?,
                longs(array_of_distribs, length)?,
                longs(array_of_dargs, length)?,
                longs(array_of_psizes, length)?,
            )
        };
        let distribs: Vec<Distribution> = distribs
            .into_iter()
            .map(Distribution::from_value)
            .collect::<Result<_, _>>()?;
        let (order, old) = (
            Order::from_value(order)?,
            guard.point.objects.types.datatype(oldtype)?,
        );
        let form = form(&array_of_gsizes);
        Ok(Datatype::darray(
            form, size, rank, &gsizes, &distribs, &dargs, &psizes, order, &old,
        )?)
    })
}

/// The new type is committed if the old one is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_dup(oldtype: i32, newtype: *mut i32) -> c_int {
    on_self("MPI_Type_dup", |guard| {
        if newtype.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        let made = Datatype::dup(&guard.point.objects.types.datatype(oldtype)?)?;
        let committed = guard.point.objects.types.committed(oldtype).is_ok();
        let attributes = copy_all(guard, of_type(oldtype))?;
        let handle = guard.point.objects.types.add(made, committed)?;
        if let Some(own) = guard.point.objects.types.attributes(handle) {
            *own = attributes;
        }
        // SAFETY: the program's pointer, which is not null.
        unsafe { put(newtype, handle) }
    })
}

/// The handle that a pointer of the program leads to.
unsafe fn at(handle: *mut i32) -> Outcome<i32> {
    if handle.is_null() {
        return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
    }
    // SAFETY: the program's pointer, which is not null.
    Ok(unsafe { handle.read() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_commit(datatype: *mut i32) -> c_int {
    on_self("MPI_Type_commit", |guard| {
        // SAFETY: the program's pointer.
        let handle = unsafe { at(datatype) }?;
        if named(handle).is_none() {
            let index = guard.point.objects.types.derived(handle)?.0;
            guard.point.objects.types.commit(index);
        }
        Ok(())
    })
}

/// Requests that use the type keep it until they are over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_free(datatype: *mut i32) -> c_int {
    on_self("MPI_Type_free", |guard| {
        // SAFETY: the program's pointer.
        let handle = unsafe { at(datatype) }?;
        guard.point.objects.types.may_drop(handle)?;
        remove_all(guard, of_type(handle))?;
        let is_handed_out = guard.hands_out(handle);
        guard.point.objects.types.drop(handle, is_handed_out)?;
        // SAFETY: as above.
        unsafe { put(datatype, MPI_DATATYPE_NULL) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_match_size(
    typeclass: c_int,
    size: c_int,
    datatype: *mut i32,
) -> c_int {
    on_self("MPI_Type_match_size", |_| {
        let found = match_size(TypeClass::from_value(typeclass)?, size.into())?;
        // SAFETY: the program's pointer.
        unsafe { put(datatype, found.value().cast_signed()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_type_get_value_index(
    value_type: i32,
    index_type: i32,
    pair_type: *mut i32,
) -> c_int {
    on_self("MPI_Type_get_value_index", |guard| {
        guard.point.objects.types.datatype(value_type)?;
        guard.point.objects.types.datatype(index_type)?;
        let pair = match (named(value_type), named(index_type)) {
            (Some(value), Some(index)) => value_index(value, index),
            _ => None,
        };
        let handle = pair.map_or(MPI_DATATYPE_NULL, |pair| pair.value().cast_signed());
        // SAFETY: the program's pointer.
        unsafe { put(pair_type, handle) }
    })
}
