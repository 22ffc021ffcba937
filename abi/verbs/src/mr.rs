//! Memory regions: registration in all its forms, re-registration, advice, import.

use crate::boundary::{entry, errno, set_errno, try_entry};
use crate::buf;
use crate::context::{Context, Shared};
use crate::convert;
use crate::dm::Dm;
use crate::object::{Object, input};
use crate::pd::{Pd, User};
use ferriband_hca as hca;
use ferriband_transport::types::{Access, Sge};
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What only we see of a memory region.
pub struct MrOwn {
    /// The adapter's region.
    pub hca: Arc<hca::Mr>,
    kind: Kind,
    /// The domain that it counts against; changes with a re-registration.
    domain: Mutex<User>,
    /// Where its handle is, unless the device is closed.
    shared: Weak<Shared>,
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Kind {
    /// Of the program's memory.
    Memory,
    /// Of device memory, or of none.
    Other,
    /// Another name, from `ibv_import_mr`.
    Imported,
}

/// A memory region.
pub type Mr = Object<sys::ibv_mr, MrOwn>;

/// Makes the object that the program holds.
///
/// # Safety
/// `pd` is the C pointer of `domain`.
unsafe fn publish(
    pd: *mut sys::ibv_pd,
    domain: &Pd,
    region: Arc<hca::Mr>,
    kind: Kind,
    (addr, length): (*mut c_void, usize),
) -> Result<*mut sys::ibv_mr, i32> {
    // SAFETY: the C part of a live domain.
    let context = unsafe { (*domain.c()).context };
    // SAFETY: the program uses the device, and has not closed it.
    let opened = unsafe { Context::of(context) }?;
    let handle = opened.shared().mrs.add(Arc::clone(&region));
    let c = sys::ibv_mr {
        context,
        pd,
        addr,
        length,
        handle,
        lkey: region.key(),
        rkey: region.key(),
    };
    Ok(Mr::leak(
        c,
        MrOwn {
            hca: region,
            kind,
            domain: Mutex::new(domain.hold()),
            shared: opened.shared_weakly(),
        },
    ))
}

/// `ibv_reg_mr_iova2`: registers memory under an address of the program's choice. EFAULT if the memory is not mapped, or read-only
/// where the rights need it writable; an on-demand region is checked when it is used.
///
/// # Safety
/// `pd` is a live domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut sys::ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> *mut sys::ibv_mr {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { Pd::of(pd) }?;
        let access = convert::access(access)?;
        let is_everything =
            addr.is_null() && length == usize::MAX && access.contains(Access::ON_DEMAND);
        // An implicit on-demand region is the whole address space: its length, 2^64-1, stands for all there is.
        let bytes = if is_everything {
            hca::limits::MAX_MR_SIZE
        } else {
            length as u64
        };
        let init = hca::MrInit {
            addr: addr as u64,
            length: bytes,
            iova,
            access,
        };
        let region = domain.hca.reg_mr(init).map_err(|error| error.errno())?;
        // SAFETY: the domain was found behind this pointer.
        unsafe { publish(pd, domain, region, Kind::Memory, (addr, length)) }
    })
}

/// `ibv_reg_mr`.
///
/// # Safety
/// As for [`ibv_reg_mr_iova2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut sys::ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut sys::ibv_mr {
    // SAFETY: the caller's promise.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, addr as u64, access as u32) }
}

/// `ibv_reg_mr_iova`.
///
/// # Safety
/// As for [`ibv_reg_mr_iova2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut sys::ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut sys::ibv_mr {
    // SAFETY: the caller's promise.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access as u32) }
}

