//! The loop as objects know it.
//!
//! Owns nothing.

use std::any::Any;
use std::sync::Arc;

use ferriband_wire::Gid;

use crate::objects::catch::Catch;
use crate::objects::host::Host;
use crate::objects::regions::Memory;
use crate::process::process::Process;
use crate::progress::Engine;

impl Host for Engine {
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn adapter(&self) -> Arc<dyn Any + Send + Sync> {
        self.adapter.clone()
    }

    fn process(&self) -> &Process {
        &self.process
    }

    fn memory(&self) -> Memory<'_> {
        self.adapter.memory()
    }

    fn poll(&self, catch: &mut Catch<'_>) {
        Engine::poll(self, catch);
    }

    fn hand_over(&self) {
        Engine::hand_over(self);
    }

    fn take_came(&self, rung: bool) {
        Engine::take_came(self, rung);
    }

    fn wait_by_thread(&self) {
        Engine::wait_by_thread(self);
    }

    fn publish_counters(&self) {
        Engine::publish_counters(self);
    }

    fn meet_group(&self, group: &Gid) {
        self.adapter.meet_group(group);
    }

    fn forget_srq(&self, number: u32) {
        self.targets.remove_srq(&self.process, number);
    }

    fn leave_domain(&self, domain: usize) {
        self.stop_carrying_domain(domain);
    }
}
