//! What a host says on whose port no program is: to connection managers that ask for a service there is none, and to those that end a connection, that it has ended. A machine with no program on it says the same, for
//! there the kernel answers; without it who asks would wait a minute for nothing.
//!
//! Owns nothing. What comes is a stranger's packet: what is no such question has no answer.

use ferriband_wire::cm::{
    CmMad, Drep, Info, Message, PrivateData, Rej, RejOf, RejectReason, SidrRep, SidrStatus,
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
        // it was a program's that has ended, and whose answer was lost on the way; else who asks would repeat it for a minute and more
        Message::Dreq(req) => Drep {
            local_comm_id: req.remote_comm_id,
            remote_comm_id: req.local_comm_id,
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

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_wire::cm::Dreq;
    use ferriband_wire::{Lid, Sl, TransactionId, Vl};

    fn packet(message: Message) -> Vec<u8> {
        let mut payload = [0; MAD_LEN];
        let mad = CmMad::new(TransactionId(9), message);
        mad.emit(&mut payload).expect("it fits");
        let deth = Deth {
            qkey: GSI_QKEY,
            src_qpn: GSI_QPN,
        };
        let ext = Ext {
            deth: Some(deth),
            ..Ext::default()
        };
        let packet = NativePacket {
            lrh: Lrh {
                vl: Vl(0),
                sl: Sl(0),
                dlid: Lid(7),
                slid: Lid(3),
            },
            grh: None,
            packet: Packet {
                headers: Headers::new(Bth::new(Opcode::UdSendOnly, GSI_QPN, Psn::new(0)), ext),
                payload: &payload,
            },
        };
        let mut bytes = vec![0; packet.wire_len()];
        packet.emit(&mut bytes).expect("it fits");
        bytes
    }

    #[test]
    fn who_ends_a_connection_with_a_program_that_is_gone_is_told_that_it_has_ended() {
        let asked = Dreq {
            local_comm_id: CommId(5),
            remote_comm_id: CommId(6),
            remote_qpn: Qpn(0x99),
            private_data: PrivateData::default(),
        };
        let bytes = answer(&packet(asked.into())).expect("an answer");
        let told = NativePacket::parse(&bytes).expect("a packet");
        assert_eq!((told.lrh.slid, told.lrh.dlid), (Lid(7), Lid(3)));
        let mad: &[u8; MAD_LEN] = told.packet.payload.try_into().expect("a MAD");
        let said = CmMad::parse(mad).expect("a message");
        assert_eq!(said.transaction_id, TransactionId(9));
        let Message::Drep(drep) = said.message else {
            panic!("{said:?}");
        };
        assert_eq!(
            (drep.local_comm_id, drep.remote_comm_id),
            (CommId(6), CommId(5))
        );
        // and that it has ended is answered by nobody
        assert_eq!(answer(&bytes), None);
    }
}
