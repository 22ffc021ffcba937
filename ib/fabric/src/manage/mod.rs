//! The management side of a fabric: what each node says of itself and is told, and how management packets find their way between nodes.
//!
//! Owns the state that subnet managers see and set ([`Node`], [`Port`]), the subnet management agent ([`Node::answer`]) and the paths of management
//! packets, which need no tables yet ([`Plane`]): lane 15 has neither credits nor routes of its own, so what happens here happens at once. Must
//! not know who asks, nor how data moves. Every management packet is a stranger's: what is wrong changes nothing.

mod agent;
mod carry;
mod cc;
mod node;
mod perf;
mod plane;
#[cfg(test)]
mod tests;
mod training;

pub(crate) use carry::{Crossing, is_group};
pub use carry::{Hop, Load};
pub use cc::Congestion;
pub use node::{Node, Port, SwitchTables};
pub use perf::Counters;
pub use plane::{Delivery, MILLION, Passed, Place, Plane};
