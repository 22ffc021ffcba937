//! The first driver of papers/002 as C calls: matching reads and writes over channels.
//!
//! Owns: the C names, which convert; memory that the program has pinned. Must not know: requests.

use crate::process::{Errno, LONGEST};
use crate::{address, end, errno, manager, of_error, tell_address};
use ferriband_host::fork;
use ferriband_ibv::{Access, Element, Mr};
use ferriband_putget_proto::matching::{NotBegun, Outcome};
use ferriband_putget_verbs::channels::{Channels, ELEMENT_BYTES, Memory, Number, Transfer, Way};
use ferriband_putget_verbs::settings::{self, SETTINGS};
use ferriband_putget_verbs::{Error, Left, Waited};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const _: () = assert!(LONGEST == ELEMENT_BYTES);

/// What a program holds of an open process (`ferriband_channels_t`).
pub struct Opened {
    channels: Channels,
    /// The process that has opened it, among its children.
    generation: u32,
    /// Pinned memory by its first address.
    pinned: Mutex<BTreeMap<u64, Pinned>>,
}

struct Pinned {
    length: u64,
    mr: Arc<Mr>,
}

impl From<NotBegun> for Errno {
    fn from(why: NotBegun) -> Errno {
        Errno(match why {
            NotBegun::Full => libc::EAGAIN,
            NotBegun::TooLong => libc::EMSGSIZE,
            NotBegun::Lost => libc::ENOTCONN,
        })
    }
}

fn of(error: &Error) -> Errno {
    match error {
        Error::Unknown => Errno(libc::EINVAL),
        error => of_error(error),
    }
}

/// Bytes that were moved.
fn moved(outcome: Outcome) -> Result<u64, Errno> {
    match outcome {
        Outcome::Moved(bytes) => Ok(bytes),
        Outcome::TooLong => Err(Errno(libc::EMSGSIZE)),
        Outcome::Lost => Err(Errno(libc::ECONNRESET)),
    }
}

impl Opened {
    fn pinned(&self) -> MutexGuard<'_, BTreeMap<u64, Pinned>> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    /// The memory stays mapped, and the library may write it, until it is unpinned.
    unsafe fn pin(&self, at: u64, length: u64) -> Result<(), Errno> {
        let mut pinned = self.pinned();
        if length == 0 {
            return Err(Errno(libc::EINVAL));
        }
        let end = at.checked_add(length).ok_or(Errno(libc::EFAULT))?;
        let before = pinned.range(..end).next_back();
        if before.is_some_and(|(other, pinned)| other + pinned.length > at) {
            return Err(Errno(libc::EEXIST));
        }
        let pd = self.channels.domain().map_err(|error| of(&error))?;
        // SAFETY: the caller's promise.
        let mr = unsafe { Mr::register_foreign(&pd, at, length as usize, Access::LOCAL_WRITE) };
        let mr = mr.map_err(|error| Errno(error.errno()))?;
        pinned.insert(at, Pinned { length, mr });
        Ok(())
    }

    fn unpin(&self, at: u64) -> Result<(), Errno> {
        let mut pinned = self.pinned();
        let found = pinned.get(&at).ok_or(Errno(libc::ENOENT))?;
        // transfers hold it as well
        if Arc::strong_count(&found.mr) > 1 {
            return Err(Errno(libc::EBUSY));
        }
        pinned.remove(&at);
        Ok(())
    }

    /// Pinned memory for a transfer.
    fn memory(&self, at: u64, length: u64) -> Result<Memory, Errno> {
        if length == 0 {
            let (mr, elements) = (None, Vec::new());
            return Ok(Memory { mr, elements });
        }
        let pinned = self.pinned();
        let holds = |(first, pinned): &(&u64, &Pinned)| {
            let before = at - **first;
            length <= pinned.length && before <= pinned.length - length
        };
        let found = pinned.range(..=at).next_back().filter(holds);
        let mr = &found.ok_or(Errno(libc::EFAULT))?.1.mr;
        let mut elements = Vec::new();
        let mut done = 0;
        while done < length {
            let bytes = (length - done).min(LONGEST);
            // SAFETY: a part of pinned memory, whose registration the transfer holds.
            elements.push(unsafe { Element::foreign(at + done, bytes as u32, mr.lkey()) });
            done += bytes;
        }
        let mr = Some(Arc::clone(mr));
        Ok(Memory { mr, elements })
    }

