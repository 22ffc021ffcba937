//! The wires of packets that a process has opened.
//!
//! Owns that each is opened once. Must not know what goes by them.

use ferriband_memory::host::HandOver;

use crate::base::error::Error;
use crate::device::Device;
use crate::lock;
use crate::qp::adapter::{Adapter, Roce};

impl Adapter {
    /// The RoCE wire, its port joined if it is not.
    ///
    /// # Errors
    /// What `Roce::join_port` says.
    pub(crate) fn roce(&self) -> Result<&Roce, Error> {
        self.packets(
            |roce| roce.has_port(),
            |roce| {
                // for packets that reach another process first; without the box they are lost, and
                // sent again
                let _ = self.post_box();
                roce.join_port(&self.process.registry)
            },
        )
    }

    /// What carries the packets of a device, opened if it is not.
    ///
    /// # Errors
    /// What `Roce::join_port` and `Roce::open_local` say.
    pub(crate) fn packets_of(&self, device: &Device) -> Result<&Roce, Error> {
        if device.is_ethernet() {
            return self.roce();
        }
        self.packets(
            |roce| roce.local().is_some(),
            |roce| {
                roce.open_local(
                    &self.process.registry,
                    &self.process.own,
                    &self.process.bell,
                )
            },
        )
    }

    pub(crate) fn packets(
        &self,
        is_open: impl Fn(&Roce) -> bool,
        open: impl FnOnce(&Roce) -> Result<(), Error>,
    ) -> Result<&Roce, Error> {
        if let Some(roce) = self.wires.roce.get().filter(|roce| is_open(roce)) {
            return Ok(roce);
        }
        let _one = lock(&self.wires.roce_opening);
        let roce = self
            .wires
            .roce
            .get_or_init(|| Roce::new(&self.process.registry, &self.process.waker));
        if !is_open(roce) {
            open(roce)?;
            // the thread waits for its sockets from now on
            self.process.waker.signal(1);
        }
        Ok(roce)
    }

    /// Packets, if any of their carriers was opened.
    pub(crate) fn opened_roce(&self) -> Option<&Roce> {
        self.wires.roce.get()
    }

    /// Where other processes of this host put what is for this one; opened if it is not.
    ///
    /// # Errors
    /// What the host's registry says.
    pub(crate) fn post_box(&self) -> Result<&HandOver, Error> {
        if let Some(post_box) = self.wires.post_box.get() {
            return Ok(post_box);
        }
        let _one = lock(&self.wires.post_opening);
        if self.wires.post_box.get().is_none() {
            let _ = self.wires.post_box.set(self.process.registry.hand_over()?);
            self.process.waker.signal(1);
        }
        self.wires
            .post_box
            .get()
            .ok_or(Error::NotFound("the post box was not opened"))
    }

    /// The post box if it is open.
    pub(crate) fn open_post_box(&self) -> Option<&HandOver> {
        self.wires.post_box.get()
    }

    /// A service was claimed or given back: requests for it are steered accordingly.
    pub(crate) fn services_changed(&self) {
        if let Some(roce) = self.wires.roce.get() {
            roce.steer(&self.process.registry);
        }
    }
}
