//! Application memory that a peer can map: found here, mapped there.
//!
//! Owns: recognising that a range lies in one shared, file-backed mapping whose file can be opened again, and the peer's
//! mapping of it. Must not know: regions and keys.
//!
//! *Truncation.* The file is the application's. If a program shrinks it while a peer writes, the peer gets SIGBUS, which
//! no check here can rule out unless the file is a memfd with F_SEAL_SHRINK ([`SharedMapping::sealed`] says so).
//! The size is verified when mapping.
//!
//! *Not found*, so the range is treated as private: shared anonymous memory (no name to open it by), files whose
//! device number in /proc/self/maps differs from that of stat (btrfs subvolumes), files that were deleted and closed.

use crate::Error;
use crate::segment::{Access, Segment, Span};
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;

/// Mappings that one range may consist of; a range of more pieces is treated as private.
const MAX_PIECES: usize = 1024;

/// How a peer reaches the memory.
#[derive(Debug)]
pub enum Backing {
    /// A file: send the descriptor (SCM_RIGHTS).
    File(OwnedFd),
    /// A System V segment: send the identifier. It is valid in the same IPC namespace only.
    SysV(i32),
}

/// A range of our memory that a peer can map.
#[derive(Debug)]
pub struct SharedMapping {
    /// The file or System V segment.
    pub backing: Backing,
    /// Where in it the range starts, in bytes.
    pub offset: u64,
    /// Our mapping allows loads.
    pub readable: bool,
    /// Our mapping allows stores, and so does the descriptor.
    pub writable: bool,
    /// The file cannot shrink: a peer's access can never be SIGBUS.
    pub sealed: bool,
}

impl SharedMapping {
    /// Looks at the `len` bytes at `addr` of this process. None for anything that a peer cannot map: private memory
    /// (the common case: one system call beside opening and closing /proc/self/maps, where the kernel has
    /// PROCMAP_QUERY, Linux 6.11), ranges with holes, ranges over several files.
    pub fn detect(addr: u64, len: u64) -> Option<SharedMapping> {
        let maps = std::fs::File::open("/proc/self/maps").ok()?;
        let area = match covering(addr, len, |at| query(&maps, at, None)) {
            Ok(area) => {
                let mut area = area?;
                // The name costs a walk of the file system: only where something shared was found.
                let mut name = [0; libc::PATH_MAX as usize];
                area.name = query(&maps, addr, Some(&mut name)).ok().flatten()?.name;
                area
            }
            Err(Unsupported) => Self::detect_in_text(addr, len)?,
        };
        reopen(&area, addr)
    }

    /// The way of kernels without PROCMAP_QUERY.
    fn detect_in_text(addr: u64, len: u64) -> Option<Area> {
        let areas = areas_in_text();
        let lookup = |at| Ok(areas.iter().find(|a| a.contains(at)).cloned());
        covering(addr, len, lookup).ok().flatten()
    }
}

/// Finds the range in segments that are known to be ours (device memory, rings): index of the segment and offset in it.
pub fn find_known<'a>(
    addr: u64,
    len: u64,
    segments: impl IntoIterator<Item = &'a Segment>,
) -> Option<(usize, u64)> {
    segments
        .into_iter()
        .enumerate()
        .find_map(|(index, segment)| {
            let offset = addr.checked_sub(segment.base_addr())?;
            let left = (segment.len() as u64).checked_sub(offset)?;
            (len <= left).then_some((index, offset))
        })
}

/// The peer's side: a range of another process's shared memory, mapped here; unmapped on drop. It dereferences to the
/// [`Span`] of the whole pages, in which the range begins at [`PeerMapping::start`].
#[derive(Debug)]
pub struct PeerMapping {
    span: Span,
    start: usize,
    len: usize,
}

impl std::ops::Deref for PeerMapping {
    type Target = Span;

    #[inline(always)]
    fn deref(&self) -> &Span {
        &self.span
    }
}

