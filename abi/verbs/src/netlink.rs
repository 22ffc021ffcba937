//! What the kernel's RDMA subsystem would answer to messages of NETLINK_RDMA about our devices: `rdma dev`, `rdma link`, `rdma system`,
//! `rdma statistic`.
//!
//! Owns the shape of these messages, after `rdma/rdma_netlink.h` of Linux, and no state: every answer is made from what the adapter knows at
//! that moment. It knows no socket: `abi/sysfs` has the program's, and asks [`ferriband_netlink`].

use crate::boundary::{Failure, Negated, entry};
use crate::context::any_adapter;
use crate::device::{self, Device};
use crate::query::{device_caps, port_cap_flags, states};
use ferriband_admin::Counter;
use ferriband_hca::{LinkLayer, PortAttr, limits};
use message::{Header, Message, attributes};

mod message;

/// The client number of RDMA_NL_NLDEV in a message's type, whose low ten bits are the command.
const NLDEV: u16 = 5 << 10;

/// Commands: RDMA_NLDEV_CMD_*.
mod command {
    pub const GET: u16 = super::NLDEV | 1;
    pub const PORT_GET: u16 = super::NLDEV | 5;
    pub const SYS_GET: u16 = super::NLDEV | 6;
    pub const STAT_GET: u16 = super::NLDEV | 17;
}

/// Attributes: RDMA_NLDEV_ATTR_*, and RDMA_NLDEV_SYS_ATTR_* of the system.
mod attr {
    pub const DEV_INDEX: u16 = 1;
    pub const DEV_NAME: u16 = 2;
    pub const PORT_INDEX: u16 = 3;
    pub const CAP_FLAGS: u16 = 4;
    pub const FW_VERSION: u16 = 5;
    pub const NODE_GUID: u16 = 6;
    pub const SYS_IMAGE_GUID: u16 = 7;
    pub const SUBNET_PREFIX: u16 = 8;
    pub const LID: u16 = 9;
    pub const SM_LID: u16 = 10;
    pub const LMC: u16 = 11;
    pub const PORT_STATE: u16 = 12;
    pub const PORT_PHYS_STATE: u16 = 13;
    pub const DEV_NODE_TYPE: u16 = 14;
    pub const NDEV_INDEX: u16 = 50;
    pub const NDEV_NAME: u16 = 51;
    pub const SYS_NETNS_MODE: u16 = 66;
    pub const DEV_PROTOCOL: u16 = 67;
    pub const STAT_RES: u16 = 75;
    pub const STAT_HWCOUNTERS: u16 = 80;
    pub const STAT_HWCOUNTER_ENTRY: u16 = 81;
    pub const STAT_HWCOUNTER_ENTRY_NAME: u16 = 82;
    pub const STAT_HWCOUNTER_ENTRY_VALUE: u16 = 83;
    pub const SYS_COPY_ON_FORK: u16 = 93;
}

/// RDMA_NODE_IB_CA.
const NODE_CHANNEL_ADAPTER: u8 = 1;
/// Each network namespace has its own devices: what `rdma system` calls exclusive.
const NETNS_EXCLUSIVE: u8 = 0;
/// Nothing is needed before a fork, as `ibv_is_fork_initialized` says.
const COPY_ON_FORK: u8 = 1;

/// The messages that answer what a program has sent to a NETLINK_RDMA socket with that port, for the library that has the socket
/// (`abi/sysfs`). Private: node FERRIBAND_PRIVATE_1.
///
/// They stand behind each other, each as long as its header says and beginning at a multiple of four bytes. The result is the length of all,
/// or a negative errno: ENOBUFS if that is more than `size`.
///
/// # Safety
/// `request` is readable for `length` bytes, and `answer` writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_netlink(
    request: *const u8,
    length: usize,
    port: u32,
    answer: *mut u8,
    size: usize,
) -> isize {
    entry(|| {
        let mut copy = vec![0_u8; length];
        // SAFETY: the caller's promise.
        unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(request, length) };
        let answers = answers(&copy, port);
        if answers.len() > size {
            return Negated::failure(libc::ENOBUFS);
        }
        // SAFETY: the caller's promise, and the answers fit.
        unsafe { answer.copy_from_nonoverlapping(answers.as_ptr(), answers.len()) };
        Negated(answers.len() as isize)
    })
    .0
}

