//! ACK extended transport header, 4 bytes (IBA 9.3), its syndrome and the end-to-end credit code.
//! What a NAK does to a queue pair is not known here.

use crate::error::{EmitError, ParseError};
use crate::header::{Header, U24, fits};
use crate::types::Msn;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The AETH as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AethWire {
    syndrome: u8,
    msn: U24,
}

/// The AETH's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// ACK, RNR NAK or NAK.
    pub syndrome: Syndrome,
    /// Messages that the responder has completed, modulo 2^24.
    pub msn: Msn,
}

impl Header for Aeth {
    type Wire = AethWire;
    const NAME: &'static str = "AETH";

    fn from_wire(wire: &AethWire) -> Result<Self, ParseError> {
        Ok(Aeth {
            syndrome: Syndrome::from_code(wire.syndrome),
            msn: Msn(wire.msn.get()),
        })
    }

    fn to_wire(&self) -> Result<AethWire, EmitError> {
        Ok(AethWire {
            syndrome: self.syndrome.code()?,
            msn: U24::new("MSN", self.msn.0)?,
        })
    }
}

/// What the responder says (IBA 9.7): three bits of kind, five of detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syndrome {
    /// Everything up to this PSN is done; the receive queue has room for this many more messages.
    Ack(CreditCode),
    /// No receive is posted; retry after the time of this 5-bit timer code.
    RnrNak(u8),
    /// The request failed.
    Nak(NakCode),
    /// A reserved code. Received it is reported as it came; it is never sent.
    Reserved(u8),
}

const KIND_SHIFT: u32 = 5;
const DETAIL_MASK: u8 = 0x1f;
const KIND_ACK: u8 = 0b000;
const KIND_RNR_NAK: u8 = 0b001;
const KIND_NAK: u8 = 0b011;

impl Syndrome {
    /// Decodes the syndrome byte; total.
    pub const fn from_code(code: u8) -> Self {
        let detail = code & DETAIL_MASK;
        match code >> KIND_SHIFT {
            KIND_ACK => Syndrome::Ack(CreditCode(detail)),
            KIND_RNR_NAK => Syndrome::RnrNak(detail),
            KIND_NAK => match NakCode::from_code(detail) {
                Some(nak) => Syndrome::Nak(nak),
                None => Syndrome::Reserved(code),
            },
            _ => Syndrome::Reserved(code),
        }
    }

    /// Encodes the syndrome byte. Fails for a timer code beyond 5 bits and for reserved codes.
    pub const fn code(self) -> Result<u8, EmitError> {
        match self {
            Syndrome::Ack(CreditCode(credits)) => Ok(KIND_ACK << KIND_SHIFT | credits),
            Syndrome::RnrNak(timer) => match fits("RNR NAK timer", timer as u32, KIND_SHIFT) {
                Ok(_) => Ok(KIND_RNR_NAK << KIND_SHIFT | timer),
                Err(error) => Err(error),
            },
            Syndrome::Nak(nak) => Ok(KIND_NAK << KIND_SHIFT | nak as u8),
            Syndrome::Reserved(code) => Err(EmitError::ReservedSyndrome(code)),
        }
    }
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A PSN beyond the expected one came: go back.
    PsnSequenceError = 0,
    /// The request is malformed, too long, or not supported by the queue pair.
    InvalidRequest = 1,
    /// Key, rights or range.
    RemoteAccessError = 2,
    /// The responder failed locally.
    RemoteOperationalError = 3,
    /// Reliable datagram only.
    InvalidRdRequest = 4,
}

impl NakCode {
    /// From the low five bits of the syndrome; None for reserved codes.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => NakCode::PsnSequenceError,
            1 => NakCode::InvalidRequest,
            2 => NakCode::RemoteAccessError,
            3 => NakCode::RemoteOperationalError,
            4 => NakCode::InvalidRdRequest,
            _ => return None,
        })
    }
}

/// End-to-end flow control credits as the 5-bit code of an ACK: receives posted, rounded down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct CreditCode(u8);

/// Messages that each code below 31 grants.
const CREDITS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

impl CreditCode {
    /// The responder gives no credit count: its queue pair does not use end-to-end flow control (SRQ, for one).
    pub const NONE: CreditCode = CreditCode(31);

    /// The largest count that is not more than `credits`: granting more than is posted would invite RNR.
    pub const fn from_credits(credits: u32) -> Self {
        let mut code = CREDITS.len() - 1;
        while CREDITS[code] as u32 > credits {
            // Ends at the latest at code 0, which stands for 0 credits.
            code -= 1;
        }
        CreditCode(code as u8)
    }

    /// From the wire's five bits; None for more bits.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code <= DETAIL_MASK {
            Some(CreditCode(code))
        } else {
            None
        }
    }

    /// The wire's five bits.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Messages granted beyond the ACK's MSN; None if the responder does not count.
    pub const fn credits(self) -> Option<u32> {
        if (self.0 as usize) < CREDITS.len() {
            Some(CREDITS[self.0 as usize] as u32)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_byte_decodes_and_the_unreserved_ones_come_back() {
        let mut reserved = 0;
        for code in 0..=255 {
            match Syndrome::from_code(code) {
                Syndrome::Reserved(kept) => {
                    assert_eq!(kept, code);
                    assert_eq!(
                        Syndrome::Reserved(code).code(),
                        Err(EmitError::ReservedSyndrome(code))
                    );
                    reserved += 1;
                }
                syndrome => assert_eq!(syndrome.code(), Ok(code)),
            }
        }
        // 32 ACKs, 32 RNR NAKs and 5 NAKs are defined.
        assert_eq!(reserved, 256 - 32 - 32 - 5);
    }

    #[test]
    fn nak_codes_have_the_values_seen_in_captures() {
        assert_eq!(Syndrome::Nak(NakCode::PsnSequenceError).code(), Ok(0x60));
        assert_eq!(Syndrome::Nak(NakCode::InvalidRequest).code(), Ok(0x61));
        assert_eq!(
            Syndrome::Nak(NakCode::RemoteOperationalError).code(),
            Ok(0x63)
        );
        assert_eq!(Syndrome::RnrNak(12).code(), Ok(0x2c));
        assert!(Syndrome::RnrNak(32).code().is_err());
    }

    #[test]
    fn credit_codes_grow_by_half_and_third_steps() {
        // From code 4 on, even codes are powers of two and odd codes lie half way to the next.
        let credits = |code| CreditCode::from_code(code).expect("5 bits").credits();
        for k in 1..=14 {
            assert_eq!(credits(2 * k + 2), Some(2 << k));
        }
        for k in 1..=13 {
            assert_eq!(credits(2 * k + 3), Some(3 << k));
        }
        assert_eq!(CreditCode::NONE.credits(), None);
        assert_eq!(CreditCode::from_code(32), None);
    }

    #[test]
    fn credits_round_down_and_never_up() {
        for credits in 0..70_000 {
            let granted = CreditCode::from_credits(credits)
                .credits()
                .expect("a count");
            assert!(granted <= credits);
            assert!(
                granted == 32768 || granted * 2 > credits || credits == 0,
                "{credits} became {granted}"
            );
        }
        for code in 0..31 {
            let code = CreditCode::from_code(code).expect("5 bits");
            assert_eq!(
                CreditCode::from_credits(code.credits().expect("a count")),
                code
            );
        }
    }
}
