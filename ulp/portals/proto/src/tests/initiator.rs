//! Operations of a program: what is checked, told and counted.

use super::*;
use EventKind::*;

pub(super) fn put(md: Handle, length: u64, ack: AckRequest) -> Operation {
    Operation {
        op: ArrivalOp::Put,
        put: Some(Local { md, offset: 0 }),
        get: None,
        length,
        ack,
        target: Peer::Rank(3),
        pt_index: 4,
        match_bits: 5,
        remote_offset: 6,
        user_ptr: 7,
        hdr_data: 8,
        atomic: None,
        operand: [0; 32],
    }
}

fn get(md: Handle, length: u64) -> Operation {
    let put = put(md, length, AckRequest::None);
    Operation {
        op: ArrivalOp::Get,
        get: put.put,
        put: None,
        ..put
    }
}

struct Desk {
    bed: Bed,
    ct: Handle,
    md: Handle,
}

fn desk(options: MdOptions) -> Desk {
    let mut bed = Bed::matching();
    let ct = bed.ni.ct_alloc().expect("a counter");
    let init = MdInit {
        region: Region::flat(START, 100),
        options,
        eq: bed.eq,
        ct,
    };
    let md = bed.ni.md_bind(&init).expect("a legal descriptor");
    Desk { bed, ct, md }
}

impl Desk {
    fn start(&mut self, operation: Operation) -> Started {
        self.bed.ni.start(operation).expect("a legal operation")
    }

    fn told(&mut self) -> Vec<(EventKind, NiFail, u64)> {
        self.bed
            .events()
            .iter()
            .map(|event| (event.kind, event.ni_fail, event.mlength))
            .collect()
    }

    fn counted(&self) -> (u64, u64) {
        let value = self.bed.ni.ct_get(self.ct).expect("it is allocated");
        (value.success, value.failure)
    }
}

fn ok(length: u64) -> AckInfo {
    AckInfo {
        fail: NiFail::Ok,
        length,
        offset: 9,
        list: List::Overflow,
    }
}

const COUNT_ALL: MdOptions = MdOptions::EVENT_CT_SEND
    .union(MdOptions::EVENT_CT_ACK)
    .union(MdOptions::EVENT_CT_REPLY)
    .union(MdOptions::EVENT_CT_BYTES);

#[test]
fn a_put_tells_send_and_ack_and_keeps_its_descriptor_until_then() {
    let mut desk = desk(COUNT_ALL);
    let started = desk.start(Operation {
        put: Some(Local {
            md: desk.md,
            offset: 10,
        }),
        ..put(desk.md, 20, AckRequest::Full)
    });
    assert_eq!(
        started.out.as_slice(),
        [Piece {
            address: START + 10,
            length: 20
        }]
    );
    assert_eq!(
        (started.response, started.back),
        (Response::Ack(AckRequest::Full), Pieces::None)
    );
    desk.bed.ni.sent(started.id);
    assert_eq!(
        (desk.told(), desk.counted()),
        (vec![(Send, NiFail::Ok, 20)], (20, 0))
    );
    assert_eq!(desk.bed.ni.md_release(desk.md), Err(PtlError::InUse));
    desk.bed.ni.acked(started.id, ok(12));
    let told = desk.bed.events();
    assert_eq!(
        (told[0].kind, told[0].mlength, told[0].remote_offset),
        (Ack, 12, 9)
    );
    assert_eq!(
        (told[0].list, told[0].user_ptr, told.len()),
        (List::Overflow, 7, 1)
    );
    assert_eq!((desk.counted(), desk.bed.ni.operations()), ((32, 0), 0));
    desk.bed.ni.acked(started.id, ok(12));
    assert_eq!((desk.told(), desk.counted()), (vec![], (32, 0)));
    assert_eq!(desk.bed.ni.md_release(desk.md), Ok(()));
    assert_eq!(
        desk.bed.ni.start(put(desk.md, 1, AckRequest::None)),
        Err(PtlError::ArgInvalid)
    );
}

#[test]
fn each_kind_of_ack_counts_as_it_should() {
    let refused = AckInfo::refused(NiFail::Dropped);
    let cases = [
        (AckRequest::Full, ok(12), vec![Ack], (12, 0)),
        (AckRequest::Full, refused, vec![Ack], (0, 1)),
        (AckRequest::Counting, ok(12), vec![], (12, 0)),
        (AckRequest::Counting, refused, vec![], (0, 1)),
        (AckRequest::OperationComplete, ok(12), vec![], (1, 0)),
        // It says that the target is done with it, not what came of it.
        (AckRequest::OperationComplete, refused, vec![], (1, 0)),
        (
            AckRequest::OperationComplete,
            AckInfo::refused(NiFail::Undeliverable),
            vec![],
            (0, 1),
        ),
    ];
    for (request, info, events, counted) in cases {
        let mut desk = desk(
            MdOptions::EVENT_CT_ACK | MdOptions::EVENT_CT_BYTES | MdOptions::EVENT_SEND_DISABLE,
        );
        let started = desk.start(put(desk.md, 20, request));
        desk.bed.ni.sent(started.id);
        desk.bed.ni.acked(started.id, info);
        assert_eq!(
            desk.bed
                .events()
                .iter()
                .map(|event| event.kind)
                .collect::<Vec<_>>(),
            events,
            "{request:?} {info:?}"
        );
        assert_eq!(desk.counted(), counted, "{request:?} {info:?}");
    }
}

