//! One line for a packet, as `ferriband dump` prints it. The names come from the opcode table.

use crate::aeth::{Aeth, NakCode, Syndrome};
use crate::native::{NativeHeaders, NativePacket};
use crate::opcode::Operation;
use crate::packet::{Headers, Packet};
use crate::roce::{RoceHeaders, RoceIp, RocePacket};
use std::fmt;

impl fmt::Display for NakCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NakCode::PsnSequenceError => "PSN sequence error",
            NakCode::InvalidRequest => "invalid request",
            NakCode::RemoteAccessError => "remote access error",
            NakCode::RemoteOperationalError => "remote operational error",
            NakCode::InvalidRdRequest => "invalid RD request",
        })
    }
}

impl fmt::Display for Aeth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.syndrome {
            Syndrome::Ack(code) => match code.credits() {
                Some(credits) => write!(f, "ACK credits={credits}")?,
                None => f.write_str("ACK credits=none")?,
            },
            Syndrome::RnrNak(timer) => write!(f, "RNR NAK timer={timer}")?,
            Syndrome::Nak(code) => write!(f, "NAK ({code})")?,
            Syndrome::Reserved(code) => write!(f, "reserved syndrome {code:#04x}")?,
        }
        write!(f, " msn={}", self.msn)
    }
}

impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bth, ext) = (&self.bth, &self.ext);
        write!(f, "{} psn={} qpn={}", bth.opcode, bth.psn, bth.dest_qpn)?;
        if let Some(rdeth) = ext.rdeth {
            write!(f, " ee={:#08x}", rdeth.ee_context)?;
        }
        if let Some(deth) = ext.deth {
            write!(f, " src={} qkey={}", deth.src_qpn, deth.qkey)?;
        }
        if let Some(xrceth) = ext.xrceth {
            write!(f, " srq={:#08x}", xrceth.xrc_srq)?;
        }
        if let Some(reth) = ext.reth {
            write!(
                f,
                " va={:#018x} rkey={} len={}",
                reth.virtual_address, reth.rkey, reth.dma_length
            )?;
        }
        if let Some(atomic) = ext.atomic {
            write!(
                f,
                " va={:#018x} rkey={}",
                atomic.virtual_address, atomic.rkey
            )?;
            match bth.opcode.operation() {
                Operation::FetchAdd => write!(f, " add={:#x}", atomic.swap_add)?,
                _ => write!(
                    f,
                    " compare={:#x} swap={:#x}",
                    atomic.compare, atomic.swap_add
                )?,
            }
        }
        if let Some(aeth) = ext.aeth {
            write!(f, " {aeth}")?;
        }
        if let Some(ack) = ext.atomic_ack {
            write!(f, " original={:#x}", ack.original)?;
        }
        if let Some(imm) = ext.imm {
            write!(f, " imm={:#010x}", u32::from_be_bytes(imm.bytes))?;
        }
        if let Some(ieth) = ext.ieth {
            write!(f, " invalidate={}", ieth.rkey)?;
        }
        let flags = [
            (bth.ack_req, " ackreq"),
            (bth.solicited, " solicited"),
            (bth.fecn, " fecn"),
            (bth.becn, " becn"),
        ];
        flags
            .iter()
            .filter(|(set, _)| *set)
            .try_for_each(|(_, name)| f.write_str(name))
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.headers.fmt(f)?;
        if self.headers.info().carries_payload() {
            write!(f, " payload={}", self.payload.len())?;
        }
        Ok(())
    }
}

impl fmt::Display for NativePacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers = NativeHeaders {
            lrh: self.lrh,
            grh: self.grh,
        };
        write!(f, "{headers} {}", self.packet)
    }
}

impl fmt::Display for RoceHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ip {
            RoceIp::V4(ip) => write!(f, "{} > {}", ip.source, ip.destination),
            RoceIp::V6(ip) => write!(f, "{} > {}", ip.sgid, ip.dgid),
        }
    }
}

impl fmt::Display for NativeHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lrh = &self.lrh;
        write!(
            f,
            "lid {} > {} sl={} vl={}",
            lrh.slid, lrh.dlid, lrh.sl, lrh.vl
        )?;
        match &self.grh {
            Some(grh) => write!(f, " gid {} > {}", grh.sgid, grh.dgid),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RocePacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.headers, self.packet)
    }
}
