//! What librdmacm.so.1 and libibverbs.so.1 say to each other: the private functions of the latter, version node
//! FERRIBAND_PRIVATE_1, and the structures in their arguments. Both sides depend on this crate, and on nothing else of
//! each other: all state of connections lives in libibverbs, the face keeps the C-visible objects.
//!
//! The shape is that of the interface between rdma-core's librdmacm and the Linux kernel (`rdma/rdma_user_cm.h`), over
//! which librdmacm's behaviour is defined. No code here but type definitions.
//!
//! * Every function returns 0 or an errno. None sets `errno`: the two libraries need not share thread-local storage.
//! * Structures begin with their own size where they may grow; the callee takes the shorter of both sizes.
//! * Pointers are valid for the call only, unless said otherwise. Addresses are `struct sockaddr` of AF_INET, AF_INET6 or
//!   AF_IB with their length.
#![no_std]
#![allow(non_camel_case_types)] // the C side's names

mod structs;

pub use structs::*;

use core::ffi::c_int;
use ferriband_verbs_sys::{ibv_gid, ibv_qp_attr};
use libc::{sockaddr, socklen_t};

/// Version of this interface; `ferriband_cm_version` returns it. The face refuses any other.
pub const FERRIBAND_CM_VERSION: c_int = 2;

/// The version node of the symbols.
pub const VERSION_NODE: &str = "FERRIBAND_PRIVATE_1";