/// `ibv_reg_mr_ex`: registers what the attributes name. EOPNOTSUPP for a dma-buf, a DMA handle, or a field that is not known;
/// EINVAL for fields that exclude one another, and for a part of a buffer that does not lie within it.
///
/// # Safety
/// `pd` is a live domain, `attr` readable, and a buffer that it names is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_ex(
    pd: *mut sys::ibv_pd,
    attr: *mut sys::ibv_mr_init_attr,
) -> *mut sys::ibv_mr {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        let has = |mask| attr.comp_mask & mask != 0;
        let of_file = has(sys::IBV_REG_MR_MASK_FD) || has(sys::IBV_REG_MR_MASK_FD_OFFSET);
        if has(sys::IBV_REG_MR_MASK_BUF) {
            if of_file || !has(sys::IBV_REG_MR_MASK_ADDR) {
                return Err(libc::EINVAL);
            }
            // SAFETY: the caller's promise; NULL is refused.
            let buffer = unsafe { input(attr.buf) }?;
            buf::must_contain(buffer, pd, (attr.addr as usize, attr.length))?;
        }
        let known = sys::IBV_REG_MR_MASK_IOVA
            | sys::IBV_REG_MR_MASK_ADDR
            | sys::IBV_REG_MR_MASK_FD
            | sys::IBV_REG_MR_MASK_FD_OFFSET
            | sys::IBV_REG_MR_MASK_BUF;
        if attr.comp_mask & !known != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        if has(sys::IBV_REG_MR_MASK_FD) {
            let is_whole = has(sys::IBV_REG_MR_MASK_FD_OFFSET) && has(sys::IBV_REG_MR_MASK_IOVA);
            return Err(match is_whole && !has(sys::IBV_REG_MR_MASK_ADDR) {
                true => libc::EOPNOTSUPP,
                false => libc::EINVAL,
            });
        }
        if of_file || !has(sys::IBV_REG_MR_MASK_ADDR) {
            return Err(libc::EINVAL);
        }
        let iova = match has(sys::IBV_REG_MR_MASK_IOVA) {
            true => attr.iova,
            false => attr.addr as u64,
        };
        // SAFETY: the caller's promise.
        let region =
            unsafe { ibv_reg_mr_iova2(pd, attr.addr, attr.length, iova, attr.access as u32) };
        match region.is_null() {
            true => Err(errno()),
            false => Ok(region),
        }
    })
}

/// `reg_dm_mr` of the context: a region of device memory, addressed from 0.
///
/// # Safety
/// `pd` and `dm` are live.
pub unsafe extern "C" fn reg_dm_mr(
    pd: *mut sys::ibv_pd,
    dm: *mut sys::ibv_dm,
    dm_offset: u64,
    length: usize,
    access: u32,
) -> *mut sys::ibv_mr {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { Pd::of(pd) }?;
        // SAFETY: the caller's promise.
        let memory = unsafe { Dm::of(dm) }?;
        let access = convert::access(access)?;
        let region = domain
            .hca
            .reg_dm_mr(&memory.hca, dm_offset, length as u64, access)
            .map_err(|error| error.errno())?;
        // SAFETY: the domain was found behind this pointer.
        unsafe {
            publish(
                pd,
                domain,
                region,
                Kind::Other,
                (std::ptr::null_mut(), length),
            )
        }
    })
}

/// `ibv_rereg_mr`: 0, or one of the negative codes of `enum ibv_rereg_mr_err_code` with errno set. New memory, and the old with
/// new rights, is looked at as for a registration.
///
/// # Safety
/// `mr` is a live region and `pd` live if the flags name it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut sys::ibv_mr,
    flags: c_int,
    pd: *mut sys::ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    /// The old region stays as it was.
    const ERR_INPUT: c_int = -1;
    /// The region should not be used any more.
    const ERR_CMD: c_int = -4;
    let refuse = |code: c_int, errno: i32| {
        set_errno(errno);
        code
    };
    entry(|| {
        let flags = flags as u32;
        let changes = |flag: u32| flags & flag != 0;
        // SAFETY: the caller's promise.
        let region = match unsafe { Mr::of(mr) } {
            Ok(region) if region.kind == Kind::Memory => region,
            Ok(_) => return refuse(ERR_INPUT, libc::EINVAL),
            Err(errno) => return refuse(ERR_INPUT, errno),
        };
        let translates = changes(sys::IBV_REREG_MR_CHANGE_TRANSLATION);
        if flags & !sys::IBV_REREG_MR_FLAGS_SUPPORTED != 0
            || translates && (length == 0 || addr.is_null())
            || access != 0 && !changes(sys::IBV_REREG_MR_CHANGE_ACCESS)
        {
            return refuse(ERR_INPUT, libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let domain = match changes(sys::IBV_REREG_MR_CHANGE_PD)
            .then(|| unsafe { Pd::of(pd) })
            .transpose()
        {
            Ok(domain) => domain,
            Err(errno) => return refuse(ERR_INPUT, errno),
        };
        let access = match changes(sys::IBV_REREG_MR_CHANGE_ACCESS)
            .then(|| convert::access(access as u32))
            .transpose()
        {
            Ok(access) => access,
            Err(errno) => return refuse(ERR_INPUT, errno),
        };
        let range = translates.then_some((addr as u64, length as u64));
        if let Err(error) = region
            .hca
            .reregister(domain.map(|pd| pd.hca.domain()), range, access)
        {
            return refuse(ERR_CMD, error.errno());
        }
        let c = region.c();
        if let Some(domain) = domain {
            *region.domain.lock().unwrap_or_else(PoisonError::into_inner) = domain.hold();
            // SAFETY: the structure is ours to write while the program is in this call.
            unsafe { (*c).pd = pd };
        }
        if translates {
            // SAFETY: as above.
            unsafe { ((*c).addr, (*c).length) = (addr, length) };
        }
        // SAFETY: as above.
        unsafe { ((*c).lkey, (*c).rkey) = (region.hca.key(), region.hca.key()) };
        0
    })
}

/// `ibv_dereg_mr`: EBUSY while a window is bound to the region.
///
/// # Safety
/// `mr` is a live region that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut sys::ibv_mr) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { Mr::of(mr) }?;
        region.hca.deregister().map_err(|error| error.errno())?;
        // SAFETY: the C part of a live region.
        let handle = unsafe { (*region.c()).handle };
        if let Some(shared) = region.shared.upgrade() {
            shared.mrs.remove(handle);
        }
        // SAFETY: the program gives the region up.
        unsafe { Mr::free(mr) };
        Ok(0)
    })
}

