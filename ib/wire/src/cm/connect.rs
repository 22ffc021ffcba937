//! The messages that follow a REQ: REP, RTU, MRA, REJ, DREQ, DREP (IBA 12.6), and LAP and APR, which give a
//! connection another alternate path (IBA chapter 12).

use super::codes::{ApStatus, Failover, MraOf, RejOf, RejectReason};
use super::path::{CmPath, LapPathWire};
use super::private_data::{INFO_LEN, Info, PrivateData};
use crate::error::{EmitError, ParseError};
use crate::header::{Header, U24, bits, flag, place};
use crate::types::{CommId, Guid, Psn, QKey, Qpn, TimeCode};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A REP as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RepWire {
    local_comm_id: U32,
    remote_comm_id: U32,
    local_qkey: U32,
    local_qpn: U24,
    vendor_id_high: u8,
    local_eecn: U24,
    vendor_id_middle: u8,
    starting_psn: U24,
    vendor_id_low: u8,
    responder_resources: u8,
    initiator_depth: u8,
    /// TargetACKDelay:5 FailoverAccepted:2 EndToEndFlowControl:1.
    delay: u8,
    /// RNRRetryCount:3 SRQ:1 reserved:4.
    retries: u8,
    local_ca_guid: U64,
    private_data: PrivateData<196>,
}

/// ConnectReply: the connection is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rep {
    /// The sender's identifier for the connection.
    pub local_comm_id: CommId,
    /// The receiver's: the REQ's `local_comm_id`.
    pub remote_comm_id: CommId,
    /// Q_Key of the sender's queue pair; reliable datagram only.
    pub local_qkey: QKey,
    /// The sender's queue pair.
    pub local_qpn: Qpn,
    /// Vendor whose enhanced connection this is, 24 bits; 0 for none.
    pub vendor_id: u32,
    /// The sender's end-to-end context, 24 bits; the target queue pair of an XRC connection.
    pub local_eecn: u32,
    /// The PSN that the sender of this message expects first: its peer begins with it.
    pub starting_psn: Psn,
    /// RDMA READs and atomics that the sender's responder takes at a time.
    pub responder_resources: u8,
    /// RDMA READs and atomics that the sender's requester will have outstanding.
    pub initiator_depth: u8,
    /// The sender's responder acknowledges within this time.
    pub target_ack_delay: TimeCode,
    /// What becomes of the REQ's alternate path.
    pub failover: Failover,
    /// The sender uses end-to-end flow control: credits in acknowledgements.
    pub end_to_end_flow_control: bool,
    /// RNR retries that the receiver's requester is to make, 3 bits; 7 is without end.
    pub rnr_retry_count: u8,
    /// The sender's queue pair uses a shared receive queue.
    pub srq: bool,
    /// The sender's adapter.
    pub local_ca_guid: Guid,
    /// The consumer's.
    pub private_data: PrivateData<196>,
}

impl Header for Rep {
    type Wire = RepWire;
    const NAME: &'static str = "REP";

    fn from_wire(wire: &RepWire) -> Result<Self, ParseError> {
        let vendor_id = [
            0,
            wire.vendor_id_high,
            wire.vendor_id_middle,
            wire.vendor_id_low,
        ];
        Ok(Rep {
            local_comm_id: CommId(wire.local_comm_id.get()),
            remote_comm_id: CommId(wire.remote_comm_id.get()),
            local_qkey: QKey(wire.local_qkey.get()),
            local_qpn: Qpn(wire.local_qpn.get()),
            vendor_id: u32::from_be_bytes(vendor_id),
            local_eecn: wire.local_eecn.get(),
            starting_psn: Psn::new(wire.starting_psn.get()),
            responder_resources: wire.responder_resources,
            initiator_depth: wire.initiator_depth,
            target_ack_delay: TimeCode(bits(wire.delay, 3, 5)),
            failover: Failover::from_code(bits(wire.delay, 1, 2)),
            end_to_end_flow_control: bits(wire.delay, 0, 1) != 0,
            rnr_retry_count: bits(wire.retries, 5, 3),
            srq: bits(wire.retries, 4, 1) != 0,
            local_ca_guid: Guid(wire.local_ca_guid.get()),
            private_data: wire.private_data,
        })
    }

