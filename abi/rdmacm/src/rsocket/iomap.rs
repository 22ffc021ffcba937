//! Buffers that the other side writes into directly: `riomap`, `riounmap`, `riowrite`.
//!
//! A mapped buffer is named by an offset. Its entry goes into a table in the other side's memory before the next bytes of the
//! stream; the other side finds the entry by offset and WRITEs into the buffer, and nobody here is told.

use super::link::{Link, MOST_PIECE};
use super::memory::{Registration, Vectors};
use super::stream::{first_piece, lock};
use super::wait::{ASLEEP, Call, Patience, on_socket};
use super::wire::{Mapping, Target};
use super::{Socket, table};
use crate::boundary::{Errno, entry, status};
use libc::{c_int, c_void, off_t};
use std::sync::Arc;

/// Buffers of this side.
#[derive(Default)]
pub struct Mapped {
    list: Vec<Buffer>,
}

struct Buffer {
    address: usize,
    length: usize,
    offset: u64,
    key: Registration,
    /// Its place in the other side's table; None if it is for this side's use only.
    index: Option<u16>,
    /// The other side has its entry, or will have it before anything else.
    is_told: bool,
}

impl Mapped {
    /// Some entries have to be told.
    fn is_pending(&self) -> bool {
        self.list.iter().any(|buffer| !buffer.is_told)
    }

    fn free_index(&self, most: u32) -> Option<u16> {
        let most = u16::try_from(most).unwrap_or(u16::MAX);
        (0..most).find(|index| self.list.iter().all(|b| b.index != Some(*index)))
    }
}

impl Link {
    /// The other side has to be told of a buffer.
    pub(super) fn has_untold(&self) -> bool {
        self.mapped.is_pending()
    }

    /// Maps a buffer.
    ///
    /// ENOMEM when the other side's table is full, or what the registration says.
    ///
    /// # Safety
    /// The memory stays mapped until the mapping goes.
    unsafe fn map(
        &mut self,
        address: usize,
        length: usize,
        is_exposed: bool,
        offset: u64,
    ) -> Result<(), Errno> {
        let index = match is_exposed {
            true => Some(
                self.mapped
                    .free_index(self.remote_table.length)
                    .ok_or(libc::ENOMEM)?,
            ),
            false => None,
        };
        // SAFETY: the caller's promise; the domain outlives the link.
        let key =
            unsafe { Registration::new(self.domain(), address as *mut u8, length, is_exposed) }?;
        self.mapped.list.push(Buffer {
            address,
            length,
            offset,
            key,
            index,
            is_told: !is_exposed,
        });
        Ok(())
    }

    /// The entry of our table, written by the other side, that holds this offset: how many bytes there are from it on.
    fn find_mapping(&self, offset: u64) -> Option<(Target, u64)> {
        (0..self.mappings()).find_map(|index| {
            let mapping = self.mapping(index);
            let skipped = offset.checked_sub(mapping.offset)?;
            let length = u64::from(mapping.buffer.length);
            let target = Target {
                address: mapping.buffer.address.wrapping_add(skipped),
                ..mapping.buffer
            };
            (skipped < length).then(|| (target, length - skipped))
        })
    }
}

impl Socket {
    /// Tells the other side of buffers that were mapped since the last message.
    pub fn send_mappings(
        self: &Arc<Self>,
        call: &mut Call,
        patience: Patience,
    ) -> Result<(), Errno> {
        loop {
            let mut state = lock(self.stream()?);
            let link = state.link.as_mut().ok_or(libc::ENOTCONN)?;
            if !link.has_untold() {
                return Ok(());
            }
            if !(state.is_writable && state.link.as_ref().is_some_and(Link::has_room)) {
                drop(state);
                state = self.until(call, patience, |state| {
                    !state.is_writable || state.link.as_ref().is_some_and(Link::has_room)
                })?;
            }
            if !state.is_writable {
                return Err(libc::ECONNRESET);
            }
            let link = state.link.as_mut().ok_or(libc::ENOTCONN)?;
            let Some(buffer) = link.mapped.list.iter_mut().find(|b| !b.is_told) else {
                return Ok(());
            };
            buffer.is_told = true;
            let index = buffer.index.ok_or(libc::EINVAL)?;
            let mapping = Mapping {
                offset: buffer.offset,
                buffer: Target {
                    address: buffer.address as u64,
                    key: buffer.key.remote_key(),
                    length: u32::try_from(buffer.length).unwrap_or(u32::MAX),
                },
            };
            if let Err(error) = link.write_mapping(index, mapping) {
                state.fail(error);
                return Err(error);
            }
        }
    }

