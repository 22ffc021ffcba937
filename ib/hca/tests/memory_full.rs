//! A machine without memory: a clear ENOMEM where something was asked for, no signal, nothing half made.
#![allow(clippy::unwrap_used)]

mod common;

use common::memory::Kind;
use common::party::*;
use common::process::{self, Channel, Child};
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[
        ("obey", obey),
        ("no-shared-memory", no_shared_memory),
        ("no-device", no_device),
        ("no-address-space", no_address_space),
    ]);
}

/// From now on, allocating the pages of shared memory fails in this process as on a full machine. The kernel has no knob
/// for a full machine in one process, so a filter of system calls answers in its place.
fn fill_shared_memory() {
    // one instruction of the kernel's classic filter machine: code, jump if true, jump if false, operand
    let op = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        op(0x20, 0, 0, 0), // the system call's number
        op(0x15, 0, 1, libc::SYS_fallocate as u32),
        op(0x06, 0, 0, 0x0005_0000 | libc::ENOSPC as u32),
        op(0x06, 0, 0, 0x7fff_0000),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: a flag of this process.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(set, 0);
    // SECCOMP_SET_MODE_FILTER, for all threads
    // SAFETY: the program is well formed and lives over the call.
    let set = unsafe { libc::syscall(libc::SYS_seccomp, 1, 1, &filter) };
    assert_eq!(set, 0);
}

fn fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[track_caller]
fn enomem<T>(result: Result<T, Error>) {
    match result {
        Ok(_) => panic!("it succeeded without memory"),
        Err(error) => {
            assert_eq!(error.errno(), libc::ENOMEM, "{error}");
            assert!(
                error.to_string().contains("memory"),
                "says what is wrong: {error}"
            );
        }
    }
}

fn small_qp(cq: &std::sync::Arc<Cq>) -> QpInit {
    QpInit {
        qp_type: QpType::Rc,
        send_cq: Some(cq.clone()),
        recv_cq: Some(cq.clone()),
        srq: None,
        xrcd: None,
        cap: QpCap {
            max_send_wr: 1,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        signal_all: false,
    }
}

/// Shared memory runs out while the device is open: what needs none goes on.
fn no_shared_memory(channel: Channel) {
    let ctx = Context::open(0).unwrap();
    let (a, b) = (
        Endpoint::new(&ctx, Setup::default()).unwrap(),
        Endpoint::new(&ctx, Setup::default()).unwrap(),
    );
    join(&a, &b);
    let pd = ctx.alloc_pd().unwrap();
    let cq = ctx
        .create_cq(CqInit {
            cqe: 8,
            ..CqInit::default()
        })
        .unwrap();
    fill_shared_memory();
    let open = fds();
    for _ in 0..20 {
        enomem(ctx.alloc_dm(1 << 20));
    }
    // the first block of numbers is there; the next one cannot be had
    let mut qps = Vec::new();
    let refused = loop {
        match pd.create_qp(small_qp(&cq)) {
            Ok(qp) => qps.push(qp),
            Err(error) => break error,
        }
        assert!(qps.len() < 300);
    };
    assert_eq!(refused.errno(), libc::ENOMEM, "{refused}");
    (0..600).for_each(|_| enomem(pd.create_qp(small_qp(&cq))));
    // the same with the table of keys
    let mut mrs = Vec::new();
    let init = MrInit {
        addr: a.memory.addr(),
        length: 64,
        iova: 0,
        access: Access::empty(),
    };
    let refused = loop {
        match pd.reg_mr(init) {
            Ok(mr) => mrs.push(mr),
            Err(error) => break error,
        }
        assert!(mrs.len() < 3000);
    };
    assert_eq!(refused.errno(), libc::ENOMEM, "{refused}");
    enomem(pd.alloc_mw(MwKind::Type2));
    assert_eq!(fds(), open, "no descriptor was lost");
    // what exists works on, and what was given back can be had again
    b.recv(1, 0, 64, None).unwrap();
    a.post(&Ask::new(SendOpcode::Send, 8, &b.info(0)).id(2))
        .unwrap();
    assert_eq!((b.wait().wr_id, a.wait().wr_id), (1, 2));
    mrs.pop().unwrap().deregister().unwrap();
    mrs.push(pd.reg_mr(init).unwrap());
    qps.pop().unwrap().destroy().unwrap();
    qps.push(pd.create_qp(small_qp(&cq)).unwrap());
    mrs.iter().for_each(|mr| mr.deregister().unwrap());
    qps.iter().for_each(|qp| qp.destroy().unwrap());
    // nothing half made holds on to them
    cq.destroy().unwrap();
    pd.dealloc().unwrap();
    channel.send(&[]);
}

#[test]
fn a_full_shared_memory_is_enomem_and_leaves_nothing_half_made() {
    Child::spawn("no-shared-memory").channel.recv();
}

/// The device cannot even be opened.
fn no_device(channel: Channel) {
    fill_shared_memory();
    enomem(Context::open(0));
    let open = fds();
    for _ in 0..100 {
        enomem(Context::open(0));
    }
    assert_eq!(fds(), open, "no descriptor was lost");
    channel.send(&[]);
}

#[test]
fn a_device_that_cannot_be_opened_for_lack_of_memory_disturbs_nobody() {
    let mut pair = Pair::alike(Party::here(), Party::there(), Setup::default());
    Child::spawn("no-device").channel.recv();
    pair.exchange();
    let mut newcomers = Pair::alike(Party::there(), Party::there(), Setup::default());
    newcomers.exchange();
}

/// Sets the room for mappings to what is in use and `more` bytes.
fn limit_address_space(more: u64) {
    let used = process::status_of("/proc/self/status", "VmSize:") * 1024;
    let limit = libc::rlimit {
        rlim_cur: used + more,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: sets the soft limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

fn unlimit() {
    let limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// Mappings cannot be had: opening, large queues, device memory.
fn no_address_space(channel: Channel) {
    limit_address_space(8 << 20);
    enomem(Context::open(0));
    unlimit();
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(
        &ctx,
        Setup {
            memory: Kind::Private,
            ..Setup::default()
        },
    )
    .unwrap();
    let largest = QpCap {
        max_send_wr: 32_768,
        max_recv_wr: 32_768,
        max_send_sge: 30,
        max_recv_sge: 30,
        max_inline_data: 1024,
    };
    let huge = QpInit {
        cap: largest,
        ..small_qp(&end.cq)
    };
    limit_address_space(4 << 20);
    enomem(end.pd.create_qp(huge.clone()));
    enomem(ctx.alloc_dm(32 << 20));
    unlimit();
    let qp = end.pd.create_qp(huge).unwrap();
    qp.destroy().unwrap();
    end.close();
    channel.send(&[]);
}

#[test]
fn a_full_address_space_is_enomem() {
    Child::spawn("no-address-space").channel.recv();
}