    fn to_wire(&self) -> Result<RepWire, EmitError> {
        U24::new("VendorID", self.vendor_id)?;
        let [_, vendor_id_high, vendor_id_middle, vendor_id_low] = self.vendor_id.to_be_bytes();
        Ok(RepWire {
            local_comm_id: U32::new(self.local_comm_id.0),
            remote_comm_id: U32::new(self.remote_comm_id.0),
            local_qkey: U32::new(self.local_qkey.0),
            local_qpn: U24::new("LocalQPN", self.local_qpn.0)?,
            vendor_id_high,
            local_eecn: U24::new("LocalEECN", self.local_eecn)?,
            vendor_id_middle,
            starting_psn: U24::new("StartingPSN", self.starting_psn.get())?,
            vendor_id_low,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            delay: place("TargetACKDelay", self.target_ack_delay.0, 3, 5)?
                | place("FailoverAccepted", self.failover.code()?, 1, 2)?
                | flag(self.end_to_end_flow_control, 0),
            retries: place("RNRRetryCount", self.rnr_retry_count, 5, 3)? | flag(self.srq, 4),
            local_ca_guid: U64::new(self.local_ca_guid.0),
            private_data: self.private_data,
        })
    }
}

/// An RTU or DREP as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct CommIdsWire {
    local_comm_id: U32,
    remote_comm_id: U32,
    private_data: PrivateData<224>,
}

macro_rules! comm_ids {
    ($(#[$doc:meta])* $name:ident, $text:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            /// The sender's identifier for the connection.
            pub local_comm_id: CommId,
            /// The receiver's.
            pub remote_comm_id: CommId,
            /// The consumer's.
            pub private_data: PrivateData<224>,
        }

        impl Header for $name {
            type Wire = CommIdsWire;
            const NAME: &'static str = $text;

            fn from_wire(wire: &CommIdsWire) -> Result<Self, ParseError> {
                Ok($name {
                    local_comm_id: CommId(wire.local_comm_id.get()),
                    remote_comm_id: CommId(wire.remote_comm_id.get()),
                    private_data: wire.private_data,
                })
            }

            fn to_wire(&self) -> Result<CommIdsWire, EmitError> {
                Ok(CommIdsWire {
                    local_comm_id: U32::new(self.local_comm_id.0),
                    remote_comm_id: U32::new(self.remote_comm_id.0),
                    private_data: self.private_data,
                })
            }
        }
    };
}

comm_ids!(
    /// ReadyToUse: the side that asked has its REP and is ready.
    Rtu, "RTU");
comm_ids!(
    /// DisconnectReply.
    Drep, "DREP");

/// A DREQ as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DreqWire {
    local_comm_id: U32,
    remote_comm_id: U32,
    remote_qpn: U24,
    reserved: u8,
    private_data: PrivateData<220>,
}

/// DisconnectRequest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dreq {
    /// The sender's identifier for the connection.
    pub local_comm_id: CommId,
    /// The receiver's.
    pub remote_comm_id: CommId,
    /// The receiver's queue pair (or end-to-end context), which must agree.
    pub remote_qpn: Qpn,
    /// The consumer's.
    pub private_data: PrivateData<220>,
}

impl Header for Dreq {
    type Wire = DreqWire;
    const NAME: &'static str = "DREQ";

    fn from_wire(wire: &DreqWire) -> Result<Self, ParseError> {
        Ok(Dreq {
            local_comm_id: CommId(wire.local_comm_id.get()),
            remote_comm_id: CommId(wire.remote_comm_id.get()),
            remote_qpn: Qpn(wire.remote_qpn.get()),
            private_data: wire.private_data,
        })
    }