    /// Writes into buffers of the other side from `offset` on: how many bytes had a place.
    fn write_mapped(
        self: &Arc<Self>,
        call: &mut Call,
        mut source: Vectors<'_>,
        offset: u64,
        flags: c_int,
    ) -> Result<usize, Errno> {
        let patience = self.patience(flags);
        source.skip(call.done);
        let mut piece = first_piece(call);
        while source.left() != 0 {
            let mut state = match self.ready_to_send(call, patience) {
                Ok(state) => state,
                Err(error) if call.done == 0 || error == ASLEEP => return Err(error),
                Err(_) => break,
            };
            let link = state.link.as_mut().ok_or(libc::ENOTCONN)?;
            let Some((target, room)) = link.find_mapping(offset + call.done as u64) else {
                break;
            };
            let most = usize::try_from(room).unwrap_or(piece).min(piece);
            match link.write_direct(&mut source, most, target.address, target.key) {
                Ok(part) => call.done += part,
                Err(error) => {
                    state.fail(error);
                    return match call.done {
                        0 => Err(error),
                        done => Ok(done),
                    };
                }
            }
            piece = (2 * piece).min(MOST_PIECE);
        }
        Ok(call.done)
    }
}

/// `riomap`: the offset that names the buffer; with -1 its address does. EINVAL without a connection, ENOMEM when the other
/// side's table is full (`RDMA_IOMAPSIZE` there), EFAULT and others as registering memory.
///
/// # Safety
/// As the C interface demands: the buffer stays until `riounmap` or `rclose`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn riomap(
    fd: c_int,
    buf: *mut c_void,
    length: usize,
    prot: c_int,
    _flags: c_int,
    offset: off_t,
) -> off_t {
    entry(|| {
        let socket = table::find(fd)?;
        if prot & !(libc::PROT_WRITE | libc::PROT_NONE) != 0 || u32::try_from(length).is_err() {
            return Err(libc::EINVAL);
        }
        let offset = if offset == -1 { buf as off_t } else { offset };
        let mut state = lock(socket.stream()?);
        let link = state.link.as_mut().ok_or(libc::EINVAL)?;
        let is_exposed = prot & libc::PROT_WRITE != 0;
        // SAFETY: the caller's promise.
        unsafe { link.map(buf as usize, length, is_exposed, offset.cast_unsigned()) }?;
        Ok(offset)
    })
}

/// `riounmap`: EINVAL if no such buffer is mapped.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn riounmap(fd: c_int, buf: *mut c_void, length: usize) -> c_int {
    status(|| {
        let socket = table::find(fd)?;
        let mut state = lock(socket.stream()?);
        let link = state.link.as_mut().ok_or(libc::EINVAL)?;
        let list = &mut link.mapped.list;
        let index = list
            .iter()
            .position(|buffer| buffer.address == buf as usize && buffer.length == length);
        list.remove(index.ok_or(libc::EINVAL)?);
        Ok(())
    })
}

/// `riowrite`: how many bytes had a place in the other side's buffers.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn riowrite(
    fd: c_int,
    buf: *const c_void,
    count: usize,
    offset: off_t,
    flags: c_int,
) -> usize {
    on_socket(fd, |socket, call| {
        let list = super::one(buf, count);
        // SAFETY: the caller's promise.
        let source = unsafe { Vectors::new(&list) }?;
        socket.write_mapped(call, source, offset.cast_unsigned(), flags)
    })
}