#[test]
fn success_may_be_silent_and_failure_is_not() {
    let mut desk = desk(MdOptions::EVENT_SUCCESS_DISABLE);
    for info in [ok(20), AckInfo::refused(NiFail::PermViolation)] {
        let started = desk.start(put(desk.md, 20, AckRequest::Full));
        desk.bed.ni.sent(started.id);
        desk.bed.ni.acked(started.id, info);
    }
    assert_eq!(desk.told(), [(Ack, NiFail::PermViolation, 0)]);
}

#[test]
fn a_get_tells_reply_alone_and_a_fetch_both_in_order() {
    let mut desk = desk(COUNT_ALL);
    let started = desk.start(get(desk.md, 30));
    assert_eq!(
        (
            started.out.length(),
            started.back.length(),
            started.response
        ),
        (0, 30, Response::Reply)
    );
    desk.bed.ni.sent(started.id);
    assert_eq!(desk.told(), []);
    desk.bed.ni.replied(started.id, ok(25));
    assert_eq!(
        (desk.told(), desk.counted()),
        (vec![(Reply, NiFail::Ok, 25)], (25, 0))
    );
    let local = Some(Local {
        md: desk.md,
        offset: 50,
    });
    let atomic = Some((AtomicOp::Sum, Datatype::Int32));
    let fetch = Operation {
        op: ArrivalOp::FetchAtomic,
        get: local,
        atomic,
        ..put(desk.md, 8, AckRequest::None)
    };
    let started = desk.start(fetch);
    assert_eq!(
        started.back.as_slice(),
        [Piece {
            address: START + 50,
            length: 8
        }]
    );
    desk.bed.ni.replied(started.id, ok(8));
    assert_eq!(
        (desk.told(), desk.counted()),
        (vec![(Send, NiFail::Ok, 8), (Reply, NiFail::Ok, 8)], (41, 0))
    );
    assert_eq!(desk.bed.ni.md_release(desk.md), Ok(()));
}

#[test]
fn what_is_not_delivered_is_told_once() {
    let lost = NiFail::Undeliverable;
    let cases = [
        (
            MdOptions::empty(),
            AckRequest::Full,
            vec![(Send, lost, 20)],
            (0, 0),
        ),
        (COUNT_ALL, AckRequest::Full, vec![(Send, lost, 20)], (0, 1)),
        (
            MdOptions::EVENT_SEND_DISABLE,
            AckRequest::Full,
            vec![(Ack, lost, 0)],
            (0, 0),
        ),
        (
            MdOptions::EVENT_SEND_DISABLE | MdOptions::EVENT_CT_ACK,
            AckRequest::Counting,
            vec![],
            (0, 1),
        ),
        // Who waits for a count of acknowledgements is not left waiting by an event.
        (
            MdOptions::EVENT_CT_ACK,
            AckRequest::Counting,
            vec![(Send, lost, 20)],
            (0, 1),
        ),
        (
            MdOptions::EVENT_CT_ACK,
            AckRequest::Full,
            vec![(Send, lost, 20)],
            (0, 1),
        ),
        (
            MdOptions::empty(),
            AckRequest::None,
            vec![(Send, lost, 20)],
            (0, 0),
        ),
    ];
    for (options, request, told, counted) in cases {
        let mut desk = desk(options);
        let started = desk.start(put(desk.md, 20, request));
        desk.bed.ni.failed(started.id, lost);
        assert_eq!(
            (desk.told(), desk.counted(), desk.bed.ni.operations()),
            (told, counted, 0),
            "{options:?} {request:?}"
        );
    }
    let mut desk = desk(COUNT_ALL);
    let started = desk.start(put(desk.md, 20, AckRequest::Full));
    desk.bed.ni.sent(started.id);
    desk.bed.ni.failed(started.id, lost);
    assert_eq!(
        (desk.told(), desk.counted()),
        (vec![(Send, NiFail::Ok, 20), (Ack, lost, 0)], (20, 1))
    );
    let started = desk.start(get(desk.md, 20));
    desk.bed.ni.failed(started.id, lost);
    assert_eq!(desk.told(), [(Reply, lost, 0)]);
}