impl PeerMapping {
    /// Maps `len` bytes from `offset` of a file.
    ///
    /// # Errors
    /// `TooSmall` if the file ends before; `Invalid` for a length of 0, an overflow, or something that is no regular
    /// file; `System` or `OutOfMemory` from mmap.
    pub fn map_file(
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        writable: bool,
    ) -> Result<PeerMapping, Error> {
        let stat =
            rustix::fs::fstat(fd).map_err(|e| Error::from_errno("fstat", e.raw_os_error(), 0))?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(Error::Invalid {
                what: "the descriptor is no regular file",
            });
        }
        check_range(offset, len, stat.st_size as u64)?;
        let page = page_bytes(fd);
        let start = (offset % page) as usize;
        let mapped = (start + len).next_multiple_of(page as usize);
        let mut prot = ProtFlags::READ;
        prot.set(ProtFlags::WRITE, writable);
        let at = offset - start as u64;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), mapped, prot, MapFlags::SHARED, fd, at)
        }
        .map_err(|e| Error::from_errno("mmap", e.raw_os_error(), len))?;
        let base = NonNull::new(base.cast()).expect("mmap never gives address 0 unless asked");
        // SAFETY: just mapped with these rights, ours; the module's text says what truncation does.
        let span = unsafe { Span::from_raw(base, mapped, access(writable)) };
        Ok(PeerMapping { span, start, len })
    }

    /// Maps a System V segment, of which the range of `len` bytes at `offset` is meant.
    ///
    /// # Errors
    /// As for [`PeerMapping::map_file`]; `System` with EINVAL or EIDRM if the segment is gone.
    pub fn map_sysv(
        shmid: i32,
        offset: u64,
        len: usize,
        writable: bool,
    ) -> Result<PeerMapping, Error> {
        let bytes = sysv_bytes(shmid).map_err(|errno| Error::from_errno("shmctl", errno, 0))?;
        check_range(offset, len, bytes)?;
        let flags = if writable { 0 } else { libc::SHM_RDONLY };
        // SAFETY: attaches at an address of the kernel's choice, which touches nothing that exists.
        let base = unsafe { libc::shmat(shmid, std::ptr::null(), flags) };
        let Some(base) =
            NonNull::new(base.cast::<u8>()).filter(|b| b.as_ptr().addr() != usize::MAX)
        else {
            let errno = std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EINVAL);
            return Err(Error::from_errno("shmat", errno, len));
        };
        // SAFETY: just attached with these rights, ours; System V segments cannot shrink.
        let span = unsafe { Span::from_attached(base, bytes as usize, access(writable)) };
        Ok(PeerMapping {
            span,
            start: offset as usize,
            len,
        })
    }

    /// The offset in the span at which the range begins.
    #[inline(always)]
    pub fn start(&self) -> usize {
        self.start
    }

    /// The length of the range in bytes.
    #[inline(always)]
    pub fn range_len(&self) -> usize {
        self.len
    }

    /// The address of the range in this process.
    #[inline(always)]
    pub fn addr(&self) -> u64 {
        self.span.base_addr() + self.start as u64
    }
}

/// One line of /proc/self/maps, or several that continue each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) start: u64,
    pub(crate) end: u64,
    offset: u64,
    device: u64,
    inode: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    shared: bool,
    name: Vec<u8>,
}

impl Area {
    pub(crate) fn contains(&self, at: u64) -> bool {
        self.start <= at && at < self.end
    }

    /// A file's, shared or private; also what the kernel keeps like a file (shared anonymous memory, System V).
    pub(crate) fn is_file(&self) -> bool {
        self.shared || self.device != 0 || self.inode != 0
    }

    /// Shared mappings always have a file. Its inode may be 0: the first System V segment's is.
    fn is_shared(&self) -> bool {
        self.shared
    }
}

/// The kernel has no PROCMAP_QUERY.
#[derive(Debug)]
pub(crate) struct Unsupported;

/// Joins the areas that `lookup` finds from `addr` on, if they are one stretch of one shared file.
fn covering(
    addr: u64,
    len: u64,
    mut lookup: impl FnMut(u64) -> Result<Option<Area>, Unsupported>,
) -> Result<Option<Area>, Unsupported> {
    let Some(end) = addr.checked_add(len).filter(|_| len != 0) else {
        return Ok(None);
    };
    let Some(mut area) = lookup(addr)?.filter(Area::is_shared) else {
        return Ok(None);
    };
    for _ in 0..MAX_PIECES {
        if area.end >= end {
            return Ok(Some(area));
        }
        let Some(next) = lookup(area.end)?.filter(Area::is_shared) else {
            return Ok(None);
        };
        let continues = next.start == area.end
            && (next.device, next.inode) == (area.device, area.inode)
            && next.offset == area.offset + (area.end - area.start);
        if !continues {
            return Ok(None);
        }
        area.end = next.end;
        area.readable &= next.readable;
        area.writable &= next.writable;
    }
    Ok(None)
}

/// `struct procmap_query` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const _: () = assert!(size_of::<ProcmapQuery>() == 104);

/// _IOWR('f', 17, struct procmap_query)
const PROCMAP_QUERY: libc::Ioctl = (3 << 30 | 104 << 16 | 0x66 << 8 | 17) as libc::Ioctl;
const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;
const VMA_SHARED: u64 = 8;

