//! What a host says on whose port no program is: to connection managers that ask for a service there is none. A machine with no program on it says the same, for
//! there the kernel answers; without it who asks would wait a minute for nothing.
//!
//! Owns nothing. What comes is a stranger's packet: what is no such question has no answer.

use ferriband_wire::cm::{
    CmMad, Info, Message, PrivateData, Rej, RejOf, RejectReason, SidrRep, SidrStatus,
};
use ferriband_wire::mad::{GSI_QKEY, GSI_QPN, MAD_LEN};
use ferriband_wire::{
    Bth, CommId, Deth, Ext, Headers, Lrh, NativePacket, Opcode, Packet, Psn, QKey, Qpn,
};

/// The answer to a packet, as a packet from who it was for.
pub fn answer(packet: &[u8]) -> Option<Vec<u8>> {
    let asked = NativePacket::parse(packet).ok()?;
    let is_question = asked.packet.opcode() == Opcode::UdSendOnly
        && asked.packet.bth().dest_qpn == GSI_QPN
        && asked
            .packet
            .ext()
            .deth
            .is_some_and(|deth| deth.qkey == GSI_QKEY && deth.src_qpn == GSI_QPN);
    if !is_question || asked.grh.is_some() {
        return None;
    }
    let mad: &[u8; MAD_LEN] = asked.packet.payload.try_into().ok()?;
    let question = CmMad::parse(mad).ok()?;
    let refusal: Message = match question.message {
        Message::Req(req) => Rej {
            local_comm_id: CommId::default(),
            remote_comm_id: req.local_comm_id,
            rejected: RejOf::Req,
            reason: RejectReason::InvalidServiceId,
            ari: Info::NONE,
            private_data: PrivateData::default(),
        }
        .into(),
        Message::SidrReq(req) => SidrRep {
            request_id: req.request_id,
            status: SidrStatus::NotSupported,
            info: Info::NONE,
            vendor_id: 0,
            qpn: Qpn(0),
            service_id: req.service_id,
            qkey: QKey(0),
            private_data: PrivateData::default(),
        }
        .into(),
        _ => return None,
    };
    let mut payload = [0; MAD_LEN];
    CmMad::new(question.transaction_id, refusal)
        .emit(&mut payload)
        .ok()?;
    let bth = Bth {
        pkey: asked.packet.bth().pkey,
        ..Bth::new(Opcode::UdSendOnly, GSI_QPN, Psn::new(0))
    };
    let deth = Deth {
        qkey: GSI_QKEY,
        src_qpn: GSI_QPN,
    };
    let back = NativePacket {
        lrh: Lrh {
            dlid: asked.lrh.slid,
            slid: asked.lrh.dlid,
            ..asked.lrh
        },
        grh: None,
        packet: Packet {
            headers: Headers::new(
                bth,
                Ext {
                    deth: Some(deth),
                    ..Ext::default()
                },
            ),
            payload: &payload,
        },
    };
    let mut bytes = vec![0; back.wire_len()];
    back.emit(&mut bytes).ok()?;
    Some(bytes)
}
