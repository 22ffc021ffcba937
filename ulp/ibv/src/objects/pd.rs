//! Protection domains and memory regions.

use super::context::Context;
use super::region::{OutOfRange, Region};
use super::{after_destruction, any_thread};
use crate::error::VerbsError;
use crate::inline;
use crate::types::{Access, LKey, RKey};
use crate::wr::Element;
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// A protection domain: what is in one can work together.
pub struct Pd {
    at: NonNull<sys::ibv_pd>,
    context: Arc<Context>,
}

/// A memory region: memory that requests of its domain may name.
pub struct Mr {
    at: NonNull<sys::ibv_mr>,
    lkey: LKey,
    rkey: RKey,
    pd: Arc<Pd>,
    /// Our own memory; `None` is the program's.
    region: Option<Arc<Region>>,
}

any_thread!(Pd, Mr);

impl Pd {
    /// Makes a domain.
    pub fn alloc(context: &Arc<Context>) -> Result<Arc<Pd>, VerbsError> {
        // SAFETY: the context is open.
        let at = unsafe { (context.f().ibv_alloc_pd)(context.as_ptr()) };
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last("ibv_alloc_pd"))?;
        Ok(Arc::new(Pd {
            at,
            context: Arc::clone(context),
        }))
    }

    /// The device that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_pd {
        self.at.as_ptr()
    }
}

impl fmt::Debug for Pd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pd")
            .field("context", &self.context)
            .finish()
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: every object of this domain keeps it alive, so none is left.
        let returned = unsafe { (self.context.f().ibv_dealloc_pd)(self.as_ptr()) };
        after_destruction(returned, || Arc::clone(&self.context));
    }
}

impl Mr {
    /// Registers memory of our own, which stays mapped at least as long as it is registered.
    pub fn register(
        pd: &Arc<Pd>,
        region: &Arc<Region>,
        access: Access,
    ) -> Result<Arc<Mr>, VerbsError> {
        // SAFETY: the new object keeps the region alive, and nobody forms references into it.
        unsafe {
            Mr::new(
                pd,
                region.address(),
                region.size(),
                access,
                Some(Arc::clone(region)),
            )
        }
    }

    /// Registers the program's memory.
    ///
    /// # Safety
    /// As long as this object lives, peers who know its remote key may read and write `[addr, addr + length)` as `access` lets them: it
    /// stays mapped (or, with [`Access::ON_DEMAND`], what takes its place may be reached instead), and no Rust reference contradicts that.
    pub unsafe fn register_foreign(
        pd: &Arc<Pd>,
        addr: u64,
        length: usize,
        access: Access,
    ) -> Result<Arc<Mr>, VerbsError> {
        // SAFETY: the caller's promise.
        unsafe { Mr::new(pd, addr, length, access, None) }
    }

    /// Registers all memory of the process, on demand; see [`crate::DeviceLimits::implicit_on_demand`].
    ///
    /// # Safety
    /// As for [`Mr::register_foreign`], of all memory: without remote rights it lets nobody do anything, since requests of this process
    /// can name a range of it only by an unsafe function.
    pub unsafe fn register_implicit(pd: &Arc<Pd>, access: Access) -> Result<Arc<Mr>, VerbsError> {
        // SAFETY: the caller's promise; address 0 with the greatest length is how the API spells it.
        unsafe { Mr::new(pd, 0, usize::MAX, access | Access::ON_DEMAND, None) }
    }

    /// # Safety
    /// The range may be read and written as `access` says while the object, or `region` if given, lives.
    unsafe fn new(
        pd: &Arc<Pd>,
        addr: u64,
        length: usize,
        access: Access,
        region: Option<Arc<Region>>,
    ) -> Result<Arc<Mr>, VerbsError> {
        let f = pd.context.f();
        let start: *mut c_void = std::ptr::with_exposed_provenance_mut(addr as usize);
        let optional = access.bits() >= sys::IBV_ACCESS_OPTIONAL_FIRST;
        // Rights that a device may ignore need the newer function; without it they are dropped, as verbs.h does.
        let at = match f.ibv_reg_mr_iova2.filter(|_| optional) {
            // SAFETY: the caller's promise.
            Some(register) => unsafe { register(pd.as_ptr(), start, length, addr, access.bits()) },
            None => {
                let access = access.bits() & (sys::IBV_ACCESS_OPTIONAL_FIRST - 1);
                // SAFETY: the caller's promise.
                unsafe { (f.ibv_reg_mr)(pd.as_ptr(), start, length, access as c_int) }
            }
        };
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last("ibv_reg_mr"))?;
        // SAFETY: the library's structure, settled since registration.
        let lkey = unsafe { (&raw const (*at.as_ptr()).lkey).read() };
        // SAFETY: as above.
        let rkey = unsafe { (&raw const (*at.as_ptr()).rkey).read() };
        let (lkey, rkey) = (LKey(lkey), RKey(rkey));
        Ok(Arc::new(Mr {
            at,
            lkey,
            rkey,
            pd: Arc::clone(pd),
            region,
        }))
    }

    /// The key for requests of this process.
    pub fn lkey(&self) -> LKey {
        self.lkey
    }

    /// The key for requests of peers.
    pub fn rkey(&self) -> RKey {
        self.rkey
    }

    /// Our own memory behind it.
    pub fn region(&self) -> Option<&Arc<Region>> {
        self.region.as_ref()
    }

    /// Where our own memory begins, as peers name it; 0 for the program's.
    pub fn address(&self) -> u64 {
        self.region.as_ref().map_or(0, |region| region.address())
    }

    /// A piece of our own memory for a request: `length` bytes at `at`. Of the program's memory no piece is made here
    /// ([`Element::foreign`]).
    #[inline]
    pub fn element(&self, at: usize, length: u32) -> Result<Element<'static>, OutOfRange> {
        let size = self.region.as_ref().map_or(0, |region| region.size());
        let inside = at
            .checked_add(length as usize)
            .is_some_and(|end| end <= size);
        if !inside {
            return Err(OutOfRange {
                at,
                length: length as usize,
                size,
            });
        }
        Ok(Element::of(self.address() + at as u64, length, self.lkey))
    }

    /// Asks an on-demand region to bring the pages of its elements in now, for writing too if `write`. A hint.
    pub fn prefetch(&self, elements: &mut [Element<'_>], write: bool) -> Result<(), VerbsError> {
        let advice = if write {
            sys::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
        } else {
            sys::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
        };
        let count = u32::try_from(elements.len()).unwrap_or(u32::MAX);
        let context = self.pd.context.as_ptr();
        let list = elements.as_mut_ptr().cast();
        // SAFETY: a live domain and a list of elements, which are transparent over the C structure.
        unsafe { inline::advise_mr(context, self.pd.as_ptr(), advice, list, count) }
    }
}

impl fmt::Debug for Mr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mr")
            .field("lkey", &self.lkey)
            .field("rkey", &self.rkey)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: the region is not used by name any more; the library waits for accesses under way.
        let returned = unsafe { (self.pd.context.f().ibv_dereg_mr)(self.at.as_ptr()) };
        // Memory that is still registered must stay mapped, too.
        after_destruction(returned, || (Arc::clone(&self.pd), self.region.clone()));
    }
}
