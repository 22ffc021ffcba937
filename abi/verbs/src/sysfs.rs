//! The files that the kernel would show for a device under /sys, for programs that read them through this library.
//!
//! Our devices have no kernel part. Their files are made up here from what the adapter knows; every other
//! path is read from the file system as it is.

use crate::boundary::{MinusOne, try_entry};
use crate::context::any_adapter;
use crate::device::{self, Device};
use crate::query::width_and_speed;
use ferriband_admin::Counter;
use ferriband_hca::{LinkLayer, limits};
use std::ffi::{CStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where programs find the tree: the environment is not asked, so that a stray variable cannot hide a device.
const ROOT: &CStr = c"/sys";

/// `ibv_get_sysfs_path`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    ROOT.as_ptr()
}

/// `ibv_read_sysfs_file`: the text of a file without its final newline, terminated; its length, or -1.
///
/// # Safety
/// `dir` and `file` are NULL or strings, and `buffer` is writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { path(dir, file) }?;
        let text = match of_ours(&path) {
            Some(text) => text?.into_bytes(),
            None => {
                std::fs::read(&path).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?
            }
        };
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        if buffer.is_null() || text.len() >= size {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise, and the text with its NUL fits.
        unsafe {
            text.as_ptr()
                .cast::<c_char>()
                .copy_to_nonoverlapping(buffer, text.len())
        };
        // SAFETY: as above.
        unsafe { buffer.add(text.len()).write(0) };
        Ok(MinusOne(text.len() as c_int))
    })
    .0
}

/// A directory and a file in it as a path.
///
/// # Safety
/// The pointers are NULL or strings.
unsafe fn path(dir: *const c_char, file: *const c_char) -> Result<PathBuf, i32> {
    let part = |pointer: *const c_char| {
        if pointer.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(pointer) };
        Ok(Path::new(std::ffi::OsStr::from_bytes(text.to_bytes())))
    };
    Ok(part(dir)?.join(part(file)?))
}

/// The text of a file of one of our devices; None if the path is not one of ours.
fn of_ours(path: &Path) -> Option<Result<String, i32>> {
    device::all().iter().find_map(|device| {
        let info = device.info();
        let class = Path::new("/sys/class/infiniband").join(&info.name);
        if let Ok(rest) = path.strip_prefix(class) {
            return Some(device_file(device, rest));
        }
        let verbs = Path::new("/sys/class/infiniband_verbs").join(format!("uverbs{}", info.index));
        let rest = path.strip_prefix(verbs).ok()?;
        Some(match rest.to_str() {
            Some("ibdev") => Ok(info.name.clone()),
            Some("abi_version") => Ok("1".to_owned()),
            _ => Err(libc::ENOENT),
        })
    })
}

/// Eight groups of four hexadecimal digits.
fn gid_text(gid: [u8; 16]) -> String {
    let groups: Vec<String> = gid
        .chunks(2)
        .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
        .collect();
    groups.join(":")
}

/// Four groups of four hexadecimal digits.
fn guid_text(guid: u64) -> String {
    let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (guid >> shift) as u16);
    format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}")
}

/// A file under the device's directory.
fn device_file(device: &'static Device, rest: &Path) -> Result<String, i32> {
    let info = device.info();
    let parts: Vec<&str> = rest.iter().filter_map(|part| part.to_str()).collect();
    match parts.as_slice() {
        ["node_guid" | "sys_image_guid"] => Ok(guid_text(info.guid.0)),
        ["node_type"] => Ok("1: CA".to_owned()),
        ["node_desc"] => Ok(format!("Ferriband {}", info.name)),
        ["fw_ver"] => Ok(env!("CARGO_PKG_VERSION").to_owned()),
        ["hca_type" | "board_id"] => Ok(format!("FB{:X}", limits::VENDOR_PART_ID)),
        ["hw_rev"] => Ok("1".to_owned()),
        ["ports", port, file @ ..] => {
            port_file(device, port.parse().map_err(|_| libc::ENOENT)?, file)
        }
        _ => Err(libc::ENOENT),
    }
}

/// The rate as the kernel prints it.
fn rate_text(width_and_speed: (u8, u8)) -> &'static str {
    match width_and_speed {
        (2, 32) => "100 Gb/sec (4X EDR)",
        (2, _) => "40 Gb/sec (4X QDR)",
        (_, 32) => "25 Gb/sec (1X EDR)",
        (_, 4) => "10 Gb/sec (1X QDR)",
        _ => "2.5 Gb/sec (1X SDR)",
    }
}

