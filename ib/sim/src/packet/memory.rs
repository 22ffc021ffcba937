//! The memory of a simulated adapter: regions with keys, rights and protection domains.
//!
//! Written for the simulator alone and checked on its own terms (64-bit offsets, no wrap), so that the machine's checks
//! are compared with something.

use ferriband_transport::env::MemoryError;
use ferriband_transport::types::{Access, Sge};

/// Protection domain of the queue pairs; another number is a foreign domain.
pub(super) const PD: u32 = 1;

#[derive(Debug)]
struct Region {
    pd: u32,
    base: u64,
    access: Access,
    alive: bool,
    data: Vec<u8>,
}

/// All regions of one adapter; a key is 256 times the region's number (from 1).
#[derive(Debug, Default)]
pub(super) struct Memory {
    regions: Vec<Region>,
}

impl Memory {
    /// Adds a region and returns its key and first address.
    pub fn add(&mut self, pd: u32, length: usize, access: Access) -> (u32, u64) {
        let number = self.regions.len() as u64 + 1;
        // Not page aligned, and high enough that a 32-bit address would be caught.
        let base = (number << 36) + 0x1008;
        self.regions.push(Region {
            pd,
            base,
            access,
            alive: true,
            data: vec![0; length],
        });
        ((number as u32) << 8, base)
    }

    fn find(&mut self, key: u32, pd: u32) -> Result<&mut Region, MemoryError> {
        let index = (key >> 8) as usize;
        let region = index.checked_sub(1).and_then(|i| self.regions.get_mut(i));
        match region {
            Some(region) if key & 0xff == 0 && region.alive && region.pd == pd => Ok(region),
            _ => Err(MemoryError::Key),
        }
    }

    /// The bytes `addr..addr + length` of the region `key`, if `access` is granted.
    pub fn span(
        &mut self,
        key: u32,
        pd: u32,
        addr: u64,
        length: u64,
        access: Access,
    ) -> Result<&mut [u8], MemoryError> {
        let region = self.find(key, pd)?;
        let start = addr.checked_sub(region.base).ok_or(MemoryError::Range)?;
        let end = start.checked_add(length).ok_or(MemoryError::Range)?;
        if end > region.data.len() as u64 {
            return Err(MemoryError::Range);
        }
        if !region.access.contains(access) {
            return Err(MemoryError::Access);
        }
        Ok(&mut region.data[start as usize..end as usize])
    }

    /// Bytes without any check of rights: what the program itself sees.
    pub fn peek(&mut self, key: u32, addr: u64, length: usize) -> &[u8] {
        let region = &self.regions[(key >> 8) as usize - 1];
        let start = (addr - region.base) as usize;
        &region.data[start..start + length]
    }

    /// Writes without any check of rights: what the program itself does.
    pub fn poke(&mut self, key: u32, addr: u64, bytes: &[u8]) {
        let region = &mut self.regions[(key >> 8) as usize - 1];
        let start = (addr - region.base) as usize;
        region.data[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Revokes a key.
    pub fn invalidate(&mut self, key: u32) -> Result<(), MemoryError> {
        self.find(key, PD).map(|region| region.alive = false)
    }

    /// Whether a key is still valid.
    pub fn is_alive(&self, key: u32) -> bool {
        self.regions[(key >> 8) as usize - 1].alive
    }

    /// Walks the part `offset..offset + length` of a list and calls `step` with each piece's bytes and its place in
    /// the part. All pieces are checked before the first call.
    pub fn walk(
        &mut self,
        sges: &[Sge],
        offset: u32,
        length: usize,
        access: Access,
        mut step: impl FnMut(&mut [u8], usize),
    ) -> Result<(), MemoryError> {
        for check in [true, false] {
            let (mut skip, mut at) = (u64::from(offset), 0);
            for sge in sges {
                let here = u64::from(sge.length)
                    .saturating_sub(skip)
                    .min((length - at) as u64);
                if here > 0 {
                    let addr = sge.addr + skip;
                    let bytes = self.span(sge.lkey, PD, addr, here, access)?;
                    if !check {
                        step(bytes, at);
                    }
                    at += here as usize;
                }
                skip = skip.saturating_sub(sge.length.into());
            }
            if at < length {
                return Err(MemoryError::Range);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_checked_without_wrapping() {
        let mut memory = Memory::default();
        let (key, base) = memory.add(PD, 64, Access::LOCAL_WRITE);
        assert!(memory.span(key, PD, base, 64, Access::LOCAL_WRITE).is_ok());
        assert_eq!(
            memory.span(key, PD, base + 1, 64, Access::empty()),
            Err(MemoryError::Range)
        );
        let wrap = memory.span(key, PD, base, u64::MAX, Access::empty());
        assert_eq!(wrap, Err(MemoryError::Range));
        assert_eq!(
            memory.span(key, 2, base, 1, Access::empty()),
            Err(MemoryError::Key)
        );
        let refused = memory.span(key, PD, base, 1, Access::REMOTE_READ);
        assert_eq!(refused, Err(MemoryError::Access));
    }

    #[test]
    fn a_list_is_walked_across_its_elements() {
        let mut memory = Memory::default();
        let (key, base) = memory.add(PD, 16, Access::LOCAL_WRITE);
        let sges = [
            Sge {
                addr: base + 8,
                length: 3,
                lkey: key,
            },
            Sge {
                addr: base,
                length: 4,
                lkey: key,
            },
        ];
        let data = [1, 2, 3, 4];
        memory
            .walk(&sges, 1, 4, Access::LOCAL_WRITE, |bytes, at| {
                bytes.copy_from_slice(&data[at..at + bytes.len()]);
            })
            .expect("in range");
        assert_eq!(
            memory.peek(key, base, 12),
            [3, 4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0]
        );
        let short = memory.walk(&sges, 4, 4, Access::empty(), |_, _| {});
        assert_eq!(short, Err(MemoryError::Range));
    }
}
