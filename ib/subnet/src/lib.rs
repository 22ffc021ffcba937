//! A subnet manager: finds out what a subnet consists of, gives its ports addresses, computes routes and programs the switches.
//!
//! Owns the manager itself ([`manager`]), the graph of a discovered subnet ([`graph`]), routing engines as pure functions over it ([`routing`]), and the checker of what they
//! made ([`check`]). Must not know how packets move; where the description of a fabric came from only [`paper`] knows, which stands in for
//! discovery in simulations and tests.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod check;
pub mod election;
pub mod graph;
pub mod manager;
pub mod paper;
pub mod routing;
pub mod sa;

pub use graph::Graph;
