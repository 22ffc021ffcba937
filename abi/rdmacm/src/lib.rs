//! The C face of the connection manager: `librdmacm.so.1`, a drop-in for that of rdma-core 44 to 65.
//!
//! Owns the objects that programs hold (event channels, identifiers, events), their C-visible fields, and the duties that
//! rdma-core's library has in user space: moving queue pairs through their states, a new identifier for each request, the
//! waiting of synchronous identifiers. Connections themselves live in `libibverbs.so.1`, behind the private functions of
//! `ferriband-cm-abi`; every other object is made through libibverbs' public interface. It must not know how a
//! connection comes about.
//!
//! Where to look: [`id`] explains what programs hold and when it goes; [`events`] has the duties that come with each event;
//! [`private`] finds the private functions; `abi/symbols.tsv` lists what is exported.

pub mod address;
pub mod addrinfo;
pub mod boundary;
pub mod channel;
pub mod connect;
pub mod device;
pub mod endpoint;
pub mod events;
pub mod id;
pub mod lookup;
pub mod multicast;
pub mod object;
pub mod private;
pub mod qp;
pub mod resolve;
pub mod rsocket;
pub mod services;
pub mod system;
pub mod verbs;

use ferriband_rdmacm_sys as sys;
