//! Which of the processes that share the RoCE port gets a packet.
//!
//! Every process has a socket of its own on the port. The kernel asks a classic BPF program for the
//! index of the socket that a datagram goes to; offset 0 is the first byte after the UDP header,
//! the BTH. Owns: the program, as a pure function of who owns what. Must not know: sockets, the
//! registry, the order in which the kernel keeps the sockets.
//!
//! The program is a help, not a guarantee: what it does not know goes to anybody, and whoever gets
//! a packet that is not its own hands it over. So a range without an owner may go wherever the
//! program becomes shorter by it.
//!
//! QP1 has no owner: a message of the communication manager goes to who listens on its service, or
//! to who chose the communication ID that it answers. A process puts the number of its slot into
//! the upper [`SLOT_BITS`] bits of its IDs.

use ferriband_memory::net::FilterStep;

#[cfg(test)]
mod tests;

/// What the program returns for a packet that could go to anybody: no socket has this index, so the
/// kernel takes one by its hash.
pub const ANYBODY: u16 = 0xffff;

/// Upper bits of a communication ID that say which process chose it: enough for the slots of the
/// host's registry.
pub const SLOT_BITS: u32 = 12;

/// Instructions that the kernel takes at most.
pub const MAX_STEPS: usize = 4096;

/// Fewer than these cannot even hold the fixed part.
pub const MIN_STEPS: usize = 64;

/// Who owns what, by index of the socket in the kernel's group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Ranges of queue pair numbers: first, one past the last, index. In any order; of two that
    /// overlap the one that begins first has the common part.
    pub numbers: Vec<(u32, u32, u16)>,
    /// Services that somebody listens on. Of equal ones the first counts.
    pub services: Vec<(u64, u16)>,
    /// Slots of the host's registry.
    pub slots: Vec<(u32, u16)>,
}

// Where a packet keeps what the program looks at: BTH, DETH (after 12 bytes), MAD (after 20).
const BTH_QPN: u32 = 4;
const BTH_PSN: u32 = 8;
const MAD_CLASS: u32 = 20 + 1;
const MAD_ATTRIBUTE: u32 = 20 + 16;
/// Local communication ID, or the request ID of the service ID resolution.
const CM_LOCAL_ID: u32 = 20 + 24;
const CM_REMOTE_ID: u32 = 20 + 28;
/// Of REQ and SIDR_REQ.
const CM_SERVICE: u32 = 20 + 32;

/// Management class of the communication manager (IBA table 106).
const CLASS_CM: u32 = 0x07;
const REQ: u32 = 0x10;
const SIDR_REQ: u32 = 0x17;
const SIDR_REP: u32 = 0x18;

/// The program of at most `max_steps` instructions (taken between [`MIN_STEPS`] and [`MAX_STEPS`]).
/// What does not fit is left out, the narrowest ranges and the last services and slots first.
///
/// QPN 0, which no packet of RoCE has, is a probe: it goes to the index that the lower 16 bits of
/// its PSN say.
pub fn program(steering: &Steering, max_steps: usize) -> Vec<FilterStep> {
    let room = max_steps.clamp(MIN_STEPS, MAX_STEPS);
    // A quarter for services and one for slots, if they need it: numbers are what most packets
    // have.
    let services = most(steering.services.len(), room / 4, |count| {
        services_tree(&steering.services[..count])
    });
    let slots = most(steering.slots.len(), room / 4, |count| {
        ranges_tree(
            steering.slots[..count]
                .iter()
                .map(|&(s, i)| (s, s.saturating_add(1), i)),
        )
    });
    let general = general_services(services, slots);
    let numbers = numbers_tree(&steering.numbers, room.saturating_sub(general.len() + 12));
    let mut steps = vec![load_word(BTH_QPN), and(0xff_ffff)];
    let probe = vec![load_word(BTH_PSN), and(0xffff), RETURN_A];
    steps.extend(branch(EQUAL, 0, probe, branch(EQUAL, 1, general, numbers)));
    debug_assert!(steps.len() <= room);
    steps
}

/// Ranges of queue pair numbers in at most `room` steps.
fn numbers_tree(ranges: &[(u32, u32, u16)], room: usize) -> Vec<FilterStep> {
    let mut merged = disjoint(ranges.iter().copied());
    // The widest first: they are the ones that most packets are for.
    merged.sort_by_key(|&(start, end, _)| (std::cmp::Reverse(end - start), start));
    most(merged.len(), room, |count| {
        ranges_tree(merged[..count].iter().copied())
    })
}

/// What happens to packets for QP1.
fn general_services(services: Vec<FilterStep>, slots: Vec<FilterStep>) -> Vec<FilterStep> {
    // Both ways meet again at the shift.
    let mut answers = vec![
        jump_if(EQUAL, SIDR_REP, 0, 2),
        load_word(CM_LOCAL_ID),
        skip(1),
        load_word(CM_REMOTE_ID),
        shift_right(32 - SLOT_BITS),
    ];
    answers.extend(slots);
    let mut by_attribute = vec![
        load_half(MAD_ATTRIBUTE),
        jump_if(EQUAL, REQ, 1, 0),
        jump_if(EQUAL, SIDR_REQ, 0, 1),
        skip(answers.len()),
    ];
    by_attribute.extend(answers);
    by_attribute.extend(services);
    let mut steps = vec![load_byte(MAD_CLASS)];
    steps.extend(branch(
        EQUAL,
        CLASS_CM,
        by_attribute,
        vec![return_index(ANYBODY)],
    ));
    steps
}

