//! Directory streams: `opendir`, `readdir` and theirs, `scandir`.
//!
//! A stream of ours is told from one of the C library's by its address, in a list that is empty in nearly every program.

use crate::ask::{self, Kind, Last, Node, node, ours_here};
use crate::files::open_ours;
use crate::status::inode;
use crate::{answer, real};
use ferriband_fork::Table;
use ferriband_sanitizer::Inside;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `opendir` gives: the program must not look into it.
type Dir = c_void;

struct Stream {
    path: CString,
    descriptor: c_int,
    entries: Vec<(Kind, CString)>,
    next: usize,
    /// What the last `readdir` gave.
    entry: Box<libc::dirent>,
}

/// Streams of ours that are open, by the address that the program has. A forked child goes on with its copies.
static OPEN: Table<Vec<(usize, Stream)>> = Table::new(Vec::new());
/// How many there are: 0 needs no look at the list.
static COUNT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn before_fork() {
    OPEN.hold();
}

extern "C" fn after_fork() {
    OPEN.release(|_| {});
}

ferriband_fork::at_fork!(Some(before_fork), Some(after_fork), Some(after_fork));

/// Looks at the stream if it is one of ours.
fn with<T>(dir: *mut Dir, look: impl FnOnce(&mut Stream) -> T) -> Option<T> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let _inside = Inside::enter();
    let mut streams = OPEN.lock();
    let (_, stream) = streams
        .iter_mut()
        .find(|(address, _)| *address == dir as usize)?;
    Some(look(stream))
}

/// The names in a directory of ours, with `.` and `..`.
fn names(path: &CStr) -> Result<Vec<(Kind, CString)>, c_int> {
    match node(path, Last::Followed, true)? {
        Node::Directory(entries) => {
            let dots = [c".", c".."].map(|name| (Kind::Directory, name.to_owned()));
            Ok(dots.into_iter().chain(entries).collect())
        }
        _ => Err(libc::ENOTDIR),
    }
}

fn entry_of(path: &CStr, index: usize, (kind, name): &(Kind, CString)) -> Box<libc::dirent> {
    // SAFETY: zeros are a valid entry.
    let mut entry: Box<libc::dirent> = Box::new(unsafe { std::mem::zeroed() });
    let full = [path.to_bytes(), b"/", name.to_bytes()].concat();
    entry.d_ino = CString::new(full).map_or(0, |full| inode(&full));
    entry.d_off = index as i64 + 1;
    entry.d_reclen = size_of::<libc::dirent>() as u16;
    entry.d_type = match kind {
        Kind::Directory => libc::DT_DIR,
        Kind::File => libc::DT_REG,
        Kind::Link => libc::DT_LNK,
        Kind::Device => libc::DT_CHR,
    };
    let room = entry.d_name.len() - 1;
    for (slot, byte) in entry
        .d_name
        .iter_mut()
        .zip(name.to_bytes().iter().take(room))
    {
        *slot = *byte as c_char;
    }
    entry
}

/// A stream over a directory of ours, whose descriptor becomes the stream's.
fn stream(path: CString, descriptor: c_int) -> Result<*mut Dir, c_int> {
    let entries = names(&path)?;
    // SAFETY: zeros are a valid entry.
    let entry: Box<libc::dirent> = Box::new(unsafe { std::mem::zeroed() });
    let address = std::ptr::from_ref(&*entry) as usize;
    let stream = Stream {
        path,
        descriptor,
        entries,
        next: 0,
        entry,
    };
    OPEN.lock().push((address, stream));
    COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(address as *mut Dir)
}

/// `opendir`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut Dir {
    let nothing = std::ptr::null_mut();
    let real_opendir =
        |path: *const c_char| real::call!(nothing, fn opendir(path => *const c_char) -> *mut Dir);
    // SAFETY: the caller's promise.
    let Some(path) = (unsafe { ours_here(path) }) else {
        return real_opendir(path);
    };
    answer(nothing, || {
        if let Node::Elsewhere(path) = node(&path, Last::Followed, false)? {
            return Ok(real_opendir(path.as_ptr()));
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let descriptor = open_ours(&path, flags, 0)?;
        stream(path, descriptor)
    })
}

/// `fdopendir`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopendir(descriptor: c_int) -> *mut Dir {
    let nothing = std::ptr::null_mut();
    match ask::directory_path(descriptor) {
        None => real::call!(nothing, fn fdopendir(descriptor => c_int) -> *mut Dir),
        Some(path) => answer(nothing, || stream(path, descriptor)),
    }
}

/// `closedir`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(dir: *mut Dir) -> c_int {
    let own = (COUNT.load(Ordering::Relaxed) > 0)
        .then(|| {
            let _inside = Inside::enter();
            let mut streams = OPEN.lock();
            let place = streams
                .iter()
                .position(|(address, _)| *address == dir as usize)?;
            Some(streams.swap_remove(place).1)
        })
        .flatten();
    let Some(stream) = own else {
        return real::call!(-1, fn closedir(dir => *mut Dir) -> c_int);
    };
    COUNT.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: the descriptor was the stream's.
    unsafe { libc::close(stream.descriptor) }
}

fn next(stream: &mut Stream) -> *mut libc::dirent {
    let Some(found) = stream.entries.get(stream.next) else {
        return std::ptr::null_mut();
    };
    *stream.entry = *entry_of(&stream.path, stream.next, found);
    stream.next += 1;
    &raw mut *stream.entry
}

macro_rules! reads {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(dir: *mut Dir) -> *mut libc::dirent {
            match with(dir, next) {
                Some(entry) => entry,
                None => real::call!(std::ptr::null_mut(), fn $name(dir => *mut Dir) -> *mut libc::dirent),
            }
        }
    )*};
}