/// The area that holds `at`, by ioctl; with its name if there is room for one.
pub(crate) fn query(
    maps: &std::fs::File,
    at: u64,
    name: Option<&mut [u8]>,
) -> Result<Option<Area>, Unsupported> {
    let mut q = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_addr: at,
        ..Default::default()
    };
    let mut name = name;
    if let Some(name) = &mut name {
        q.vma_name_addr = name.as_mut_ptr().expose_provenance() as u64;
        q.vma_name_size = name.len() as u32;
    }
    // SAFETY: `q` is the structure that this request reads and writes; the name's buffer has the size it says.
    if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut q) } != 0 {
        return match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOTTY | libc::EINVAL | libc::EPERM | libc::ENOSYS) => Err(Unsupported),
            _ => Ok(None),
        };
    }
    // The size includes the NUL; without a name it is 0.
    let name = name.map_or(&[][..], |name| {
        &name[..(q.vma_name_size as usize).saturating_sub(1)]
    });
    Ok(Some(Area {
        start: q.vma_start,
        end: q.vma_end,
        offset: q.vma_offset,
        device: libc::makedev(q.dev_major, q.dev_minor),
        inode: q.inode,
        readable: q.vma_flags & VMA_READABLE != 0,
        writable: q.vma_flags & VMA_WRITABLE != 0,
        shared: q.vma_flags & VMA_SHARED != 0,
        name: name.to_vec(),
    }))
}

/// All areas of this process, ascending; none without /proc.
pub(crate) fn areas_in_text() -> Vec<Area> {
    let text = std::fs::read("/proc/self/maps").unwrap_or_default();
    text.split(|&b| b == b'\n').filter_map(parse_line).collect()
}

