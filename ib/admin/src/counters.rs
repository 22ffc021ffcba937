//! Counters of a port: their places and their names.
//!
//! Owns: one list. The first are those of the IBA (16.1.3.5, PortCountersExtended), as files under `counters` in sysfs; the others are
//! what RoCE adapters and the Linux kernel's Soft-RoCE count, as files under `hw_counters`.

/// One counter of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(usize)]
#[allow(missing_docs)] // each is described in `Counter::about`
pub enum Counter {
    XmitData,
    XmitPackets,
    RcvData,
    RcvPackets,
    XmitDiscards,
    RcvErrors,
    RcvConstraintErrors,
    // from here on: hw_counters
    IcrcErrors,
    UnknownQp,
    WrongSource,
    HandedOver,
    DuplicateRequest,
    OutOfSequence,
    RcvdSeqErr,
    SendRnrErr,
    RcvdRnrErr,
    AckTimeout,
    RetryExceeded,
    RnrRetryExceeded,
    Resent,
    SentNak,
    RcvdNak,
    PKeyViolation,
    QKeyViolation,
    Dropped,
    EcnMarked,
    CnpSent,
    CnpHandled,
    SendErr,
    Frames,
}

use Counter::*;

impl Counter {
    /// How many there are.
    pub const COUNT: usize = 30;
    /// All, in the order of their places.
    pub const ALL: [Counter; Counter::COUNT] = [
        XmitData,
        XmitPackets,
        RcvData,
        RcvPackets,
        XmitDiscards,
        RcvErrors,
        RcvConstraintErrors,
        IcrcErrors,
        UnknownQp,
        WrongSource,
        HandedOver,
        DuplicateRequest,
        OutOfSequence,
        RcvdSeqErr,
        SendRnrErr,
        RcvdRnrErr,
        AckTimeout,
        RetryExceeded,
        RnrRetryExceeded,
        Resent,
        SentNak,
        RcvdNak,
        PKeyViolation,
        QKeyViolation,
        Dropped,
        EcnMarked,
        CnpSent,
        CnpHandled,
        SendErr,
        Frames,
    ];

    /// Its name and what it counts.
    const fn row(self) -> (&'static str, &'static str) {
        match self {
            XmitData => (
                "port_xmit_data",
                "bytes sent, from BTH to ICRC, divided by 4",
            ),
            XmitPackets => ("port_xmit_packets", "packets sent"),
            RcvData => (
                "port_rcv_data",
                "bytes received, from BTH to ICRC, divided by 4",
            ),
            RcvPackets => ("port_rcv_packets", "packets received"),
            XmitDiscards => ("port_xmit_discards", "packets that the kernel did not take"),
            RcvErrors => (
                "port_rcv_errors",
                "datagrams that are no packets, or damaged",
            ),
            RcvConstraintErrors => (
                "port_rcv_constraint_errors",
                "packets of another partition or Q_Key, or from a stranger",
            ),
            IcrcErrors => ("rx_icrc_encapsulated", "packets with a wrong ICRC"),
            UnknownQp => ("rx_unknown_qp", "packets for queue pairs that do not exist"),
            WrongSource => (
                "rx_wrong_source",
                "packets to a connection from somebody else",
            ),
            HandedOver => (
                "rx_handed_over",
                "packets that came to the wrong process and were handed over",
            ),
            DuplicateRequest => ("duplicate_request", "requests that had been executed"),
            OutOfSequence => ("out_of_seq_request", "gaps in what the peer sent"),
            RcvdSeqErr => ("rcvd_seq_err", "gaps that the peer reported"),
            SendRnrErr => ("send_rnr_err", "RNR NAKs sent: no receive was posted"),
            RcvdRnrErr => ("rcvd_rnr_err", "RNR NAKs received"),
            AckTimeout => (
                "local_ack_timeout_err",
                "acknowledgements that did not come in time",
            ),
            RetryExceeded => ("retry_exceeded_err", "requests that ended with status 12"),
            RnrRetryExceeded => (
                "retry_rnr_exceeded_err",
                "requests that ended with status 13",
            ),
            Resent => ("completer_retry_err", "packets sent again"),
            SentNak => ("sent_nak_err", "other NAKs sent"),
            RcvdNak => ("rcvd_nak_err", "other NAKs received"),
            PKeyViolation => ("pkey_violations", "packets of another partition"),
            QKeyViolation => ("qkey_violations", "datagrams with another Q_Key"),
            Dropped => (
                "rx_dropped",
                "packets that a queue pair did not expect or had no receive for",
            ),
            EcnMarked => ("np_ecn_marked_roce_packets", "packets that met congestion"),
            CnpSent => ("np_cnp_sent", "notices of congestion sent"),
            CnpHandled => ("rp_cnp_handled", "notices of congestion received"),
            SendErr => ("send_err", "system calls that could not send"),
            Frames => (
                "tx_frames",
                "packets sent as whole frames, past the kernel's IP layer",
            ),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// What it counts.
    pub const fn about(self) -> &'static str {
        self.row().1
    }

    /// One of the IBA's: a file under `counters`, not `hw_counters`.
    pub const fn is_standard(self) -> bool {
        (self as usize) < IcrcErrors as usize
    }

    /// It says that something is wrong, or may be: shown where it is not 0.
    pub const fn is_trouble(self) -> bool {
        self as usize > RcvPackets as usize
    }

    /// By name.
    pub fn named(name: &str) -> Option<Counter> {
        Counter::ALL
            .into_iter()
            .find(|counter| counter.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_place_and_a_name_of_its_own() {
        for (place, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, place);
            assert_eq!(Counter::named(counter.name()), Some(counter));
            assert!(!counter.about().is_empty());
        }
        assert_eq!(Counter::named("nonsense"), None);
        assert!(Counter::XmitDiscards.is_standard() && !Counter::IcrcErrors.is_standard());
    }
}