/// `ibv_import_mr`: another name for a region of the same process. Its address is not known to the importer: NULL.
///
/// # Safety
/// `pd` is a live domain.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_mr(pd: *mut sys::ibv_pd, mr_handle: u32) -> *mut sys::ibv_mr {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { Pd::of(pd) }?;
        // SAFETY: the C part of a live domain.
        let context = unsafe { (*domain.c()).context };
        // SAFETY: the program uses the device, and has not closed it.
        let opened = unsafe { Context::of(context) }?;
        let region = opened.shared().mrs.get(mr_handle).ok_or(libc::ENOENT)?;
        let c = sys::ibv_mr {
            context,
            pd,
            addr: std::ptr::null_mut(),
            length: usize::try_from(region.extent().1).unwrap_or(usize::MAX),
            handle: mr_handle,
            lkey: region.key(),
            rkey: region.key(),
        };
        Ok(Mr::leak(
            c,
            MrOwn {
                hca: region,
                kind: Kind::Imported,
                domain: Mutex::new(domain.hold()),
                shared: opened.shared_weakly(),
            },
        ))
    })
}

/// `ibv_unimport_mr`: gives a name up; the region stays.
///
/// # Safety
/// `mr` came from `ibv_import_mr` and is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_mr(mr: *mut sys::ibv_mr) {
    entry(|| {
        // SAFETY: the caller's promise.
        if unsafe { Mr::of(mr) }.is_ok_and(|region| region.kind == Kind::Imported) {
            // SAFETY: the program gives the name up.
            unsafe { Mr::free(mr) };
        }
    });
}

/// `advise_mr` of the context: prefetching. Pages of on-demand regions are touched by the copy itself when it comes, so
/// the advice only checks that its ranges are registered with the rights it names.
///
/// # Safety
/// `pd` is a live domain and `sg_list` has `num_sge` elements.
pub unsafe extern "C" fn advise_mr(
    pd: *mut sys::ibv_pd,
    advice: sys::ib_uverbs_advise_mr_advice,
    flags: u32,
    sg_list: *mut sys::ibv_sge,
    num_sge: u32,
) -> c_int {
    const FLUSH: u32 = 1;
    try_entry(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { Pd::of(pd) }?;
        let writes = match advice {
            sys::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
            | sys::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => false,
            sys::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE => true,
            _ => return Err(libc::EOPNOTSUPP),
        };
        if flags & !FLUSH != 0 || num_sge == 0 || sg_list.is_null() {
            return Err(libc::EINVAL);
        }
        for index in 0..num_sge as usize {
            // SAFETY: the caller's promise; the layouts are the same.
            let sge = unsafe { sg_list.add(index).cast::<Sge>().read() };
            domain
                .hca
                .check_range(&sge, writes)
                .map_err(|error| error.errno())?;
        }
        Ok(0)
    })
}
