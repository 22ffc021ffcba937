//! What a connection has done, and how full its buffers are.
//!
//! Owns: counters, and samples of the buffers weighted by the time that the caller gives. Must not
//! know: clocks.

/// Counters of one side.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Messages sent by SEND.
    pub messages_sent: u64,
    /// Of these, those that only give credits or room.
    pub updates_sent: u64,
    /// RDMA WRITEs with immediate data.
    pub writes_sent: u64,
    /// Of these, those that joined the bytes of several calls.
    pub joined: u64,
    /// Bytes of the stream sent.
    pub bytes_sent: u64,
    /// Of these, bytes that the peer has read from the program's buffer (zero copy).
    pub bytes_offered: u64,
    /// Offers of which the peer has read bytes.
    pub offers_read: u64,
    /// Messages and RDMA WRITEs received.
    pub messages_received: u64,
    /// Bytes of the stream received.
    pub bytes_received: u64,
    /// Of these, bytes that this side has read from the peer's buffer (zero copy).
    pub bytes_fetched: u64,
    /// RDMA READs that have brought these.
    pub fetches: u64,
}

/// Bytes of a side's buffers that hold data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Bytes of the stream in the send buffer.
    pub send_bytes: u32,
    /// Bytes of the stream in the receive buffers that the program has not taken.
    pub receive_bytes: u32,
}

/// The mean of samples, each with a weight (papers/004, figure 9: the time since the one before).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UsageMean {
    weight: u128,
    send: u128,
    receive: u128,
}

impl UsageMean {
    /// The buffers were so full for a time of `weight`, in any unit.
    pub fn sample(&mut self, usage: Usage, weight: u64) {
        let weight = u128::from(weight);
        self.weight += weight;
        self.send += weight * u128::from(usage.send_bytes);
        self.receive += weight * u128::from(usage.receive_bytes);
    }

    /// The mean of all samples; None if they have no weight.
    pub fn mean(&self) -> Option<Usage> {
        let mean = |sum: u128| sum.checked_div(self.weight);
        Some(Usage {
            // a mean of u32 is one
            send_bytes: mean(self.send)? as u32,
            receive_bytes: mean(self.receive)? as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_count_by_their_time() {
        let mut mean = UsageMean::default();
        assert_eq!(mean.mean(), None);
        let usage = |send_bytes, receive_bytes| Usage {
            send_bytes,
            receive_bytes,
        };
        mean.sample(usage(100, 0), 30);
        mean.sample(usage(0, 40), 10);
        mean.sample(usage(1_000_000, 7), 0);
        assert_eq!(mean.mean(), Some(usage(75, 10)));
    }
}
