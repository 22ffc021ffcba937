//! Services by subnet administration (RAI_SA): its ServiceRecords, as addresses of AF_IB.

use crate::address::AF_IB;
use crate::addrinfo::rdma_freeaddrinfo;
use crate::boundary::Errno;
use crate::private::call;
use crate::sys::{
    RAI_SA, RDMA_IB_IP_PS_MASK, RDMA_IB_PS_IB, RDMA_PS_IB, rdma_addrinfo, sockaddr_ib,
};
use ferriband_cm_abi::fb_service;
use ferriband_verbs_sys::ibv_gid;
use libc::{c_int, sockaddr, socklen_t};
use std::ffi::CStr;

/// Bytes of a name, of which the last is zero.
const NAME: usize = 64;
/// Services that are asked for at first; for more there is another question.
const SOME: usize = 64;

/// All services of a name, or of a number that is written as C has it: a list, which [`rdma_freeaddrinfo`] frees.
///
/// ENOENT, ENETDOWN, ETIMEDOUT, ENOMEM.
pub fn find(service: &CStr) -> Result<*mut rdma_addrinfo, Errno> {
    let bytes = service.to_bytes();
    let mut name = [0; NAME];
    let length = bytes.len().min(NAME - 1);
    name[..length].copy_from_slice(&bytes[..length]);
    let id = number(service);
    let by_name = match id {
        None => name.as_ptr(),
        Some(_) => std::ptr::null(),
    };
    // SAFETY: zeros are numbers.
    let (mut own, none): (ibv_gid, fb_service) = unsafe { std::mem::zeroed() };
    let mut found = vec![none; SOME];
    loop {
        let (most, mut count) = (found.len() as u32, 0);
        let (place, at) = (&raw mut own, found.as_mut_ptr());
        // SAFETY: the name and the places live during the call.
        call(|f| unsafe {
            (f.find_services)(id.unwrap_or(0), by_name, place, at, most, &raw mut count)
        })?;
        found.resize(count as usize, none);
        if count <= most {
            return list(own, &found);
        }
    }
}

/// A number as `strtoull` reads it, and nothing behind it.
fn number(text: &CStr) -> Option<u64> {
    let text = text.to_str().ok()?;
    let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let (digits, base) = match (hexadecimal, text.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, base).ok()
}

fn list(own: ibv_gid, found: &[fb_service]) -> Result<*mut rdma_addrinfo, Errno> {
    let mut first = std::ptr::null_mut();
    for service in found.iter().rev() {
        match entry(own, service, first) {
            Some(entry) => first = entry,
            None => {
                // SAFETY: nobody else knows the list.
                unsafe { rdma_freeaddrinfo(first) };
                return Err(libc::ENOMEM);
            }
        }
    }
    Ok(first)
}

/// One entry before `next`; None without memory.
fn entry(
    own: ibv_gid,
    service: &fb_service,
    next: *mut rdma_addrinfo,
) -> Option<*mut rdma_addrinfo> {
    // SAFETY: any size may be asked for; zeros are NULL and 0.
    let at = unsafe { libc::calloc(1, size_of::<rdma_addrinfo>()) }.cast::<rdma_addrinfo>();
    // SAFETY: new, or NULL.
    let info = unsafe { at.as_mut() }?;
    info.ai_flags = RAI_SA as c_int;
    info.ai_family = AF_IB;
    info.ai_port_space = RDMA_PS_IB as c_int;
    info.ai_dst_addr = address(service.gid, service.pkey, service.service_id, u64::MAX);
    info.ai_dst_len = size_of::<sockaddr_ib>() as socklen_t;
    info.ai_src_addr = address(own, service.pkey, RDMA_IB_PS_IB, RDMA_IB_IP_PS_MASK);
    info.ai_src_len = size_of::<sockaddr_ib>() as socklen_t;
    if info.ai_dst_addr.is_null() || info.ai_src_addr.is_null() {
        // SAFETY: nobody else knows it; it has no successor yet.
        unsafe { rdma_freeaddrinfo(at) };
        return None;
    }
    info.ai_next = next;
    Some(at)
}

/// An address of AF_IB in the C library's heap, or NULL.
fn address(gid: ibv_gid, pkey: u16, service: u64, mask: u64) -> *mut sockaddr {
    // SAFETY: any size may be asked for; zeros are numbers.
    let at = unsafe { libc::calloc(1, size_of::<sockaddr_ib>()) }.cast::<sockaddr_ib>();
    // SAFETY: new, or NULL.
    let Some(to) = (unsafe { at.as_mut() }) else {
        return std::ptr::null_mut();
    };
    to.sib_family = AF_IB as u16;
    to.sib_pkey = pkey.to_be();
    // SAFETY: both are 16 bytes of a GID.
    unsafe {
        (&raw mut to.sib_addr)
            .cast::<ibv_gid>()
            .write_unaligned(gid)
    };
    to.sib_sid = service.to_be();
    to.sib_sid_mask = mask.to_be();
    at.cast()
}