/// Service IDs: one tree of lower halves for each upper half. rdma_cm's all have the same upper
/// half.
fn services_tree(services: &[(u64, u16)]) -> Vec<FilterStep> {
    let mut sorted: Vec<(u64, u16)> = services.to_vec();
    // Stable, so that the first of equal ones stays first.
    sorted.sort_by_key(|&(id, _)| id);
    sorted.dedup_by_key(|&mut (id, _)| id);
    let mut steps = vec![return_index(ANYBODY)];
    for group in sorted.chunk_by(|a, b| a.0 >> 32 == b.0 >> 32).rev() {
        let mut tree = vec![load_word(CM_SERVICE + 4)];
        tree.extend(ranges_tree(group.iter().map(|&(id, index)| {
            (id as u32, (id as u32).saturating_add(1), index)
        })));
        steps = branch(EQUAL, (group[0].0 >> 32) as u32, tree, steps);
    }
    steps.insert(0, load_word(CM_SERVICE));
    steps
}

/// The program for as many of `count` things as fit into `room` steps.
fn most(count: usize, room: usize, build: impl Fn(usize) -> Vec<FilterStep>) -> Vec<FilterStep> {
    let all = build(count);
    if all.len() <= room {
        return all;
    }
    // More things never make a shorter tree, so the border can be searched for by halves.
    let (mut fits, mut fails) = (0, count);
    while fails - fits > 1 {
        let middle = fits + (fails - fits) / 2;
        if build(middle).len() <= room {
            fits = middle
        } else {
            fails = middle
        }
    }
    build(fits)
}

/// Sorted, without overlaps, neighbours of one owner joined.
fn disjoint(ranges: impl Iterator<Item = (u32, u32, u16)>) -> Vec<(u32, u32, u16)> {
    let mut sorted: Vec<_> = ranges.filter(|&(start, end, _)| start < end).collect();
    sorted.sort_by_key(|&(start, ..)| start);
    let mut out: Vec<(u32, u32, u16)> = Vec::with_capacity(sorted.len());
    for (start, end, index) in sorted {
        let start = out.last().map_or(start, |last| start.max(last.1));
        if start >= end {
            continue;
        }
        match out.last_mut() {
            Some(last) if last.1 == start && last.2 == index => last.1 = end,
            _ => out.push((start, end, index)),
        }
    }
    out
}

/// Which index the accumulator's value has. Gaps go with the range before them.
fn ranges_tree(ranges: impl Iterator<Item = (u32, u32, u16)>) -> Vec<FilterStep> {
    let mut starts: Vec<(u32, u16)> = disjoint(ranges)
        .into_iter()
        .map(|(start, _, index)| (start, index))
        .collect();
    starts.dedup_by_key(|&mut (_, index)| index);
    if starts.is_empty() {
        return vec![return_index(ANYBODY)];
    }
    tree(&starts)
}

/// A binary search; whatever lies below the first start belongs to it.
fn tree(starts: &[(u32, u16)]) -> Vec<FilterStep> {
    if let [(_, index)] = starts {
        return vec![return_index(*index)];
    }
    let (low, high) = starts.split_at(starts.len() / 2);
    branch(AT_LEAST, high[0].0, tree(high), tree(low))
}

/// `then` if the accumulator compares so with `k`, `otherwise` if not; both end in a return.
fn branch(
    condition: u16,
    k: u32,
    then: Vec<FilterStep>,
    otherwise: Vec<FilterStep>,
) -> Vec<FilterStep> {
    let mut steps = Vec::with_capacity(2 + then.len() + otherwise.len());
    if let Ok(over) = u8::try_from(otherwise.len()) {
        steps.push(jump_if(condition, k, over, 0));
        steps.extend(otherwise);
        steps.extend(then);
    } else if let Ok(over) = u8::try_from(then.len()) {
        steps.push(jump_if(condition, k, 0, over));
        steps.extend(then);
        steps.extend(otherwise);
    } else {
        // A conditional jump reaches 255 instructions, an unconditional one any distance.
        steps.push(jump_if(condition, k, 0, 1));
        steps.push(skip(otherwise.len()));
        steps.extend(otherwise);
        steps.extend(then);
    }
    steps
}

// The instructions, as linux/bpf_common.h numbers them.

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const ALWAYS: u16 = 0x05;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const RETURN_A: FilterStep = step(0x16, 0);

const fn step(code: u16, k: u32) -> FilterStep {
    FilterStep {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

// A load beyond the packet's end makes the program return 0: the first socket's process counts the
// runt.

const fn load_word(offset: u32) -> FilterStep {
    step(LOAD_WORD, offset)
}

const fn load_half(offset: u32) -> FilterStep {
    step(LOAD_HALF, offset)
}

const fn load_byte(offset: u32) -> FilterStep {
    step(LOAD_BYTE, offset)
}

const fn and(mask: u32) -> FilterStep {
    step(AND, mask)
}

const fn shift_right(bits: u32) -> FilterStep {
    step(SHIFT_RIGHT, bits)
}

const fn skip(steps: usize) -> FilterStep {
    step(ALWAYS, steps as u32)
}

const fn jump_if(condition: u16, k: u32, jt: u8, jf: u8) -> FilterStep {
    FilterStep {
        code: condition,
        jt,
        jf,
        k,
    }
}

const fn return_index(index: u16) -> FilterStep {
    step(RETURN, index as u32)
}
