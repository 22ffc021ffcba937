//! Credits: how many messages a side may send before the peer must post more receive buffers
//! (papers/004 section 3.1). Pure arithmetic over what a BSDH says.

use crate::types::MessageSeq;

/// Credits that data never use. They are kept for messages that give credits, cancel or end: two
/// sides whose data used the last credit could tell each other nothing.
pub const RESERVED_CREDITS: u32 = 2;

/// Credits after a message of the peer: `mseq_ack - tx_head + 1 + bufs`.
///
/// `mseq_ack` and `bufs` are the message's; `tx_head` is the number that this side's next message
/// will have. When the peer sent the message, it had received all up to `mseq_ack` and had `bufs`
/// buffers posted for what comes after; messages that are under way take one each. More messages
/// under way than buffers is 0.
///
/// None if the peer acknowledges a message that was not sent: it has lost count, and the connection
/// ends.
///
/// ```
/// use ferriband_sdp_wire::{MessageSeq, credits};
///
/// // Hello had number 0. Its answer offers eight buffers; nothing is under way.
/// assert_eq!(credits(MessageSeq(0), MessageSeq(1), 8), Some(8));
/// // Five messages were sent since, three of them acknowledged, two are under way.
/// assert_eq!(credits(MessageSeq(3), MessageSeq(6), 8), Some(6));
/// ```
pub const fn credits(mseq_ack: MessageSeq, tx_head: MessageSeq, bufs: u16) -> Option<u32> {
    let under_way = tx_head.0.wrapping_sub(mseq_ack.0).wrapping_sub(1);
    if under_way.cast_signed() < 0 {
        return None;
    }
    Some((bufs as u32).saturating_sub(under_way))
}

/// The credits that data may use: all but the reserved ones.
pub const fn data_credits(credits: u32) -> u32 {
    credits.saturating_sub(RESERVED_CREDITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_takes_a_credit_each() {
        for under_way in 0..12 {
            let head = MessageSeq(100 + 1 + under_way);
            let expected = 8_u32.saturating_sub(under_way);
            assert_eq!(credits(MessageSeq(100), head, 8), Some(expected));
        }
    }

    #[test]
    fn numbers_wrap() {
        let acknowledged = MessageSeq(0xffff_fffe);
        assert_eq!(credits(acknowledged, MessageSeq(u32::MAX), 4), Some(4));
        assert_eq!(credits(acknowledged, MessageSeq(0), 4), Some(3));
        assert_eq!(credits(acknowledged, MessageSeq(2), 4), Some(1));
        // Far from any acknowledgement there is nothing to reckon with.
        assert_eq!(credits(MessageSeq(0), MessageSeq(1 << 31), 4), Some(0));
    }

    #[test]
    fn a_message_that_was_not_sent_cannot_be_acknowledged() {
        assert_eq!(credits(MessageSeq(7), MessageSeq(7), 4), None);
        assert_eq!(credits(MessageSeq(8), MessageSeq(7), 4), None);
        assert_eq!(credits(MessageSeq(0), MessageSeq(0xffff_fffe), 4), None);
    }

    #[test]
    fn data_leave_two_credits() {
        let spendable: Vec<u32> = [0, 1, 2, 3, 8].map(data_credits).into();
        assert_eq!(spendable, [0, 0, 0, 1, 6]);
    }
}
