//! The direct wire's own part: how memory of programs is reached.
//!
//! Owns nothing. Must not know queue pairs. What the wire's machine (`ferriband-transport`) asks of
//! its process is answered in `qp/host.rs`.

pub(crate) mod app;