    fn to_wire(&self) -> Result<DreqWire, EmitError> {
        Ok(DreqWire {
            local_comm_id: U32::new(self.local_comm_id.0),
            remote_comm_id: U32::new(self.remote_comm_id.0),
            remote_qpn: U24::new("RemoteQPN", self.remote_qpn.0)?,
            reserved: 0,
            private_data: self.private_data,
        })
    }
}

/// An MRA as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MraWire {
    local_comm_id: U32,
    remote_comm_id: U32,
    /// MessageMRAed:2 reserved:6.
    message: u8,
    /// ServiceTimeout:5 reserved:3.
    timeout: u8,
    private_data: PrivateData<222>,
}

/// MsgRcptAck: the message came, its answer will take a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mra {
    /// The sender's identifier for the connection.
    pub local_comm_id: CommId,
    /// The receiver's.
    pub remote_comm_id: CommId,
    /// Which message came.
    pub acknowledged: MraOf,
    /// The answer comes within this time.
    pub service_timeout: TimeCode,
    /// The consumer's.
    pub private_data: PrivateData<222>,
}

impl Header for Mra {
    type Wire = MraWire;
    const NAME: &'static str = "MRA";

    fn from_wire(wire: &MraWire) -> Result<Self, ParseError> {
        Ok(Mra {
            local_comm_id: CommId(wire.local_comm_id.get()),
            remote_comm_id: CommId(wire.remote_comm_id.get()),
            acknowledged: MraOf::from_code(bits(wire.message, 6, 2)),
            service_timeout: TimeCode(bits(wire.timeout, 3, 5)),
            private_data: wire.private_data,
        })
    }

    fn to_wire(&self) -> Result<MraWire, EmitError> {
        Ok(MraWire {
            local_comm_id: U32::new(self.local_comm_id.0),
            remote_comm_id: U32::new(self.remote_comm_id.0),
            message: place("MessageMRAed", self.acknowledged.code()?, 6, 2)?,
            timeout: place("ServiceTimeout", self.service_timeout.0, 3, 5)?,
            private_data: self.private_data,
        })
    }
}

/// A REJ as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RejWire {
    local_comm_id: U32,
    remote_comm_id: U32,
    /// MessageREJected:2 reserved:6.
    message: u8,
    /// RejectedInfoLength:7 reserved:1.
    info_length: u8,
    reason: U16,
    ari: PrivateData<INFO_LEN>,
    private_data: PrivateData<148>,
}

/// ConnectReject: no connection, and why. It is for whom `remote_comm_id` says; but who gives up waiting for a REP may
/// never have learned that identifier, so that with `RejectReason::Timeout` the ARI is the sender's CA GUID, which
/// together with `local_comm_id` says what is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rej {
    /// The sender's identifier for the connection; 0 if it never had one.
    pub local_comm_id: CommId,
    /// The receiver's.
    pub remote_comm_id: CommId,
    /// Which message is refused.
    pub rejected: RejOf,
    /// Why.
    pub reason: RejectReason,
    /// What goes with the reason.
    pub ari: Info,
    /// The consumer's.
    pub private_data: PrivateData<148>,
}

impl Header for Rej {
    type Wire = RejWire;
    const NAME: &'static str = "REJ";

    fn from_wire(wire: &RejWire) -> Result<Self, ParseError> {
        let info_length = bits(wire.info_length, 1, 7);
        Ok(Rej {
            local_comm_id: CommId(wire.local_comm_id.get()),
            remote_comm_id: CommId(wire.remote_comm_id.get()),
            rejected: RejOf::from_code(bits(wire.message, 6, 2)),
            reason: RejectReason::from_code(wire.reason.get()),
            ari: Info::from_wire("RejectedInfoLength", info_length, &wire.ari)?,
            private_data: wire.private_data,
        })
    }