    fn start(&self, channel: u32, way: Way, at: u64, length: u64) -> Result<Transfer, Errno> {
        let memory = self.memory(at, length)?;
        Ok(self.channels.start(Number(channel), way, memory, length)?)
    }

    fn wait(&self, transfer: Transfer, milliseconds: c_int) -> Result<u64, Errno> {
        let waited = self.channels.wait_for(transfer, end(milliseconds));
        match waited.map_err(|error| of(&error))? {
            Waited::Done(outcome) => moved(outcome),
            Waited::TimedOut => Err(Errno(libc::ETIMEDOUT)),
        }
    }

    /// Begins a transfer, waiting for room, and waits for its end.
    fn carry_out(&self, channel: u32, way: Way, at: u64, length: u64) -> Result<u64, Errno> {
        loop {
            match self.start(channel, way, at, length) {
                Err(Errno(libc::EAGAIN)) => {
                    let room = self.channels.wait_for_room(Number(channel), way, length);
                    room.map_err(|error| of(&error))?;
                }
                started => return self.wait(started?, -1),
            }
        }
    }
}

/// The process behind a pointer.
///
/// # Safety
/// A pointer that `ferriband_channels_open` has given and `ferriband_channels_close` was not given,
/// or null.
unsafe fn opened<'a>(channels: *mut Opened) -> Result<&'a Opened, Errno> {
    // SAFETY: the caller's promise.
    let opened = unsafe { channels.as_ref() }.ok_or(Errno(libc::EINVAL))?;
    match opened.generation == fork::generation() {
        true => Ok(opened),
        false => Err(Errno(libc::EIO)),
    }
}

/// Writes a length, if it is wanted.
///
/// # Safety
/// A place for it, or null.
unsafe fn tell(length: *mut usize, bytes: u64) {
    if !length.is_null() {
        // SAFETY: the caller's promise.
        unsafe { length.write(bytes as usize) };
    }
}