reads! {
    /// `readdir`.
    readdir;
    /// `readdir64`, whose entries are the same on 64-bit systems.
    readdir64;
}

macro_rules! reads_into {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(dir: *mut Dir, entry: *mut libc::dirent, result: *mut *mut libc::dirent) -> c_int {
            let Some(found) = with(dir, next) else {
                return real::call!(
                    libc::EBADF,
                    fn $name(dir => *mut Dir, entry => *mut libc::dirent, result => *mut *mut libc::dirent) -> c_int
                );
            };
            let given = if found.is_null() { found } else { entry };
            if !found.is_null() {
                // SAFETY: the stream's entry, and the caller's promise.
                unsafe { found.copy_to_nonoverlapping(entry, 1) };
            }
            // SAFETY: the caller's promise.
            unsafe { result.write(given) };
            0
        }
    )*};
}

reads_into! {
    /// `readdir_r`.
    readdir_r;
    /// `readdir64_r`.
    readdir64_r;
}

/// `rewinddir`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rewinddir(dir: *mut Dir) {
    if with(dir, |stream| stream.next = 0).is_none() {
        real::call!((), fn rewinddir(dir => *mut Dir) -> ());
    }
}

/// `telldir`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn telldir(dir: *mut Dir) -> c_long {
    match with(dir, |stream| stream.next as c_long) {
        Some(place) => place,
        None => real::call!(-1, fn telldir(dir => *mut Dir) -> c_long),
    }
}

/// `seekdir`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seekdir(dir: *mut Dir, place: c_long) {
    let go = |stream: &mut Stream| stream.next = usize::try_from(place).unwrap_or(usize::MAX);
    if with(dir, go).is_none() {
        real::call!((), fn seekdir(dir => *mut Dir, place => c_long) -> ());
    }
}

/// `dirfd`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dirfd(dir: *mut Dir) -> c_int {
    match with(dir, |stream| stream.descriptor) {
        Some(descriptor) => descriptor,
        None => real::call!(-1, fn dirfd(dir => *mut Dir) -> c_int),
    }
}

type Filter = Option<unsafe extern "C" fn(*const libc::dirent) -> c_int>;
type Compare =
    Option<unsafe extern "C" fn(*mut *const libc::dirent, *mut *const libc::dirent) -> c_int>;

/// An entry that the program frees with the C library's free; null without memory.
fn allocated(entry: &libc::dirent) -> *mut libc::dirent {
    // SAFETY: an allocation of the entry's size.
    let copy: *mut libc::dirent = unsafe { libc::malloc(size_of::<libc::dirent>()) }.cast();
    if !copy.is_null() {
        // SAFETY: the room was just allocated.
        unsafe { copy.write(*entry) };
    }
    copy
}

/// # Safety
/// As of `scandir`.
unsafe fn scan(
    path: &CStr,
    list: *mut *mut *mut libc::dirent,
    filter: Filter,
    compare: Compare,
) -> Result<c_int, c_int> {
    let mut chosen = Vec::new();
    for (index, found) in names(path)?.iter().enumerate() {
        let entry = entry_of(path, index, found);
        // SAFETY: the program's function, with an entry that lives through the call.
        if filter.is_none_or(|filter| unsafe { filter(&raw const *entry) } != 0) {
            chosen.push(allocated(&entry));
        }
    }
    let bytes = size_of::<*mut libc::dirent>() * chosen.len().max(1);
    // SAFETY: an allocation, which the program frees.
    let array: *mut *mut libc::dirent = unsafe { libc::malloc(bytes) }.cast();
    if array.is_null() || chosen.iter().any(|entry| entry.is_null()) {
        for entry in chosen {
            // SAFETY: NULL or an allocation of ours.
            unsafe { libc::free(entry.cast()) };
        }
        // SAFETY: NULL or an allocation of ours.
        unsafe { libc::free(array.cast()) };
        return Err(libc::ENOMEM);
    }
    // SAFETY: the array has room for all.
    unsafe { chosen.as_ptr().copy_to_nonoverlapping(array, chosen.len()) };
    if let Some(compare) = compare {
        // SAFETY: both take two pointers to elements, which are pointers to entries.
        let compare = unsafe {
            std::mem::transmute::<
                unsafe extern "C" fn(*mut *const libc::dirent, *mut *const libc::dirent) -> c_int,
                unsafe extern "C" fn(*const c_void, *const c_void) -> c_int,
            >(compare)
        };
        let each = size_of::<*mut libc::dirent>();
        // SAFETY: an array of that many elements of that size.
        unsafe { libc::qsort(array.cast(), chosen.len(), each, Some(compare)) };
    }
    // SAFETY: the caller's promise.
    unsafe { list.write(array) };
    Ok(chosen.len() as c_int)
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            path: *const c_char,
            list: *mut *mut *mut libc::dirent,
            filter: Filter,
            compare: Compare,
        ) -> c_int {
            let on_disk = |path: *const c_char| {
                real::call!(
                    -1,
                    fn $name(path => *const c_char, list => *mut *mut *mut libc::dirent, filter => Filter, compare => Compare) -> c_int
                )
            };
            // SAFETY: the caller's promise.
            let Some(path) = (unsafe { ours_here(path) }) else {
                return on_disk(path);
            };
            answer(-1, || match node(&path, Last::Followed, false)? {
                Node::Elsewhere(path) => Ok(on_disk(path.as_ptr())),
                // SAFETY: the caller's promise.
                _ => unsafe { scan(&path, list, filter, compare) },
            })
        }
    )*};
}

scans! {
    /// `scandir`.
    scandir;
    /// `scandir64`.
    scandir64;
}