#[test]
fn arguments_are_checked_before_anything_starts() {
    let mut desk = desk(MdOptions::empty());
    let bare = MdInit {
        region: Region::flat(0, 8),
        options: MdOptions::empty(),
        eq: Handle::EQ_NONE,
        ct: Handle::CT_NONE,
    };
    let silent = desk.bed.ni.md_bind(&bare).expect("a legal descriptor");
    let unreliable = desk
        .bed
        .ni
        .md_bind(&MdInit {
            options: MdOptions::UNRELIABLE,
            ..bare.clone()
        })
        .expect("a legal descriptor");
    let plain = put(desk.md, 100, AckRequest::None);
    let wrong = [
        Operation {
            length: 101,
            ..plain
        },
        Operation {
            put: Some(Local {
                md: desk.md,
                offset: u64::MAX,
            }),
            ..plain
        },
        Operation { put: None, ..plain },
        Operation {
            get: plain.put,
            ..plain
        },
        Operation {
            put: Some(Local {
                md: desk.ct,
                offset: 0,
            }),
            ..plain
        },
        Operation {
            target: Peer::Physical(Process { nid: 1, pid: 1 }),
            ..plain
        },
        Operation {
            atomic: Some((AtomicOp::Sum, Datatype::Int8)),
            ..plain
        },
        Operation {
            op: ArrivalOp::Atomic,
            ..plain
        },
        put(silent, 8, AckRequest::Full),
        put(silent, 8, AckRequest::Counting),
        put(unreliable, 8, AckRequest::OperationComplete),
        Operation {
            ack: AckRequest::Counting,
            ..get(desk.md, 8)
        },
    ];
    for operation in wrong {
        assert_eq!(
            desk.bed.ni.start(operation),
            Err(PtlError::ArgInvalid),
            "{operation:?}"
        );
    }
    assert_eq!(desk.bed.ni.operations(), 0);
    assert!(
        desk.bed
            .ni
            .start(put(silent, 8, AckRequest::OperationComplete))
            .is_ok()
    );
    assert!(
        desk.bed
            .ni
            .start(put(unreliable, 8, AckRequest::None))
            .expect("legal")
            .unreliable
    );
}

#[test]
fn limits_bound_lengths_and_objects() {
    let limits = Limits {
        max_msg_size: 512,
        max_volatile_size: 256,
        max_fetch_atomic_size: 16,
        max_mds: 1,
        max_eqs: 1,
        ..Limits::default()
    };
    let mut bed = Bed::new(MATCHING, limits, PtOptions::empty(), 8);
    let init = MdInit {
        region: Region::flat(0, u64::MAX),
        options: MdOptions::VOLATILE,
        eq: bed.eq,
        ct: Handle::CT_NONE,
    };
    let md = bed.ni.md_bind(&init).expect("a legal descriptor");
    assert_eq!(bed.ni.md_bind(&init), Err(PtlError::NoSpace));
    assert_eq!(bed.ni.eq_alloc(1), Err(PtlError::NoSpace));
    assert_eq!(
        bed.ni.start(put(md, 513, AckRequest::None)),
        Err(PtlError::ArgInvalid)
    );
    assert!(
        bed.ni
            .start(put(md, 256, AckRequest::None))
            .expect("legal")
            .volatile
    );
    assert_eq!(
        bed.ni.start(put(md, 257, AckRequest::None)),
        Err(PtlError::ArgInvalid)
    );
    let swap = Operation {
        op: ArrivalOp::Swap,
        get: Some(Local { md, offset: 64 }),
        atomic: Some((AtomicOp::Swap, Datatype::Int8)),
        ..put(md, 17, AckRequest::None)
    };
    assert_eq!(bed.ni.start(swap), Err(PtlError::ArgInvalid));
    assert!(bed.ni.start(Operation { length: 16, ..swap }).is_ok());
    let mut ni = Interface::new(
        MATCHING,
        Limits {
            max_iovecs: 1,
            ..Limits::default()
        },
    );
    let two = Region::Iovec(vec![
        Piece {
            address: 1,
            length: 1
        };
        2
    ]);
    let init = MdInit {
        region: two,
        options: MdOptions::empty(),
        eq: Handle::EQ_NONE,
        ct: Handle::CT_NONE,
    };
    assert_eq!(ni.md_bind(&init), Err(PtlError::ArgInvalid));
}

#[test]
fn bundles_nest_and_end_no_more_often_than_they_begin() {
    let mut ni = Interface::new(MATCHING, Limits::default());
    ni.start_bundle();
    ni.start_bundle();
    assert_eq!((ni.end_bundle(), ni.is_bundling()), (Ok(()), true));
    assert_eq!((ni.end_bundle(), ni.is_bundling()), (Ok(()), false));
    assert_eq!(ni.end_bundle(), Err(PtlError::ArgInvalid));
}

#[test]
fn operations_of_a_descriptor_that_may_fault_say_so() {
    let mut desk = desk(MdOptions::empty());
    let (put, get) = (put(desk.md, 8, AckRequest::None), get(desk.md, 8));
    assert!(!desk.start(put).may_fault);
    desk.bed.ni.md_may_fault(desk.md);
    assert!(desk.start(put).may_fault && desk.start(get).may_fault);
}
