//! Requests that are parts of another one: what becomes of the whole when a part is over.

use crate::constants::{MPI_SUCCESS, MPIX_ERR_PROC_FAILED_PENDING};
use crate::ground::status::{EMPTY, Status};
use crate::handle::NOBODY;
use crate::p2p::persistent::{Bound, Persistent};
use crate::p2p::request::{Extra, Request, Work};
use crate::p2p::runtime::Runtime;
use std::ffi::{c_int, c_void};

/// What the program has said of a generalized request.
#[derive(Clone, Copy)]
pub struct General {
    /// MPI_Grequest_query_function, with what calls it.
    pub query: Call<unsafe extern "C" fn(*const c_void, *mut c_void, *mut Status) -> c_int>,
    /// MPI_Grequest_free_function.
    pub free: Call<unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int>,
    /// MPI_Grequest_cancel_function.
    pub cancel: Call<unsafe extern "C" fn(*const c_void, *mut c_void, c_int) -> c_int>,
    /// What they are given.
    pub state: *mut c_void,
}

/// A function of the program, and the face's that calls it.
#[derive(Clone, Copy)]
pub struct Call<F> {
    /// The program's.
    pub user: *const c_void,
    /// The face's.
    pub thunk: F,
}

impl Runtime {
    /// Makes a request a part of another; it may be over already.
    pub fn adopt(&mut self, parent: u32, child: u32) {
        self.point.give_up_stranded(child);
        self.point.requests[child].parent = parent;
        if let Some(Extra::Persistent(whole)) = self.point.requests[parent].extra.as_deref_mut() {
            whole.child = child;
        }
        if self.point.requests[child].done {
            self.conclude(child);
        }
    }

    /// A request is over that nobody will ask for: the program has freed it, or it is a part of another.
    #[cold]
    pub fn conclude(&mut self, request: u32) {
        let Some(over) = self.point.requests.slab.remove(request) else {
            return;
        };
        if over.parent != NOBODY {
            self.part_over(over.parent, &over);
        }
        if let Some(Extra::Persistent(Persistent {
            bound: Bound::Partitioned(side),
            ..
        })) = over.extra.map(|extra| *extra)
        {
            self.drop_partitioned(side);
        }
    }

    /// A part of `parent` is over.
    fn part_over(&mut self, parent: u32, part: &Request) {
        if self.partition_over(parent, part) {
            return;
        }
        let whole = &mut self.point.requests[parent];
        let is_receive = match part.work {
            Work::Receive | Work::Pieces { .. } | Work::Landing => true,
            // A message that its sender writes is moved by both.
            Work::Moving { .. } => part.source.is_empty(),
            _ => false,
        };
        if is_receive {
            let error = whole.status.error;
            whole.status = part.status;
            if error != MPI_SUCCESS {
                whole.status.error = error;
            }
        } else if whole.status.error == MPI_SUCCESS {
            whole.status.error = part.status.error;
        }
        whole.status.cancelled |= part.status.cancelled;
        match &mut whole.work {
            Work::Several(left) => {
                *left -= 1;
                if *left == 0 {
                    self.finish(parent);
                }
            }
            Work::Buffered(buffer, message) => {
                let (buffer, message) = (*buffer, *message);
                self.leave_buffer(buffer, message);
                self.finish(parent);
            }
            _ => {
                if let Some(Extra::Persistent(whole)) = whole.extra.as_deref_mut() {
                    whole.child = NOBODY;
                }
                self.finish(parent);
            }
        }
    }

    /// Takes out a request that is over, or makes a persistent one inactive: communicator, status, and whether the handle stays.
    #[inline]
    pub fn reap(&mut self, index: u32) -> (u32, Status, bool) {
        let request = &mut self.point.requests[index];
        let (comm, status) = (request.comm, request.status);
        match &mut request.work {
            Work::Nothing => return (comm, EMPTY, false),
            Work::Persistent { active } => {
                *active = false;
                request.done = false;
                request.status = EMPTY;
                return (comm, status, true);
            }
            Work::Stranded if status.error == MPIX_ERR_PROC_FAILED_PENDING => {
                return (comm, status, true);
            }
            Work::Stranded => request.work = Work::Receive,
            _ => (),
        }
        self.point.requests.put_back(index);
        (comm, status, false)
    }
}

// SAFETY: the functions are the program's, which has said by its level of threads who may call them.
unsafe impl Send for General {}