fn address_of(data: *const c_void) -> u64 {
    data.expose_provenance() as u64
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_open(
    text: *const c_char,
    port: u16,
    channels: *mut *mut Opened,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let at = unsafe { address(text, port) }?;
        fork::watch();
        let values = settings::values(&SETTINGS).map_err(|_| Errno(libc::EINVAL))?;
        let listening = Channels::listen(manager()?, at, ELEMENT_BYTES as u32);
        let listening = listening.map_err(|error| of(&error))?;
        listening.trace(&values).map_err(|error| of(&error))?;
        let opened = Box::new(Opened {
            channels: listening,
            generation: fork::generation(),
            pinned: Mutex::default(),
        });
        // SAFETY: a place for the result.
        unsafe { channels.write(Box::into_raw(opened)) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_close(channels: *mut Opened) {
    errno(|| {
        // SAFETY: the caller's promise.
        unsafe { opened(channels) }?;
        // SAFETY: `ferriband_channels_open` has made it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(channels) });
        Ok(())
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_address(
    channels: *mut Opened,
    text: *mut c_char,
    length: usize,
    port: *mut u16,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let at = unsafe { opened(channels) }?.channels.address();
        // SAFETY: places of so many bytes for the text, and for the port.
        unsafe { tell_address(at, text, length, port) }
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_pin(
    channels: *mut Opened,
    memory: *mut c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    errno(|| unsafe { opened(channels)?.pin(address_of(memory), length as u64) })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_unpin(
    channels: *mut Opened,
    memory: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    errno(|| unsafe { opened(channels) }?.unpin(address_of(memory)))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_connect(
    channels: *mut Opened,
    text: *const c_char,
    port: u16,
    milliseconds: c_int,
    channel: *mut u32,
) -> c_int {
    errno(|| {
        let end = end(milliseconds);
        // SAFETY: the caller's promise.
        let to = unsafe { address(text, port) }?;
        // SAFETY: the caller's promise.
        let connected = unsafe { opened(channels) }?.channels.connect(to, end);
        match connected.map_err(|error| of(&error))? {
            // SAFETY: a place for the result.
            Waited::Done(Ok(number)) => unsafe { channel.write(number.0) },
            Waited::Done(Err(Left::Foreign)) => return Err(Errno(libc::EPROTO)),
            Waited::Done(Err(_)) => return Err(Errno(libc::ECONNREFUSED)),
            Waited::TimedOut => return Err(Errno(libc::ETIMEDOUT)),
        }
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_accept(
    channels: *mut Opened,
    milliseconds: c_int,
    channel: *mut u32,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let accepted = unsafe { opened(channels) }?
            .channels
            .accept(end(milliseconds));
        match accepted.map_err(|error| of(&error))? {
            // SAFETY: a place for the result.
            Waited::Done(number) => unsafe { channel.write(number.0) },
            Waited::TimedOut => return Err(Errno(libc::ETIMEDOUT)),
        }
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_disconnect(
    channels: *mut Opened,
    channel: u32,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let known = unsafe { opened(channels) }?
            .channels
            .disconnect(Number(channel));
        known.then_some(()).ok_or(Errno(libc::ENOTCONN))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_write(
    channels: *mut Opened,
    channel: u32,
    data: *const c_void,
    length: usize,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let opened = unsafe { opened(channels) }?;
        let written = opened.carry_out(channel, Way::Write, address_of(data), length as u64);
        written.map(drop)
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_read(
    channels: *mut Opened,
    channel: u32,
    data: *mut c_void,
    length: usize,
    received: *mut usize,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let opened = unsafe { opened(channels) }?;
        let bytes = opened.carry_out(channel, Way::Read, address_of(data), length as u64)?;
        // SAFETY: a place for the result, or null.
        unsafe { tell(received, bytes) };
        Ok(())
    })
}

/// Begins a read or a write.
///
/// # Safety
/// As the header says of either.
unsafe fn start(
    channels: *mut Opened,
    channel: u32,
    way: Way,
    data: *const c_void,
    length: usize,
    transfer: *mut u64,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let opened = unsafe { opened(channels) }?;
        let started = opened.start(channel, way, address_of(data), length as u64)?;
        // SAFETY: a place for the result.
        unsafe { transfer.write(started.0) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_start_write(
    channels: *mut Opened,
    channel: u32,
    data: *const c_void,
    length: usize,
    transfer: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { start(channels, channel, Way::Write, data, length, transfer) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_start_read(
    channels: *mut Opened,
    channel: u32,
    data: *mut c_void,
    length: usize,
    transfer: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { start(channels, channel, Way::Read, data, length, transfer) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_test(
    channels: *mut Opened,
    transfer: u64,
    length: *mut usize,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let tested = unsafe { opened(channels) }?
            .channels
            .test(Transfer(transfer));
        let outcome = tested.map_err(|error| of(&error))?;
        let bytes = moved(outcome.ok_or(Errno(libc::EINPROGRESS))?)?;
        // SAFETY: a place for the result, or null.
        unsafe { tell(length, bytes) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_wait(
    channels: *mut Opened,
    transfer: u64,
    milliseconds: c_int,
    length: *mut usize,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let opened = unsafe { opened(channels) }?;
        let bytes = opened.wait(Transfer(transfer), milliseconds)?;
        // SAFETY: a place for the result, or null.
        unsafe { tell(length, bytes) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_channels_set_request_bytes(
    channels: *mut Opened,
    bytes: usize,
) -> c_int {
    errno(|| {
        let fits = bytes.is_power_of_two() && bytes as u64 <= ELEMENT_BYTES;
        let bytes = fits.then_some(bytes as u32).ok_or(Errno(libc::EINVAL))?;
        // SAFETY: the caller's promise.
        unsafe { opened(channels) }?
            .channels
            .set_request_bytes(bytes);
        Ok(())
    })
}
