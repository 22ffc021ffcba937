//! Operations: those of the program, and how elements are combined by either kind.

use super::raise::on_self;
use super::values::{aliased, is_in_place, put};
use crate::coll::exec::{Combine, Program};
use crate::coll::state::Guard;
use crate::constants::*;
use crate::errors::{MpiError, Outcome};
use crate::ground::layout::Layout;
use crate::ground::memory::{Sink, Source};
use crate::objects::operation::{Operation, UserOp};
use ferriband_mpi_data::{Datatype, Named, Op, Predefined, View};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A function of the program, as the face calls it: the function, its operands, how many elements, and the handle of their datatype.
type Thunk = unsafe extern "C" fn(*const c_void, *mut c_void, *mut c_void, i64, i32);

/// Elements that a function is given at a time: an `int` counts them.
const MOST: i64 = 1 << 30;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_op_create(
    user_fn: *const c_void,
    user_fn_thunk: *const c_void,
    commute: c_int,
    op: *mut i32,
) -> c_int {
    on_self("MPI_Op_create", |guard| {
        if user_fn.is_null() || op.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: faces give the thunk of this callback, as the table demands.
        let thunk = unsafe { std::mem::transmute::<*const c_void, Thunk>(user_fn_thunk) };
        let function = user_fn.expose_provenance();
        let made = UserOp {
            function: Box::new(move |left, right, count, datatype| {
                let function = std::ptr::with_exposed_provenance(function);
                // SAFETY: the program's function, on elements that are there.
                unsafe { thunk(function, left.cast(), right.cast(), count, datatype) }
            }),
            commutes: commute != 0,
        };
        let handle = guard.point.objects.operations.add(made)?;
        // SAFETY: the program's pointer, which is not null.
        unsafe { put(op, handle) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_op_free(op: *mut i32) -> c_int {
    on_self("MPI_Op_free", |guard| {
        if op.is_null() {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        // SAFETY: the program's pointer, which is not null.
        guard.point.objects.operations.drop(unsafe { op.read() })?;
        // SAFETY: as above.
        unsafe { put(op, MPI_OP_NULL) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_op_commutative(op: i32, commute: *mut c_int) -> c_int {
    on_self("MPI_Op_commutative", |guard| {
        // SAFETY: the program's pointer.
        unsafe {
            put(
                commute,
                c_int::from(guard.point.objects.operations.operation(op)?.commutes()),
            )
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: i64,
    datatype: i32,
    op: i32,
) -> c_int {
    on_self("MPI_Reduce_local", |guard| {
        let how = Reduction::new(guard, op, datatype)?;
        if is_in_place(inbuf) || is_in_place(inoutbuf) {
            let text = "MPI_IN_PLACE, which means nothing here";
            return Err(MpiError::with(MPI_ERR_BUFFER, text));
        }
        // SAFETY: the program's buffers.
        let (left, right) = unsafe {
            (
                how.source(guard, inbuf, count)?,
                how.sink(guard, inoutbuf, count)?,
            )
        };
        if inbuf.addr() == inoutbuf.addr() && !left.is_empty() {
            return Err(aliased());
        }
        match how.combine {
            Combine::Own(combine) => combine(left, right),
            Combine::Program(program) => {
                guard.outside(|| (program.function)(left, right));
                Ok(())
            }
        }
    })
}

/// An operation on elements of a datatype.
pub(super) struct Reduction {
    /// Bytes of an element: as it lies, with its gaps, if it is of a predefined datatype; else as it is sent.
    pub(super) unit: usize,
    /// Whether the order of operands may change.
    pub(super) commutes: bool,
    /// What combines.
    pub(super) combine: Combine,
    /// The datatype, if its elements are not taken as they lie.
    derived: Option<i32>,
}

impl Reduction {
    /// The operation of a handle, if it is one for such elements.
    pub(super) fn new(guard: &Guard, op: i32, kind: i32) -> Outcome<Self> {
        let datatype = guard.point.objects.types.committed(kind)?;
        let basic = datatype.basic();
        let operation = guard.point.objects.operations.operation(op)?;
        let commutes = operation.commutes();
        let unit = basic.map_or(datatype.size(), Named::extent);
        let combine = match (operation, basic) {
            (Operation::Own(op), Some(basic)) => own(op, basic)?,
            (Operation::Own(op), None) => {
                let text = format!("{} needs a predefined datatype", op.name());
                return Err(MpiError::with(MPI_ERR_OP, text));
            }
            (Operation::Program(op), _) => Combine::Program(Program {
                function: program(op, datatype, kind, basic.is_none()),
                datatype: kind,
            }),
        };
        Ok(Self {
            unit: unit as usize,
            commutes,
            combine,
            derived: basic.is_none().then_some(kind),
        })
    }

    /// Bytes of so many elements.
    fn length(&self, count: i64) -> Outcome<i64> {
        let bytes = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(self.unit))
            .and_then(|bytes| i64::try_from(bytes).ok());
        bytes.ok_or_else(|| MpiError::with(MPI_ERR_COUNT, format!("{count} elements")))
    }

    /// Elements that are combined.
    ///
    /// # Safety
    /// As the standard says of a send buffer.
    pub(super) unsafe fn source(
        &self,
        guard: &mut Guard,
        buffer: *const c_void,
        count: i64,
    ) -> Outcome<Source> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.derived {
                Some(kind) => super::values::source(guard, buffer, count, kind),
                None => super::values::source(guard, buffer, self.length(count)?, MPI_BYTE),
            }
        }
    }

    /// Where the result goes.
    ///
    /// # Safety
    /// As the standard says of a receive buffer.
    pub(super) unsafe fn sink(
        &self,
        guard: &mut Guard,
        buffer: *mut c_void,
        count: i64,
    ) -> Outcome<Sink> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.derived {
                Some(kind) => super::values::sink(guard, buffer, count, kind),
                None => super::values::sink(guard, buffer, self.length(count)?, MPI_BYTE),
            }
        }
    }
}

/// A predefined operation on a predefined datatype.
fn own(op: Op, named: Named) -> Outcome<Combine> {
    if op.is_for_windows_only() {
        return Err(MpiError::with(MPI_ERR_OP, op.name()));
    }
    op.check(named)?;
    Ok(Combine::Own(Box::new(move |left, right| {
        let count = left.len().min(right.len()) / named.extent() as usize;
        let both = left.pointer().zip(right.pointer());
        let (left, right) = both.ok_or_else(|| MpiError::new(MPI_ERR_INTERN))?;
        // SAFETY: both ranges have that many elements with their gaps.
        let done = unsafe { ferriband_mpi_data::reduce(op, named.kind(), left, right, count) };
        Ok(done?)
    })))
}

/// A function of the program on elements of a datatype: `packed` as they are sent, else as they lie.
fn program(
    op: Arc<UserOp>,
    datatype: Datatype,
    handle: i32,
    packed: bool,
) -> Arc<dyn Fn(Source, Sink) + Send + Sync> {
    let (unit, lies_dense) = if packed {
        let dense = datatype.contiguous(2).is_some();
        (datatype.size(), dense.then(|| datatype.true_lb()))
    } else {
        (datatype.extent(), Some(0))
    };
    let call = move |mut left: *mut u8, mut right: *mut u8, count: i64, extent: i64| {
        let mut rest = count;
        while rest > 0 {
            let some = rest.min(MOST);
            (op.function)(left, right, some, handle);
            let step = (some * extent) as isize;
            left = left.wrapping_offset(step);
            right = right.wrapping_offset(step);
            rest -= some;
        }
    };
    Arc::new(move |left: Source, right: Sink| {
        let count = left.len().min(right.len()) as i64;
        // Elements without data: there is nothing to combine.
        let Some(count) = count.checked_div(unit) else {
            return;
        };
        let both = left.pointer().zip(right.pointer());
        if let (Some(lb), Some((left, right))) = (lies_dense, both) {
            let before = -lb as isize;
            let left = left.cast_mut().wrapping_offset(before);
            call(
                left,
                right.wrapping_offset(before),
                count,
                datatype.extent(),
            );
            return;
        }
        // The function wants to see them as the datatype says: in memory of our own.
        let Ok(view) = View::new(&datatype, count) else {
            return;
        };
        let (mut theirs, mut ours) = (Scratch::new(&view), Scratch::new(&view));
        left.copy_to(&theirs.sink());
        right.source().copy_to(&ours.sink());
        call(theirs.base(), ours.base(), count, datatype.extent());
        ours.sink().source().copy_to(&right);
    })
}

/// Memory for elements with gaps.
struct Scratch {
    memory: Box<[u128]>,
    offset: i64,
    view: View,
    layout: Option<Arc<Layout>>,
}

impl Scratch {
    fn new(view: &View) -> Self {
        const ALIGNED: i64 = size_of::<u128>() as i64;
        let span = view.span();
        let words = (span.len / ALIGNED + 2) as usize;
        Self {
            memory: vec![0; words].into_boxed_slice(),
            // The buffer's address is as aligned as the memory.
            offset: span.offset.div_euclid(ALIGNED) * ALIGNED,
            view: view.clone(),
            layout: None,
        }
    }

    /// The address that stands for the buffer.
    fn base(&mut self) -> *mut u8 {
        let memory: *mut u8 = self.memory.as_mut_ptr().cast();
        memory.wrapping_offset(-self.offset as isize)
    }

    /// The elements in it.
    fn sink(&mut self) -> Sink {
        let base = self.base().expose_provenance();
        let view = &self.view;
        let layout = self
            .layout
            .get_or_insert_with(|| Arc::new(Layout::new(view.clone(), base)));
        // SAFETY: memory of our own that has room for the elements, and a layout that is kept with it.
        unsafe { Sink::laid_out(layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_mpi_data::Form;

    /// Adds what the datatype says are two doubles, wherever they lie.
    fn sum_of_pairs() -> (Arc<UserOp>, Datatype) {
        let double = Datatype::named(Named::Double);
        let pair = Datatype::hvector(Form::Int, 2, 1, -16, &double).expect("a type");
        let pair = Datatype::resized(Form::Int, -20, 40, &pair).expect("a type");
        let op = UserOp {
            function: Box::new(|left, right, count, handle| {
                assert_eq!(handle, 77);
                for element in 0..count as isize {
                    for place in [0, -16] {
                        let at = element * 40 + place;
                        // SAFETY: the elements are there, as the datatype says.
                        unsafe {
                            let left = left.offset(at).cast::<f64>();
                            let right = right.offset(at).cast::<f64>();
                            assert!(left.is_aligned() && right.is_aligned());
                            right.write_unaligned(right.read_unaligned() + left.read_unaligned());
                        }
                    }
                }
            }),
            commutes: true,
        };
        (Arc::new(op), pair)
    }

    #[test]
    fn a_function_sees_packed_elements_as_their_datatype_says() {
        let (op, pair) = sum_of_pairs();
        let combine = program(op, pair, 77, true);
        let left: Vec<f64> = (0..14).map(f64::from).collect();
        let mut right: Vec<f64> = (0..14).map(|n| f64::from(n) * 100.0).collect();
        // SAFETY: local buffers.
        let (from, to) = unsafe {
            (
                Source::new(left.as_ptr().cast(), 14 * 8),
                Sink::new(right.as_mut_ptr().cast(), 14 * 8),
            )
        };
        combine(from, to);
        assert!((0..14).all(|n| right[n] == n as f64 * 101.0));
        combine(from.part(0, 0), to);
        combine(from.part(16, 32), to.part(0, 32));
        assert!((0..4).all(|n| right[n] == n as f64 * 102.0 + 2.0));
    }
}