/// The answers to all messages in `sent`.
fn answers(sent: &[u8], port: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for (header, whole) in message::messages(sent) {
        // the kernel acknowledges control messages and what is no request, and does nothing else with them
        let is_request = header.flags & message::REQUEST != 0 && header.kind >= message::MIN_TYPE;
        let done = if is_request {
            handle(&header, whole, port)
        } else {
            Ok(Done::Answered(Vec::new()))
        };
        match done {
            Ok(Done::Dumped(messages)) => {
                messages.into_iter().for_each(|one| out.extend(one));
                out.extend(header.dump_done(port));
            }
            Ok(Done::Answered(message)) => {
                out.extend(message);
                if header.flags & message::ACK != 0 {
                    out.extend(header.acknowledged(whole, port));
                }
            }
            Err(errno) => out.extend(header.refused(errno, whole, port)),
        }
    }
    out
}

/// What became of a request.
enum Done {
    /// One message, perhaps empty.
    Answered(Vec<u8>),
    /// Messages of a list, whose end is to be told.
    Dumped(Vec<Vec<u8>>),
}

fn handle(header: &Header, whole: &[u8], port: u32) -> Result<Done, i32> {
    let is_dump = header.flags & message::DUMP != 0;
    let flags = if is_dump { message::MULTI } else { 0 };
    let reply = || Message::new(header, flags, port);
    match (header.kind, is_dump) {
        (command::GET, true) => {
            let all = device::all().iter();
            Ok(Done::Dumped(
                all.map(|one| about_device(reply(), one)).collect(),
            ))
        }
        (command::GET, false) => Ok(Done::Answered(about_device(reply(), named_device(whole)?))),
        (command::PORT_GET, true) => {
            let device = named_device(whole)?;
            let ports = 1..=ports_of(device);
            let messages = ports.map(|port| about_port(reply(), device, port));
            Ok(Done::Dumped(messages.collect::<Result<_, i32>>()?))
        }
        (command::PORT_GET, false) => {
            let device = named_device(whole)?;
            let port = named_port(whole, device)?;
            Ok(Done::Answered(about_port(reply(), device, port)?))
        }
        (command::SYS_GET, false) => Ok(Done::Answered(
            reply()
                .u8(attr::SYS_NETNS_MODE, NETNS_EXCLUSIVE)
                .u8(attr::SYS_COPY_ON_FORK, COPY_ON_FORK)
                .finished(),
        )),
        // counters of single queue pairs and regions are not kept
        (command::STAT_GET, false) if number(whole, attr::STAT_RES).is_none() => {
            let device = named_device(whole)?;
            let port = named_port(whole, device)?;
            Ok(Done::Answered(about_counters(reply(), device, port)?))
        }
        _ => Err(libc::EOPNOTSUPP),
    }
}

/// A number that the request gives.
fn number(whole: &[u8], wanted: u16) -> Option<u32> {
    let value = attributes(whole).find(|(kind, _)| *kind == wanted)?.1;
    Some(u32::from_ne_bytes(*value.first_chunk()?))
}

/// The device whose index the request gives.
fn named_device(whole: &[u8]) -> Result<&'static Device, i32> {
    let index = number(whole, attr::DEV_INDEX).ok_or(libc::EINVAL)?;
    let has_index = |device: &&Device| device.info().index == index as usize;
    device::all().iter().find(has_index).ok_or(libc::EINVAL)
}

/// How many ports a device has.
fn ports_of(device: &Device) -> u8 {
    ferriband_hca::device_at(device.info().index).map_or(1, ferriband_hca::Device::ports)
}

/// The port that the request gives.
fn named_port(whole: &[u8], device: &Device) -> Result<u8, i32> {
    number(whole, attr::PORT_INDEX)
        .and_then(|port| u8::try_from(port).ok())
        .filter(|port| (1..=ports_of(device)).contains(port))
        .ok_or(libc::EINVAL)
}