/// A file under a port's directory.
fn port_file(device: &'static Device, port: u8, file: &[&str]) -> Result<String, i32> {
    let adapter = any_adapter(device)?;
    let attr = adapter.query_port(port).map_err(|_| libc::ENOENT)?;
    let ethernet = attr.link_layer == LinkLayer::Ethernet;
    let index = |text: &str| text.parse::<u32>().map_err(|_| libc::ENOENT);
    match file {
        ["state"] if attr.active => Ok("4: ACTIVE".to_owned()),
        ["state"] => Ok("1: DOWN".to_owned()),
        ["phys_state"] if attr.active => Ok("5: LinkUp".to_owned()),
        ["phys_state"] => Ok("3: Disabled".to_owned()),
        ["link_layer"] if ethernet => Ok("Ethernet".to_owned()),
        ["link_layer"] => Ok("InfiniBand".to_owned()),
        ["rate"] => Ok(rate_text(width_and_speed(&attr)).to_owned()),
        ["lid"] => Ok(format!("{:#x}", attr.lid.0)),
        ["sm_lid"] => Ok(format!("{:#x}", attr.sm_lid.0)),
        ["lid_mask_count" | "sm_sl"] => Ok("0".to_owned()),
        ["gids", number] => {
            let number = index(number)?;
            match adapter.query_gid(port, number) {
                Ok(entry) => Ok(gid_text(entry.gid.0)),
                Err(_) if number < attr.gid_table => Ok(gid_text([0; 16])),
                Err(_) => Err(libc::ENOENT),
            }
        }
        ["pkeys", number] => adapter
            .query_pkey(port, index(number)?)
            .map(|pkey| format!("{pkey:#06x}"))
            .map_err(|_| libc::ENOENT),
        ["gid_attrs", what @ ("types" | "ndevs"), number] if ethernet => {
            // an empty entry is EINVAL there, too
            adapter
                .query_gid(port, index(number)?)
                .map_err(|_| libc::EINVAL)?;
            Ok(match *what {
                "types" => "RoCE v2".to_owned(),
                _ => device.info().interface.clone(),
            })
        }
        [directory @ ("counters" | "hw_counters"), name] if ethernet => Counter::named(name)
            .filter(|counter| counter.is_standard() == (*directory == "counters"))
            .map(|counter| adapter.port_counters()[counter as usize].to_string())
            .ok_or(libc::ENOENT),
        // The kernel answers reads of this file with EINVAL on InfiniBand ports.
        ["gid_attrs", "types" | "ndevs", _] => Err(libc::EINVAL),
        _ => Err(libc::ENOENT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_look_as_the_kernel_prints_them() {
        assert_eq!(guid_text(0x0002_c903_0000_1234), "0002:c903:0000:1234");
        let mut gid = [0; 16];
        (gid[0], gid[1], gid[15]) = (0xfe, 0x80, 1);
        assert_eq!(gid_text(gid), "fe80:0000:0000:0000:0000:0000:0000:0001");
    }

    /// Reads into a buffer of 64 bytes of which `size` are offered.
    fn read(dir: &CStr, file: &CStr, size: usize) -> Result<String, i32> {
        let mut buffer = [0 as c_char; 64];
        let start = buffer.as_mut_ptr();
        // SAFETY: strings and a live buffer.
        let length = unsafe { ibv_read_sysfs_file(dir.as_ptr(), file.as_ptr(), start, size) };
        if length < 0 {
            return Err(crate::boundary::errno());
        }
        // SAFETY: the function terminated the text.
        let text = unsafe { CStr::from_ptr(start) };
        assert_eq!(text.count_bytes(), length as usize);
        Ok(text.to_str().expect("text").to_owned())
    }

    #[test]
    fn other_paths_are_read_from_the_file_system() {
        let name = read(c"/proc/self", c"comm", 64).expect("every process has a name");
        assert!(!name.is_empty() && !name.ends_with('\n'));
        assert_eq!(
            read(c"/proc/self", c"comm", name.len()),
            Err(libc::EINVAL),
            "no room for the NUL"
        );
        assert_eq!(read(c"/nowhere", c"at-all", 64), Err(libc::ENOENT));
    }
}