/// Reads `start-end rwxs offset major:minor inode name`; None for a line of another shape.
fn parse_line(line: &[u8]) -> Option<Area> {
    // The name is the only field that may hold spaces, or bytes that are no text.
    let mut rest = line;
    let mut field = || {
        let begin = rest.iter().position(|&b| b != b' ')?;
        let end = rest[begin..]
            .iter()
            .position(|&b| b == b' ')
            .map_or(rest.len(), |n| begin + n);
        let field = std::str::from_utf8(&rest[begin..end]).ok()?;
        rest = &rest[end..];
        Some(field)
    };
    let hex = |s: &str| u64::from_str_radix(s, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    let rights = field()?.as_bytes();
    let offset = hex(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    let name = rest
        .iter()
        .position(|&b| b != b' ')
        .map_or(&[][..], |n| &rest[n..]);
    Some(Area {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        device: libc::makedev(hex(major)? as u32, hex(minor)? as u32),
        inode,
        readable: rights.first() == Some(&b'r'),
        writable: rights.get(1) == Some(&b'w'),
        shared: rights.get(3) == Some(&b's'),
        name: unescape(name),
    })
}

/// Undoes the one escape of /proc/self/maps: a newline in a name is `\012`.
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, tail)) = rest.split_first() {
        match rest.strip_prefix(b"\\012") {
            Some(after) => {
                out.push(b'\n');
                rest = after;
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

/// Finds a way to the file of `area`; `addr` is the range's start.
fn reopen(area: &Area, addr: u64) -> Option<SharedMapping> {
    let offset = area.offset + (addr - area.start);
    let readable = area.readable;
    if let Some(fd) = open_descriptor(area).or_else(|| open_path(area)) {
        let writable = area.writable && is_read_write(fd.as_fd());
        let seals = rustix::fs::fcntl_get_seals(&fd);
        let sealed = seals.is_ok_and(|s| s.contains(rustix::fs::SealFlags::SHRINK));
        return Some(SharedMapping {
            backing: Backing::File(fd),
            offset,
            readable,
            writable,
            sealed,
        });
    }
    let shmid = sysv_id(area)?;
    let backing = Backing::SysV(shmid);
    Some(SharedMapping {
        backing,
        offset,
        readable,
        writable: area.writable,
        sealed: true,
    })
}

/// A duplicate of a descriptor of ours that refers to the file, for reading and writing if there is one such.
fn open_descriptor(area: &Area) -> Option<OwnedFd> {
    let mut found = None;
    for entry in std::fs::read_dir("/proc/self/fd").ok()? {
        let Some(number) = entry
            .ok()
            .and_then(|e| e.file_name().to_str()?.parse::<i32>().ok())
        else {
            continue;
        };
        if !is_same_file(number, area) {
            continue;
        }
        // SAFETY: duplicates a number; if another thread closed it since, that fails, or the check below does.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            continue;
        }
        // SAFETY: just made, ours.
        let copy = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(copy) };
        if !is_same_file(copy.as_raw_fd(), area) {
            continue;
        }
        if is_read_write(copy.as_fd()) {
            return Some(copy);
        }
        found = Some(copy);
    }
    // Only read-only (or write-only, or O_PATH) ones: the file itself may allow more.
    let found = found?;
    open_again(found.as_fd(), area).or_else(|| can_read(found.as_fd()).then_some(found))
}

/// The file by its name, if that still leads to it.
fn open_path(area: &Area) -> Option<OwnedFd> {
    if !area.name.starts_with(b"/") {
        return None;
    }
    // O_PATH has no side effects, whatever lies there now.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let path = rustix::fs::open(OsStr::from_bytes(&area.name), flags, Mode::empty()).ok()?;
    if !is_same_file(path.as_raw_fd(), area) {
        return None;
    }
    open_again(path.as_fd(), area)
}

/// A new description of the same file: for reading and writing, or for reading.
fn open_again(fd: BorrowedFd<'_>, area: &Area) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let open = |mode| rustix::fs::open(path.as_str(), mode | OFlags::CLOEXEC, Mode::empty());
    let fd = open(OFlags::RDWR).or_else(|_| open(OFlags::RDONLY)).ok()?;
    is_same_file(fd.as_raw_fd(), area).then_some(fd)
}

fn is_same_file(number: i32, area: &Area) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fills the structure, or fails for a number that is no descriptor.
    if unsafe { libc::fstat(number, stat.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: filled.
    let stat = unsafe { stat.assume_init() };
    stat.st_dev == area.device
        && stat.st_ino == area.inode
        && stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

fn access_mode(fd: BorrowedFd<'_>) -> Option<OFlags> {
    let flags = rustix::fs::fcntl_getfl(fd).ok()?;
    (!flags.contains(OFlags::PATH)).then_some(flags & OFlags::RWMODE)
}

fn is_read_write(fd: BorrowedFd<'_>) -> bool {
    access_mode(fd) == Some(OFlags::RDWR)
}

fn can_read(fd: BorrowedFd<'_>) -> bool {
    matches!(access_mode(fd), Some(OFlags::RDWR | OFlags::RDONLY))
}

/// The identifier of a System V segment: the kernel names its mapping `/SYSV` and the key in hex, and gives the file
/// the identifier as its inode.
fn sysv_id(area: &Area) -> Option<i32> {
    let key = area
        .name
        .strip_prefix(b"/SYSV")?
        .strip_suffix(b" (deleted)")?;
    let is_key = key.len() == 8 && key.iter().all(u8::is_ascii_hexdigit);
    let shmid = i32::try_from(area.inode).ok().filter(|_| is_key)?;
    let mapped = area.offset + (area.end - area.start);
    let bytes = sysv_bytes(shmid).ok()?;
    (bytes.next_multiple_of(rustix::param::page_size() as u64) >= mapped).then_some(shmid)
}

/// The size of a System V segment, or errno.
fn sysv_bytes(shmid: i32) -> Result<u64, i32> {
    let mut stat = std::mem::MaybeUninit::<libc::shmid_ds>::uninit();
    // SAFETY: fills the structure, or fails.
    if unsafe { libc::shmctl(shmid, libc::IPC_STAT, stat.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINVAL));
    }
    // SAFETY: filled.
    Ok(unsafe { stat.assume_init() }.shm_segsz as u64)
}

/// What an offset into the file must be a multiple of.
fn page_bytes(fd: BorrowedFd<'_>) -> u64 {
    const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
    match rustix::fs::fstatfs(fd) {
        Ok(fs) if fs.f_type as u64 & 0xffff_ffff == HUGETLBFS_MAGIC => fs.f_bsize as u64,
        _ => rustix::param::page_size() as u64,
    }
}

fn check_range(offset: u64, len: usize, bytes: u64) -> Result<(), Error> {
    let end = offset
        .checked_add(len as u64)
        .filter(|&end| len != 0 && end <= i64::MAX as u64);
    match end {
        None => Err(Error::Invalid {
            what: "range to map",
        }),
        Some(end) if end > bytes => Err(Error::TooSmall {
            expected: end as usize,
            got: bytes as usize,
        }),
        Some(_) => Ok(()),
    }
}

fn access(writable: bool) -> Access {
    if writable {
        Access::ReadWrite
    } else {
        Access::ReadOnly
    }
}

#[cfg(test)]
pub(crate) mod tests;