macro_rules! functions {
    ($($(#[$doc:meta])* fn $field:ident = $symbol:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern "C" {
            $($(#[$doc])* pub fn $symbol($($argument: $type),*) $(-> $result)?;)*
        }

        /// The functions as the face looks them up, by `dlsym` in the process: a libibverbs that is not ours has none of
        /// them, and then every call is ENODEV. Whoever exports them fills one in a constant, which checks their types.
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct CmFunctions {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        /// The symbols' names, NUL included, in the order of `CmFunctions`.
        pub const SYMBOLS: [&core::ffi::CStr; [$(stringify!($symbol)),*].len()] = [
            $({
                const NAME: &[u8] = concat!(stringify!($symbol), "\0").as_bytes();
                match core::ffi::CStr::from_bytes_with_nul(NAME) {
                    Ok(name) => name,
                    Err(_) => panic!("an identifier has no NUL"),
                }
            }),*
        ];
    };
}

functions! {
    /// `FERRIBAND_CM_VERSION` of the library.
    fn version = ferriband_cm_version() -> c_int;

    /// Opens an event channel.
    ///
    /// ENOMEM, EMFILE.
    fn channel_open = ferriband_cm_channel_open(channel: *mut *mut fb_channel) -> c_int;

    /// The channel's descriptor, an eventfd that has a count for each event that waits, or -1 for
    /// no channel and after the device has failed. Whoever waits for an event asks for it before
    /// each wait, and reads one count from it: so the face decides how a thread sleeps. It goes
    /// into `rdma_event_channel.fd`. Closed by `channel_close` only.
    fn channel_fd = ferriband_cm_channel_fd(channel: *mut fb_channel) -> c_int;

    /// Closes a channel. Its identifiers must be destroyed or migrated before, as upstream demands; those that are not
    /// stay without a channel, and their events are dropped.
    fn channel_close = ferriband_cm_channel_close(channel: *mut fb_channel);

    /// Makes an identifier. `user` comes back in its events; `ps` is an `rdma_port_space`, `qp_type` an `ibv_qp_type`.
    /// Identifiers are numbers from 1 that are not used again as long as events of them may wait.
    ///
    /// EINVAL (port space or type), ENOMEM.
    fn create_id = ferriband_cm_create_id(
        channel: *mut fb_channel,
        user: u64,
        ps: u16,
        qp_type: u8,
        id: *mut u32
    ) -> c_int;

    /// Destroys an identifier, a connection with it: its peer is told. `*events_reported` becomes the number of its events
    /// that `get_event` has given out; the face waits until they are acknowledged. No event of it comes after this, those
    /// that waited are dropped: CONNECT_REQUESTs among them are refused.
    ///
    /// ENOENT.
    fn destroy_id = ferriband_cm_destroy_id(id: u32, events_reported: *mut u32) -> c_int;

    /// Binds to an address, and so to a device unless the address is the wildcard; port 0 chooses one.
    ///
    /// EADDRINUSE, EADDRNOTAVAIL, EINVAL (bound already; family), ENODEV.
    fn bind = ferriband_cm_bind(id: u32, address: *const sockaddr, length: socklen_t) -> c_int;

    /// Finds the device and the address from which `to` is reached; `from` may be null. ADDR_RESOLVED or ADDR_ERROR
    /// follows, within `timeout_ms`.
    ///
    /// EINVAL, EADDRINUSE, EADDRNOTAVAIL.
    fn resolve_addr = ferriband_cm_resolve_addr(
        id: u32,
        from: *const sockaddr,
        from_length: socklen_t,
        to: *const sockaddr,
        to_length: socklen_t,
        timeout_ms: c_int
    ) -> c_int;

    /// Finds the path. ROUTE_RESOLVED or ROUTE_ERROR follows.
    ///
    /// EINVAL (no address resolved).
    fn resolve_route = ferriband_cm_resolve_route(id: u32, timeout_ms: c_int) -> c_int;

    /// Listens. `backlog` counts CONNECT_REQUESTs that `get_event` has not given out; up to 0 means the largest.
    ///
    /// EADDRINUSE, EINVAL.
    fn listen = ferriband_cm_listen(id: u32, backlog: c_int) -> c_int;

    /// Asks for a connection, or for the queue pair behind a service.
    ///
    /// EINVAL (state, private data too long), ENODEV.
    fn connect = ferriband_cm_connect(id: u32, param: *const fb_conn_param, ece: *const fb_ece) -> c_int;

    /// With `param`: accepts the request that made the identifier, whose `user` is named now. With a null `param`: the
    /// queue pair is ready after a CONNECT_RESPONSE (RTU).
    ///
    /// EINVAL (state, private data too long), ENOENT.
    fn accept = ferriband_cm_accept(
        id: u32,
        user: u64,
        param: *const fb_conn_param,
        ece: *const fb_ece
    ) -> c_int;

    /// Refuses a request or a response. `reason` is a reason of the CM's REJ: 28 is the consumer's own.
    ///
    /// EINVAL.
    fn reject = ferriband_cm_reject(id: u32, data: *const u8, length: u8, reason: u8) -> c_int;

    /// Ends the connection, or answers its end. DISCONNECTED follows on the side that asked.
    ///
    /// EALREADY (it is over or never came to anything: no event follows), EINVAL (no connection was asked for), ENOENT.
    fn disconnect = ferriband_cm_disconnect(id: u32) -> c_int;

    /// An asynchronous event of the identifier's queue pair: `event` is an `ibv_event_type`, COMM_EST or PATH_MIG.
    ///
    /// EINVAL, EISCONN.
    fn notify = ferriband_cm_notify(id: u32, event: c_int) -> c_int;

    /// Attributes and mask for the transition of the identifier's queue pair to `attr->qp_state`, INIT, RTR or RTS.
    /// Attributes that the mask does not name are zero.
    ///
    /// EINVAL (state), ENOENT.
    fn init_qp_attr = ferriband_cm_init_qp_attr(
        id: u32,
        attr: *mut ibv_qp_attr,
        mask: *mut c_int
    ) -> c_int;

    /// What is known of the identifier. `info->size` says how long the caller's structure is.
    ///
    /// ENOENT, EINVAL (size).
    fn query = ferriband_cm_query(id: u32, info: *mut fb_cm_info) -> c_int;

    /// Sets an option: `level` and `name` are RDMA_OPTION_ID and RDMA_OPTION_IB with theirs.
    ///
    /// EINVAL, ENOSYS (unknown).
    fn set_option = ferriband_cm_set_option(
        id: u32,
        level: c_int,
        name: c_int,
        value: *const core::ffi::c_void,
        length: usize
    ) -> c_int;

    /// Joins a multicast group; `flags` is an `rdma_cm_mc_join_flags`. `user` comes back in MULTICAST_JOIN and
    /// MULTICAST_ERROR, `*group` names the membership.
    ///
    /// EINVAL, ENODEV.
    fn join = ferriband_cm_join(
        id: u32,
        address: *const sockaddr,
        length: socklen_t,
        flags: u16,
        user: u64,
        group: *mut u32
    ) -> c_int;

    /// Leaves a group. `*events_reported` as in `destroy_id`, of the membership's events.
    ///
    /// ENOENT.
    fn leave = ferriband_cm_leave(group: u32, events_reported: *mut u32) -> c_int;

    /// Moves an identifier, and its events that wait, to another channel. `*events_reported` as in `destroy_id`, of the old
    /// channel.
    ///
    /// ENOENT.
    fn migrate = ferriband_cm_migrate(
        id: u32,
        channel: *mut fb_channel,
        events_reported: *mut u32
    ) -> c_int;

    /// Puts an event into the identifier's channel: USER with the program's `arg`, ADDRINFO_RESOLVED, ADDRINFO_ERROR. It counts among the
    /// identifier's events, and goes with it to another channel.
    ///
    /// EINVAL (any other kind), ENOENT.
    fn write_event = ferriband_cm_write_event(id: u32, event: u32, status: c_int, arg: u64) -> c_int;

    /// Asks subnet administration for services, by their name, 64 bytes with zeros behind it, or where that is null by their number. `services` has room for `most`;
    /// `*count` becomes the number of all of them. `*gid` becomes the own port's. Waits for the answer.
    ///
    /// ENOENT, ENETDOWN (no fabric, no link, no manager), ETIMEDOUT.
    fn find_services = ferriband_cm_find_services(
        service_id: u64,
        name: *const u8,
        gid: *mut ibv_gid,
        services: *mut fb_service,
        most: u32,
        count: *mut u32
    ) -> c_int;

    /// Takes the channel's next event, for a count that the caller has read from its descriptor.
    /// `event->size` says how long the caller's structure is.
    ///
    /// EAGAIN (the event was taken back meanwhile), EINVAL (size).
    fn get_event = ferriband_cm_get_event(channel: *mut fb_channel, event: *mut fb_cm_event) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One name for each function, in the order of the table, none twice.
    #[test]
    fn every_function_has_its_symbol() {
        assert_eq!(size_of::<CmFunctions>(), SYMBOLS.len() * size_of::<usize>());
        for (index, symbol) in SYMBOLS.iter().enumerate() {
            assert!(symbol.to_bytes().starts_with(b"ferriband_cm_"));
            assert!(!SYMBOLS[..index].contains(symbol));
        }
        assert_eq!(SYMBOLS[0], c"ferriband_cm_version");
        assert_eq!(SYMBOLS[SYMBOLS.len() - 1], c"ferriband_cm_get_event");
    }
}
