//! Many idle queue pairs in one process, and the memory that each costs.

use super::{Context, Library, Source, check};
use crate::failure::Failure;
use crate::text::{print_json, print_line};
use ferriband_verbs_sys::*;
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::ExitCode;
use std::ptr;

/// What `ferriband qp-memory` prints.
#[derive(Serialize, Deserialize, Debug)]
pub struct Memory {
    /// Queue pairs, all connected in pairs and in state RTS.
    pub queue_pairs: u32,
    /// Growth of the resident set, shared pages included.
    pub resident_bytes: i64,
    /// The same for each.
    pub bytes_per_queue_pair: f64,
}

/// Makes `count` RC queue pairs with queues of one request each, connects them in pairs within this
/// process, and reports how the resident set grew. The process then exits: the system takes back what
/// was made.
pub fn command(count: u32, system: bool, json: bool) -> Result<ExitCode, Failure> {
    let library = Library::open(Source::from_flag(system))?;
    let context = library.context(None)?;
    let memory = measure(&context, count.next_multiple_of(2))?;
    if json {
        print_json(&memory)?;
    } else {
        print_line(&format!(
            "{} queue pairs: {} KiB, {:.0} bytes each",
            memory.queue_pairs,
            memory.resident_bytes >> 10,
            memory.bytes_per_queue_pair
        ))?;
    }
    // What 10,000 destructors cost is not what was asked.
    std::process::exit(0)
}

fn measure(context: &Context, count: u32) -> Result<Memory, Failure> {
    let library = &context.library;
    // SAFETY: the context is open.
    let pd = unsafe { (library.ibv_alloc_pd)(context.raw) };
    // SAFETY: the context is open; no channel is asked for.
    let cq =
        unsafe { (library.ibv_create_cq)(context.raw, 16, ptr::null_mut(), ptr::null_mut(), 0) };
    if pd.is_null() || cq.is_null() {
        return Err(Failure::os(
            "create",
            "a protection domain and a completion queue",
        ));
    }
    let port = context.port(1)?;
    let gid = context.gid(1, 0)?;
    let mut queue_pairs = Vec::with_capacity(count as usize);
    // Two before the count: what the first connection of a process allocates is not per queue pair.
    let mut before = 0;
    for index in 0..count + 2 {
        if index == 2 {
            before = resident_bytes()?;
        }
        let mut wanted = ibv_qp_init_attr {
            send_cq: cq,
            recv_cq: cq,
            cap: ibv_qp_cap {
                max_send_wr: 1,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: IBV_QPT_RC,
            ..ibv_qp_init_attr::default()
        };
        // SAFETY: domain and queue are alive; wanted is a valid struct.
        let qp = unsafe { (library.ibv_create_qp)(pd, &mut wanted) };
        if qp.is_null() {
            return Err(Failure::os(
                "create",
                &format!("queue pair {index} of {count}"),
            ));
        }
        queue_pairs.push(qp);
        if index % 2 == 1 {
            let pair = [queue_pairs[index as usize - 1], qp];
            for (own, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
                // SAFETY: the queue pair is alive, and its number does not change.
                let number = unsafe { (*other).qp_num };
                connect(library, own, number, &port, gid)?;
            }
        }
    }
    let resident_bytes = resident_bytes()? - before;
    Ok(Memory {
        queue_pairs: count,
        resident_bytes,
        bytes_per_queue_pair: resident_bytes as f64 / f64::from(count),
    })
}

fn connect(
    library: &Library,
    qp: *mut ibv_qp,
    peer: u32,
    port: &ibv_port_attr,
    gid: [u8; 16],
) -> Result<(), Failure> {
    let ethernet = u32::from(port.link_layer) == IBV_LINK_LAYER_ETHERNET;
    let mut attributes = ibv_qp_attr {
        qp_state: IBV_QPS_INIT,
        port_num: 1,
        path_mtu: port.active_mtu,
        dest_qp_num: peer,
        max_dest_rd_atomic: 1,
        max_rd_atomic: 1,
        min_rnr_timer: 12,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        ah_attr: ibv_ah_attr {
            dlid: port.lid,
            port_num: 1,
            is_global: u8::from(ethernet),
            grh: ibv_global_route {
                dgid: ibv_gid { raw: gid },
                hop_limit: 64,
                ..Default::default()
            },
            ..Default::default()
        },
        ..ibv_qp_attr::default()
    };
    let steps = [
        (
            IBV_QPS_INIT,
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        ),
        (
            IBV_QPS_RTR,
            IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER,
        ),
        (
            IBV_QPS_RTS,
            IBV_QP_SQ_PSN
                | IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_MAX_QP_RD_ATOMIC,
        ),
    ];
    for (state, mask) in steps {
        attributes.qp_state = state;
        // SAFETY: the queue pair is alive; attributes is a valid struct.
        let rc =
            unsafe { (library.ibv_modify_qp)(qp, &mut attributes, (IBV_QP_STATE | mask) as i32) };
        check(rc, "connect", "one of many queue pairs")?;
    }
    Ok(())
}

/// Pages in memory, private and shared, as the kernel counts them for this process.
fn resident_bytes() -> Result<i64, Failure> {
    let path = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kilobytes = line
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|count| count.trim().parse::<i64>().ok());
    kilobytes
        .map(|count| count << 10)
        .ok_or_else(|| Failure::new(format!("{path} has no resident set size")))
}
