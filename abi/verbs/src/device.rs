//! Devices: the list, their names, and the structures that stay valid for the life of the process.

use crate::boundary::{Failure, entry, try_entry};
use crate::object::input;
use ferriband_fork::Settled;
use ferriband_hca as hca;
use ferriband_verbs_sys as sys;
use std::ffi::{c_char, c_int};

/// A device as programs see it. Providers that are loaded beside us look right behind the public structure for their own
/// data to learn whether the device is theirs; zeros say that it is not.
#[repr(C)]
pub struct Device {
    c: sys::ibv_device,
    /// Larger than rdma-core 44's private tail (48 bytes), with room for later ones.
    zeros: [u64; 32],
    info: hca::DeviceInfo,
}

// SAFETY: a device is never written after it was made; the C part holds only plain values.
unsafe impl Sync for Device {}
// SAFETY: as above.
unsafe impl Send for Device {}

impl Device {
    fn new(info: hca::DeviceInfo) -> Self {
        let mut c = sys::ibv_device {
            node_type: sys::IBV_NODE_CA,
            transport_type: sys::IBV_TRANSPORT_IB,
            ..Default::default()
        };
        store(&mut c.name, &info.name);
        store(&mut c.dev_name, &format!("uverbs{}", info.index));
        store(
            &mut c.dev_path,
            &format!("/sys/class/infiniband_verbs/uverbs{}", info.index),
        );
        store(
            &mut c.ibdev_path,
            &format!("/sys/class/infiniband/{}", info.name),
        );
        Device {
            c,
            zeros: [0; 32],
            info,
        }
    }

    /// The adapter's description.
    pub fn info(&self) -> &hca::DeviceInfo {
        &self.info
    }

    /// The address that programs hold. It is never written through.
    pub fn as_c(&self) -> *mut sys::ibv_device {
        std::ptr::from_ref(&self.c).cast_mut()
    }

    /// The device behind a program's pointer, by comparing addresses: a pointer that is not one of ours (a provider's)
    /// is ENODEV, NULL is EINVAL.
    pub fn of(pointer: *const sys::ibv_device) -> Result<&'static Device, i32> {
        if pointer.is_null() {
            return Err(libc::EINVAL);
        }
        all()
            .iter()
            .find(|device| std::ptr::eq(&device.c, pointer))
            .ok_or(libc::ENODEV)
    }
}

/// Copies a string into a C array, shortened so that its NUL fits.
pub fn store(array: &mut [c_char], text: &str) {
    let room = array.len().saturating_sub(1);
    for (slot, byte) in array.iter_mut().zip(text.bytes().take(room)) {
        *slot = byte as c_char;
    }
}

/// All devices; none while they cannot be found out.
pub fn all() -> &'static [Device] {
    find().unwrap_or_default()
}

/// All devices. They are made once and never freed, so programs may keep their addresses. The error is the system's errno.
fn find() -> Result<&'static [Device], i32> {
    static DEVICES: Settled<Vec<Device>> = Settled::new();
    let look = || {
        let infos = hca::find_devices().map_err(|error| error.errno())?;
        Ok(infos.into_iter().map(Device::new).collect())
    };
    DEVICES.get_or_try_init(look).map(Vec::as_slice)
}

/// `ibv_get_device_list`: a NULL-terminated array, to be freed with `ibv_free_device_list`, without
/// devices that an administrator has taken away. NULL with the system's errno while the devices
/// cannot be found out.
///
/// # Safety
/// `num_devices` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut sys::ibv_device {
    try_entry(|| {
        let known = find()?;
        let missing = hca::missing(known.iter().map(|device| device.info.ifindex));
        let is_there = |device: &&Device| !missing.contains(&device.info.ifindex);
        let devices: Vec<&Device> = known.iter().filter(is_there).collect();
        // SAFETY: a plain allocation of zeroed memory.
        let list = unsafe { libc::calloc(devices.len() + 1, size_of::<*mut sys::ibv_device>()) };
        let list: *mut *mut sys::ibv_device = list.cast();
        if list.is_null() {
            return Err(libc::ENOMEM);
        }
        for (index, device) in devices.iter().enumerate() {
            // SAFETY: the array has one more element than there are devices.
            let slot = unsafe { list.add(index) };
            // SAFETY: the slot lies in the array just allocated.
            unsafe { slot.write(device.as_c()) };
        }
        if !num_devices.is_null() {
            // SAFETY: the caller's promise; a list holds far fewer than 2^31 devices.
            unsafe { num_devices.write(devices.len() as c_int) };
        }
        Ok(list)
    })
}

/// `ibv_free_device_list`: frees the array; the devices stay.
///
/// # Safety
/// `list` is NULL or came from `ibv_get_device_list` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut sys::ibv_device) {
    // SAFETY: the array came from calloc.
    unsafe { libc::free(list.cast()) };
}

/// `ibv_get_device_name`.
///
/// # Safety
/// `device` is NULL or a device of some library of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut sys::ibv_device) -> *const c_char {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let device = unsafe { input(device) }?;
        Ok(device.name.as_ptr())
    })
}

/// `ibv_get_device_guid`: the node GUID in network byte order, 0 for what is not a device of ours.
///
/// # Safety
/// `device` is compared, never followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut sys::ibv_device) -> sys::__be64 {
    entry(|| {
        Device::of(device).map_or(BigEndian(0), |device| BigEndian(device.info.guid.0.to_be()))
    })
    .0
}

/// A number in network byte order, whose failure value is 0.
#[derive(Clone, Copy)]
struct BigEndian(sys::__be64);

impl Failure for BigEndian {
    fn failure(errno: i32) -> Self {
        crate::boundary::set_errno(errno);
        BigEndian(0)
    }
}

/// `ibv_get_device_index`: the index of the device, -1 for what is not a device of ours.
///
/// # Safety
/// `device` is compared, never followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut sys::ibv_device) -> c_int {
    entry(|| match Device::of(device) {
        Ok(device) => device.info.index as c_int,
        Err(_) => -1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn zeros_follow_the_public_structure() {
        assert_eq!(offset_of!(Device, zeros), size_of::<sys::ibv_device>());
    }

    #[test]
    fn long_names_are_shortened_and_terminated() {
        let mut array = [0 as c_char; 4];
        store(&mut array, "ferri0");
        assert_eq!(array.map(|c| c as u8), *b"fer\0");
    }

    #[test]
    fn strangers_are_told_apart() {
        let stranger = sys::ibv_device::default();
        assert_eq!(Device::of(&stranger).err(), Some(libc::ENODEV));
        assert_eq!(Device::of(std::ptr::null()).err(), Some(libc::EINVAL));
        let pointer = std::ptr::from_ref(&stranger).cast_mut();
        // SAFETY: the pointer is only compared.
        assert_eq!(unsafe { ibv_get_device_index(pointer) }, -1);
    }
}