    fn to_wire(&self) -> Result<RejWire, EmitError> {
        let (info_length, ari) = self.ari.to_wire();
        Ok(RejWire {
            local_comm_id: U32::new(self.local_comm_id.0),
            remote_comm_id: U32::new(self.remote_comm_id.0),
            message: place("MessageREJected", self.rejected.code()?, 6, 2)?,
            info_length: place("RejectedInfoLength", info_length, 1, 7)?,
            reason: U16::new(self.reason.code()?),
            ari,
            private_data: self.private_data,
        })
    }
}

/// A LAP as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LapWire {
    local_comm_id: U32,
    remote_comm_id: U32,
    reserved_8: U32,
    remote_qpn: U24,
    /// RemoteCMResponseTimeout:5 reserved:3.
    timeout: u8,
    reserved_16: U32,
    alternate: LapPathWire,
    private_data: PrivateData<168>,
}

/// LoadAlternatePath.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lap {
    /// The sender's identifier for the connection.
    pub local_comm_id: CommId,
    /// The receiver's.
    pub remote_comm_id: CommId,
    /// The receiver's queue pair (or end-to-end context), which must agree.
    pub remote_qpn: Qpn,
    /// The receiver must answer within this time, or send an MRA.
    pub remote_response_timeout: TimeCode,
    /// The new alternate path.
    pub alternate: CmPath,
    /// The consumer's.
    pub private_data: PrivateData<168>,
}

impl Header for Lap {
    type Wire = LapWire;
    const NAME: &'static str = "LAP";

    fn from_wire(wire: &LapWire) -> Result<Self, ParseError> {
        Ok(Lap {
            local_comm_id: CommId(wire.local_comm_id.get()),
            remote_comm_id: CommId(wire.remote_comm_id.get()),
            remote_qpn: Qpn(wire.remote_qpn.get()),
            remote_response_timeout: TimeCode(bits(wire.timeout, 3, 5)),
            alternate: wire.alternate.value(),
            private_data: wire.private_data,
        })
    }

    fn to_wire(&self) -> Result<LapWire, EmitError> {
        Ok(LapWire {
            local_comm_id: U32::new(self.local_comm_id.0),
            remote_comm_id: U32::new(self.remote_comm_id.0),
            reserved_8: U32::ZERO,
            remote_qpn: U24::new("RemoteQPN", self.remote_qpn.0)?,
            timeout: place(
                "RemoteCMResponseTimeout",
                self.remote_response_timeout.0,
                3,
                5,
            )?,
            reserved_16: U32::ZERO,
            alternate: LapPathWire::new(&self.alternate)?,
            private_data: self.private_data,
        })
    }
}

/// An APR as it travels, after the MAD header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AprWire {
    local_comm_id: U32,
    remote_comm_id: U32,
    info_length: u8,
    status: u8,
    reserved: U16,
    info: PrivateData<INFO_LEN>,
    private_data: PrivateData<148>,
}

/// AlternatePathResponse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Apr {
    /// The sender's identifier for the connection.
    pub local_comm_id: CommId,
    /// The receiver's.
    pub remote_comm_id: CommId,
    /// What became of the path.
    pub status: ApStatus,
    /// What goes with the status.
    pub info: Info,
    /// The consumer's.
    pub private_data: PrivateData<148>,
}

impl Header for Apr {
    type Wire = AprWire;
    const NAME: &'static str = "APR";

    fn from_wire(wire: &AprWire) -> Result<Self, ParseError> {
        Ok(Apr {
            local_comm_id: CommId(wire.local_comm_id.get()),
            remote_comm_id: CommId(wire.remote_comm_id.get()),
            status: ApStatus::from_code(wire.status),
            info: Info::from_wire("AdditionalInformationLength", wire.info_length, &wire.info)?,
            private_data: wire.private_data,
        })
    }

    fn to_wire(&self) -> Result<AprWire, EmitError> {
        let (info_length, info) = self.info.to_wire();
        Ok(AprWire {
            local_comm_id: U32::new(self.local_comm_id.0),
            remote_comm_id: U32::new(self.remote_comm_id.0),
            info_length,
            status: self.status.code()?,
            reserved: U16::ZERO,
            info,
            private_data: self.private_data,
        })
    }
}
