//! The laws, over random histories. A plain model, without hashes and pools, says what must happen;
//! what the laws say is also looked up in the log of events.

mod model;

use super::*;
use model::{Model, Spec, Told};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// One call of the program or the transport.
#[derive(Clone, Debug)]
enum Step {
    Append(Spec),
    Unlink(usize),
    Arrive {
        rank: u32,
        bits: u64,
        length: u64,
    },
    /// The data of one of the requests under way is there, or has failed.
    Deliver(usize, bool),
    Search(Spec, bool),
    Enable,
    Disable,
}

fn spec() -> impl Strategy<Value = Spec> {
    let options = [
        EntryOptions::USE_ONCE,
        EntryOptions::MANAGE_LOCAL,
        EntryOptions::NO_TRUNCATE,
        EntryOptions::LOCAL_INC_UH_RLENGTH,
        EntryOptions::UNEXPECTED_HDR_DISABLE,
        EntryOptions::EVENT_UNLINK_DISABLE,
    ];
    let options = proptest::sample::subsequence(options.to_vec(), 0..3);
    let rank = prop_oneof![2 => 0u32..2, 1 => Just(Peer::RANK_ANY)];
    let ignore = prop_oneof![2 => Just(0u64), 1 => Just(u64::MAX)];
    let forbidden = proptest::bool::weighted(0.05);
    (
        (any::<bool>(), rank, 0u64..2, ignore),
        (options, 0u64..40, 0u64..20, forbidden),
    )
        .prop_map(
            |((overflow, rank, bits, ignore), (options, length, min_free, forbidden))| Spec {
                list: if overflow {
                    List::Overflow
                } else {
                    List::Priority
                },
                rank,
                bits,
                ignore,
                options: options.into_iter().collect(),
                length,
                min_free,
                forbidden,
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => spec().prop_map(Step::Append),
        2 => any::<usize>().prop_map(Step::Unlink),
        10 => (0u32..2, 0u64..2, 0u64..20).prop_map(|(rank, bits, length)| Step::Arrive { rank, bits, length }),
        8 => (any::<usize>(), proptest::bool::weighted(0.9)).prop_map(|(which, ok)| Step::Deliver(which, ok)),
        1 => (spec(), any::<bool>()).prop_map(|(spec, delete)| Step::Search(spec, delete)),
        2 => Just(Step::Enable),
        1 => Just(Step::Disable),
    ]
}

const ROOM: u64 = 0x1_0000;

fn init(number: u64, spec: &Spec) -> EntryInit {
    let mut options = spec.options;
    options.set(EntryOptions::OP_PUT, !spec.forbidden);
    EntryInit {
        region: Region::flat(number * ROOM, spec.length),
        ct: Handle::CT_NONE,
        uid: EntryInit::UID_ANY,
        options,
        match_id: Peer::Rank(spec.rank),
        match_bits: spec.bits,
        ignore_bits: spec.ignore,
        min_free: spec.min_free,
    }
}

/// The machine, the model, and what both said.
struct Run {
    bed: Bed,
    model: Model,
    handles: Vec<Handle>,
    /// Requests under way, by number.
    holds: Vec<(u64, Grant)>,
    requests: u64,
    log: Vec<Told>,
    /// What the initiator was answered, by request.
    answers: BTreeMap<u64, AckInfo>,
    /// By entry, the length of the log when unlinking it returned.
    unlinked: BTreeMap<u64, usize>,
}

const HEADERS: u32 = 4;

impl Run {
    fn new(options: PtOptions) -> Run {
        let limits = Limits {
            max_unexpected_headers: HEADERS,
            max_list_size: 6,
            ..Limits::default()
        };
        Run {
            bed: Bed::new(MATCHING, limits, options, 1 << 20),
            model: Model::new(options.contains(PtOptions::FLOWCTRL), HEADERS as usize, 6),
            handles: Vec::new(),
            holds: Vec::new(),
            requests: 0,
            log: Vec::new(),
            answers: BTreeMap::new(),
            unlinked: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Append(spec) => self.append(spec)?,
            Step::Unlink(which) if !self.handles.is_empty() => {
                let number = which % self.handles.len();
                let answer = self.bed.ni.entry_unlink(self.handles[number]);
                prop_assert_eq!(answer, self.model.unlink(number));
                if answer.is_ok() {
                    self.unlinked.entry(number as u64).or_insert(self.log.len());
                }
            }
            Step::Unlink(_) => {}
            Step::Arrive { rank, bits, length } => self.arrive(*rank, *bits, *length)?,
            Step::Deliver(which, ok) if !self.holds.is_empty() => {
                let (number, grant) = self.holds.remove(which % self.holds.len());
                self.deliver(number, &grant, *ok);
            }
            Step::Deliver(..) => {}
            Step::Search(spec, delete) => {
                let op = if *delete {
                    SearchOp::Delete
                } else {
                    SearchOp::Only
                };
                let done = self
                    .bed
                    .ni
                    .entry_search(self.bed.pt, &init(999, spec), op, 999);
                prop_assert_eq!(done, Ok(()));
                self.model.search(spec, *delete);
            }
            Step::Enable => {
                self.bed.ni.pt_enable(self.bed.pt).expect("it is allocated");
                self.model.enable();
            }
            Step::Disable => {
                self.bed
                    .ni
                    .pt_disable(self.bed.pt)
                    .expect("it is allocated");
                self.model.enabled = false;
            }
        }
        let told: Vec<Told> = self.bed.events().iter().map(Told::from).collect();
        prop_assert_eq!(
            &told,
            &std::mem::take(&mut self.model.told),
            "after {:?}",
            step
        );
        self.log.extend(told);
        prop_assert_eq!(
            self.bed.ni.unexpected_headers as usize,
            self.model.headers()
        );
        Ok(())
    }

    fn append(&mut self, spec: &Spec) -> Result<(), TestCaseError> {
        let number = self.handles.len();
        let made = self.bed.ni.entry_append(
            self.bed.pt,
            &init(number as u64, spec),
            spec.list,
            number as u64,
        );
        prop_assert_eq!(made.map(drop), self.model.append(spec));
        self.handles.push(made.unwrap_or(Handle::INVALID));
        Ok(())
    }

    fn arrive(&mut self, rank: u32, bits: u64, length: u64) -> Result<(), TestCaseError> {
        let number = self.requests;
        self.requests += 1;
        let arrival = Arrival {
            rank,
            hdr_data: number,
            ..self.bed.arrival(ArrivalOp::Put, bits, length)
        };
        let expected = self.model.arrive(number, rank, bits, length);
        match self.bed.ni.arrive(&arrival) {
            Admission::Granted(grant) => {
                let (entry, offset, mlength, list) = expected.expect("the model lets it in");
                prop_assert_eq!(
                    (grant.offset, grant.length, grant.list),
                    (offset, mlength, list)
                );
                // Law 4: every byte lies within the entry that took it.
                let start = entry as u64 * ROOM;
                let whole = self.model.length(entry);
                let within = |piece: &Piece| {
                    piece.address >= start && piece.address + piece.length <= start + whole
                };
                prop_assert!(grant.pieces.as_slice().iter().all(within));
                prop_assert_eq!(grant.pieces.length(), mlength);
                self.holds.push((number, grant));
            }
            Admission::Refused(fail) => {
                prop_assert_eq!(Err(fail), expected);
                self.answers.insert(number, AckInfo::refused(fail));
            }
        }
        Ok(())
    }

    fn deliver(&mut self, number: u64, grant: &Grant, ok: bool) {
        let outcome = if ok {
            Delivery::Done
        } else {
            Delivery::Failed(NiFail::Segv)
        };
        self.bed.ni.delivered(grant.hold, outcome);
        self.model.deliver(number, outcome.fail());
        self.answers.insert(number, grant.answer(outcome));
    }

    fn all(options: PtOptions, steps: &[Step]) -> Result<Run, TestCaseError> {
        let mut run = Run::new(options);
        for step in steps {
            run.step(step)?;
        }
        // In the end everything that is under way arrives.
        while !run.holds.is_empty() {
            run.step(&Step::Deliver(0, true))?;
        }
        Ok(run)
    }

    fn positions(&self, kind: EventKind, user_ptr: u64) -> Vec<usize> {
        let is = |told: &Told| told.kind == kind && told.user_ptr == user_ptr;
        (0..self.log.len())
            .filter(|&at| is(&self.log[at]))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Laws 1, 2 and 8: fates, offsets and events are those of a plain model, which walks its lists
    /// from the head.
    #[test]
    fn the_machine_does_what_a_plain_model_does(steps in proptest::collection::vec(step(), 1..80), flow in any::<bool>()) {
        let options = if flow { PtOptions::FLOWCTRL } else { PtOptions::empty() };
        let run = Run::all(options, &steps)?;
        prop_assert!(run.bed.ni.pt_is_quiet(run.bed.pt) == Ok(true) && run.bed.ni.objects.holds.len() == 0);
    }

    /// Law 1: a request has one fate, and its answer says what its event says.
    #[test]
    fn law_1_a_request_has_one_fate_and_its_answer_says_the_same(steps in proptest::collection::vec(step(), 1..80)) {
        let run = Run::all(PtOptions::FLOWCTRL, &steps)?;
        prop_assert_eq!(run.answers.len() as u64, run.requests);
        let told = |kind: EventKind| run.log.iter().filter(move |told| told.kind == kind);
        for (&number, answer) in &run.answers {
            let completions: Vec<&Told> = told(EventKind::Put).filter(|told| told.request == number).collect();
            let refused = *answer == AckInfo::refused(answer.fail) && answer.fail != NiFail::Ok && completions.is_empty();
            prop_assert_eq!(completions.len(), usize::from(!refused));
            for completion in completions {
                prop_assert_eq!((completion.fail, completion.mlength, completion.list), (answer.fail, answer.length, answer.list));
            }
            let met = told(EventKind::PutOverflow).filter(|told| told.request == number).count();
            prop_assert!(met <= usize::from(!refused && answer.list == List::Overflow));
        }
    }

    /// Laws 4 and 6: PUT, AUTO_UNLINK, AUTO_FREE in this order, the latter two once; after
    /// unlinking returned, or was told, no PUT.
    #[test]
    fn law_6_put_auto_unlink_auto_free_come_in_this_order(steps in proptest::collection::vec(step(), 1..80)) {
        let run = Run::all(PtOptions::empty(), &steps)?;
        for number in 0..run.handles.len() as u64 {
            let puts = run.positions(EventKind::Put, number);
            let unlinks = run.positions(EventKind::AutoUnlink, number);
            let frees = run.positions(EventKind::AutoFree, number);
            prop_assert!(unlinks.len() <= 1 && frees.len() <= unlinks.len());
            let last = puts.last().copied();
            prop_assert!(unlinks.first().is_none_or(|&unlink| last.is_none_or(|put| put < unlink)));
            prop_assert!(frees.first().is_none_or(|free| unlinks[0] < *free));
            prop_assert!(run.unlinked.get(&number).is_none_or(|&at| last.is_none_or(|put| put < at)));
        }
    }

    /// Law 8: between PT_DISABLED and the next enabling no request is let in, and the target is
    /// told once.
    #[test]
    fn law_8_a_disabled_table_entry_lets_nothing_in(steps in proptest::collection::vec(step(), 1..80)) {
        let mut run = Run::new(PtOptions::FLOWCTRL);
        let mut disabled = false;
        for step in &steps {
            let (holds, logged) = (run.holds.len(), run.log.len());
            run.step(step)?;
            if matches!(step, Step::Enable) {
                disabled = false;
            }
            prop_assert!(!disabled || run.holds.len() <= holds);
            let told = run.log[logged..].iter().filter(|told| told.kind == EventKind::PtDisabled).count();
            prop_assert!(told <= usize::from(!disabled));
            disabled |= told > 0;
        }
    }

    /// Law 10 and flow control: in a ring of four places nothing of a request that was let in is
    /// lost.
    #[test]
    fn law_10_a_full_ring_loses_no_event_of_a_request_that_was_let_in(
        steps in proptest::collection::vec((0u8..5, any::<usize>(), any::<bool>()), 1..120),
    ) {
        let mut bed = Bed::new(MATCHING, Limits::default(), PtOptions::FLOWCTRL, 4);
        let mut holds = Vec::new();
        let mut expected = BTreeSet::new();
        let mut number = 0;
        for (kind, which, flag) in steps {
            match kind {
                0 => {
                    let options = if flag { EntryOptions::USE_ONCE } else { EntryOptions::EVENT_OVER_DISABLE };
                    bed.append(&entry(1, 8, options), List::Overflow, 1);
                }
                1 | 2 => {
                    number += 1;
                    let arrival = Arrival { hdr_data: number, ..bed.arrival(ArrivalOp::Put, 1, 8) };
                    if let Admission::Granted(grant) = bed.ni.arrive(&arrival) {
                        expected.insert(number);
                        holds.push(grant.hold);
                    }
                }
                3 if !holds.is_empty() => bed.ni.delivered(holds.swap_remove(which % holds.len()), Delivery::Done),
                3 => {}
                _ => {
                    while let Ok(taken) = bed.ni.eq_get(bed.eq) {
                        prop_assert!(!taken.dropped);
                        if taken.event.kind == EventKind::Put {
                            prop_assert!(expected.remove(&taken.event.hdr_data));
                        }
                    }
                    if flag {
                        bed.ni.pt_enable(bed.pt).expect("it is allocated");
                    }
                }
            }
        }
        holds.into_iter().for_each(|hold| bed.ni.delivered(hold, Delivery::Done));
        for event in bed.events().iter().filter(|event| event.kind == EventKind::Put) {
            prop_assert!(expected.remove(&event.hdr_data));
        }
        prop_assert!(expected.is_empty());
    }

    /// Law 7: counters lose nothing, triggers fire once, in the order of thresholds and then of
    /// issue.
    #[test]
    fn law_7_counters_and_triggers_do_what_a_plain_model_does(
        steps in proptest::collection::vec((0u8..6, 0usize..3, 0u64..4, 0u64..12), 1..100),
    ) {
        let mut ni = Interface::new(MATCHING, Limits::default());
        let cts = [0; 3].map(|_| ni.ct_alloc().expect("a counter"));
        let md = ni.md_bind(&MdInit { region: Region::flat(0, 8), options: MdOptions::empty(), eq: Handle::EQ_NONE, ct: Handle::CT_NONE });
        let md = md.expect("a legal descriptor");
        let mut plain = model::Counters::default();
        for (number, (kind, which, by, threshold)) in steps.into_iter().enumerate() {
            let number = number as u64;
            let other = (which + by as usize) % 3;
            let value = CtEvent { success: by, failure: threshold % 2 };
            let one_of_both = CtEvent { failure: if by == 0 { value.failure } else { 0 }, ..value };
            match kind {
                0 | 1 => {
                    ni.ct_inc(cts[which], one_of_both).expect("it is allocated");
                    plain.inc(which, one_of_both);
                }
                2 if by == 0 => {
                    ni.ct_set(cts[which], value).expect("it is allocated");
                    plain.set(which, value);
                }
                2 | 3 => {
                    let operation = Operation { user_ptr: number, ..initiator::put(md, 8, AckRequest::None) };
                    ni.triggered(operation, cts[which], threshold).expect("a legal operation");
                    plain.wait(which, threshold, number, model::Effect::Start);
                }
                4 => {
                    ni.triggered_ct_inc(cts[other], one_of_both, cts[which], threshold).expect("legal");
                    plain.wait(which, threshold, number, model::Effect::Inc(other, one_of_both));
                }
                _ => {
                    ni.triggered_ct_set(cts[other], value, cts[which], threshold).expect("legal");
                    plain.wait(which, threshold, number, model::Effect::Set(other, value));
                }
            }
            prop_assert_eq!(cts.map(|ct| ni.ct_get(ct).expect("it is allocated")), plain.values);
            let due: Vec<u64> = std::iter::from_fn(|| ni.next_due()).map(|operation| operation.user_ptr).collect();
            prop_assert_eq!(due, std::mem::take(&mut plain.started));
        }
    }
}