/// What every message about a device begins with.
fn of_device(message: Message, device: &Device) -> Message {
    message
        .u32(attr::DEV_INDEX, device.info().index as u32)
        .text(attr::DEV_NAME, &device.info().name)
}

fn is_ethernet(device: &Device) -> bool {
    device.info().link_layer == LinkLayer::Ethernet
}

fn about_device(message: Message, device: &Device) -> Vec<u8> {
    let info = device.info();
    let protocol = if is_ethernet(device) { "roce" } else { "ib" };
    of_device(message, device)
        .u32(attr::PORT_INDEX, ports_of(device).into())
        .u64(attr::CAP_FLAGS, device_caps(is_ethernet(device)).into())
        .text(attr::FW_VERSION, env!("CARGO_PKG_VERSION"))
        .u64(attr::NODE_GUID, info.guid.0)
        .u64(attr::SYS_IMAGE_GUID, info.system_guid.0)
        .u8(attr::DEV_NODE_TYPE, NODE_CHANNEL_ADAPTER)
        .text(attr::DEV_PROTOCOL, protocol)
        .finished()
}

/// Only a process that has joined its host knows the LID, and whether an administrator lets the port fail.
fn port_attr(device: &'static Device, port: u8) -> Result<PortAttr, i32> {
    any_adapter(device)?
        .query_port(port)
        .map_err(|error| error.errno())
}

fn about_port(message: Message, device: &'static Device, port: u8) -> Result<Vec<u8>, i32> {
    let info = device.info();
    let now = port_attr(device, port)?;
    let message = of_device(message, device).u32(attr::PORT_INDEX, port.into());
    let (state, phys_state) = states(&now);
    let message = if is_ethernet(device) {
        message
    } else {
        message
            .u64(attr::CAP_FLAGS, port_cap_flags(false).into())
            .u64(attr::SUBNET_PREFIX, subnet_prefix(device))
            .u32(attr::LID, now.lid.0.into())
            .u32(attr::SM_LID, now.sm_lid.0.into())
            .u8(attr::LMC, now.lmc)
    };
    let message = message
        .u8(attr::PORT_STATE, state)
        .u8(attr::PORT_PHYS_STATE, phys_state);
    Ok(if info.interface.is_empty() {
        message.finished()
    } else {
        message
            .u32(attr::NDEV_INDEX, info.ifindex)
            .text(attr::NDEV_NAME, &info.interface)
            .finished()
    })
}

/// The upper half of the port's first GID.
fn subnet_prefix(device: &Device) -> u64 {
    let hca = ferriband_hca::device_at(device.info().index);
    let gid = hca.and_then(|hca| hca.gid(0));
    gid.and_then(|entry| entry.gid.0.first_chunk().copied())
        .map_or(limits::SUBNET_PREFIX, u64::from_be_bytes)
}

/// The counters that `hw_counters` has under /sys: those of Ethernet ports.
fn about_counters(message: Message, device: &'static Device, port: u8) -> Result<Vec<u8>, i32> {
    let counters = if is_ethernet(device) {
        let sums = any_adapter(device)?.port_counters();
        let special = Counter::ALL.into_iter().filter(|one| !one.is_standard());
        special
            .map(|one| (one.name(), sums[one as usize]))
            .collect()
    } else {
        Vec::new()
    };
    let message = of_device(message, device).u32(attr::PORT_INDEX, port.into());
    let nested = message.nested(attr::STAT_HWCOUNTERS, |table| {
        counters.iter().fold(table, |table, (name, value)| {
            table.nested(attr::STAT_HWCOUNTER_ENTRY, |entry| {
                entry
                    .text(attr::STAT_HWCOUNTER_ENTRY_NAME, name)
                    .u64(attr::STAT_HWCOUNTER_ENTRY_VALUE, *value)
            })
        })
    });
    Ok(nested.finished())
}

#[cfg(test)]
mod tests;
