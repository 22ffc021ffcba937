//! Which paths are ours, and what `libibverbs.so.1` says is there.
//!
//! The library is found in the process, or loaded from the directory of this one: most programs that look at files are no RDMA programs.

use crate::{real, working};
use ferriband_fork::Settled;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a directory of ours consists of.
const ROOTS: [&[u8]; 4] = [
    b"/sys/class/infiniband",
    b"/sys/class/infiniband_verbs",
    b"/sys/class/infiniband_mad",
    b"/dev/infiniband",
];
/// Links to follow in one path, as the kernel bounds them.
const MAX_LINKS: usize = 8;
/// The longest answer: a directory of a thousand devices.
const ANSWER_BYTES: usize = 64 << 10;
/// Begins the name of the memory file that stands for an open directory; its text is the directory's path.
pub const DIRECTORY_NAME: &CStr = c"ferriband-sysfs-directory";

/// Kind of what a name names: the letters of `ferriband_sysfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A symbolic link.
    Link,
    /// A character device.
    Device,
}

impl Kind {
    fn of(letter: u8) -> Result<Self, c_int> {
        match letter {
            b'd' => Ok(Kind::Directory),
            b'f' => Ok(Kind::File),
            b'l' => Ok(Kind::Link),
            b'c' => Ok(Kind::Device),
            _ => Err(libc::EIO),
        }
    }
}

/// What is at a path.
#[derive(Debug)]
pub enum Node {
    /// Names and their kinds, if they were asked for.
    Directory(Vec<(Kind, CString)>),
    /// The text, if it was asked for.
    File(Vec<u8>),
    /// The link's target.
    Link(CString),
    /// The device's number.
    Device(u64),
    /// Another file, of the file system: the path leads there through a link.
    Elsewhere(CString),
}

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// As `stat` does.
    Followed,
    /// As `lstat` does.
    Itself,
}

/// True if a descriptor of a directory of ours was ever given out here: only then are descriptors looked at.
static DIRECTORIES: AtomicBool = AtomicBool::new(false);

/// Remembers that there is one.
pub fn has_directories() {
    DIRECTORIES.store(true, Ordering::Relaxed);
}

/// The path that the program means, if it is one of ours; None is the usual answer, and quick.
///
/// # Safety
/// `path` is NULL or a string.
#[inline]
pub unsafe fn ours(directory: c_int, path: *const c_char) -> Option<CString> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(path) };
    if text.to_bytes().first() == Some(&b'/') {
        return is_ours(text.to_bytes()).then(|| text.to_owned());
    }
    if directory == libc::AT_FDCWD {
        return working::below(text);
    }
    let base = directory_path(directory)?;
    let joined =
        Path::new(OsStr::from_bytes(base.to_bytes())).join(OsStr::from_bytes(text.to_bytes()));
    CString::new(joined.into_os_string().into_encoded_bytes()).ok()
}

/// The same without a directory.
///
/// # Safety
/// `path` is NULL or a string.
#[inline]
pub unsafe fn ours_here(path: *const c_char) -> Option<CString> {
    // SAFETY: the caller's promise.
    unsafe { ours(libc::AT_FDCWD, path) }
}

/// True for what is, or would be, below a directory of ours, as far as its text says.
pub fn is_ours(path: &[u8]) -> bool {
    // nearly every path ends here
    if !path.starts_with(b"/sys/class/infiniband") && !path.starts_with(b"/dev/infiniband") {
        return false;
    }
    ROOTS.iter().any(|root| {
        path.strip_prefix(*root)
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    })
}

/// Without repeated slashes, `.` and `..`.
pub fn plain(path: &CStr) -> CString {
    let mut out = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(path.to_bytes())).components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    CString::new(out.into_os_string().into_encoded_bytes()).unwrap_or_else(|_| path.to_owned())
}

/// The path behind a descriptor that [`crate::files`] made for a directory.
pub fn directory_path(descriptor: c_int) -> Option<CString> {
    if descriptor < 0 || !DIRECTORIES.load(Ordering::Relaxed) {
        return None;
    }
    let saved = crate::errno();
    let path = read_directory_path(descriptor);
    crate::set_errno(saved);
    path
}

fn read_directory_path(descriptor: c_int) -> Option<CString> {
    // the kernel says what a memory file was called
    let link = CString::new(format!("/proc/self/fd/{descriptor}")).ok()?;
    let mut name = [0_u8; 64];
    // SAFETY: a string, and a buffer of the length that is said.
    let length = unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            libc::AT_FDCWD,
            link.as_ptr(),
            name.as_mut_ptr(),
            name.len(),
        )
    };
    let name = name.get(..usize::try_from(length).ok()?)?;
    let ours = name
        .strip_prefix(b"/memfd:")
        .is_some_and(|rest| rest.starts_with(DIRECTORY_NAME.to_bytes()));
    if !ours {
        return None;
    }
    let mut path = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: a buffer of the length that is said.
    let length = unsafe { libc::pread(descriptor, path.as_mut_ptr().cast(), path.len(), 0) };
    path.truncate(usize::try_from(length).ok()?);
    CString::new(path).ok()
}

/// What is at a path of ours, links followed as `last` says. A file's text or a directory's names come only `with_content`.
pub fn node(path: &CStr, last: Last, with_content: bool) -> Result<Node, c_int> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if !is_ours(path.to_bytes()) {
            return Ok(Node::Elsewhere(path));
        }
        match one_step(&path, with_content)? {
            Step::There(node) => return Ok(node),
            // it leads out by `..`; or the library is one that knows no such tree
            Step::NotOurs => {
                let path = plain(&path);
                return if is_ours(path.to_bytes()) {
                    Err(libc::ENOENT)
                } else {
                    Ok(Node::Elsewhere(path))
                };
            }
            Step::Link { target, below } => {
                // a slash behind a link means what it points at
                let itself = below.as_os_str().is_empty() && !path.to_bytes().ends_with(b"/");
                let target = if itself { target } else { target.join(below) };
                let target = CString::new(target.into_os_string().into_encoded_bytes())
                    .map_err(|_| libc::EINVAL)?;
                if itself && last == Last::Itself {
                    return Ok(Node::Link(target));
                }
                path = target;
            }
        }
    }
    Err(libc::ELOOP)
}

/// What is at a path of ours, and its path without links at its end, repeated slashes, `.` and `..`.
pub fn settled(path: &CStr) -> Result<(CString, Node), c_int> {
    let mut path = path.to_owned();
    // no link of ours points at another, so this ends
    while let Node::Link(target) = node(&path, Last::Itself, false)? {
        path = target;
    }
    let node = node(&path, Last::Followed, false)?;
    Ok((plain(&path), node))
}

enum Step {
    There(Node),
    NotOurs,
    Link { target: PathBuf, below: PathBuf },
}

fn one_step(path: &CStr, with_content: bool) -> Result<Step, c_int> {
    let question = question().ok_or(libc::ENOENT)?;
    let mut buffer = vec![0_u8; ANSWER_BYTES];
    // SAFETY: a string, and a buffer of the length that is said.
    let length = unsafe {
        question(
            path.as_ptr(),
            c_int::from(with_content),
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    };
    let length = match usize::try_from(length) {
        Ok(length) => length,
        Err(_) if -length as c_int == libc::ENXIO => return Ok(Step::NotOurs),
        Err(_) => return Err(-length as c_int),
    };
    let (letter, content) = buffer
        .get(..length)
        .and_then(|answer| answer.split_first())
        .ok_or(libc::EIO)?;
    Ok(match Kind::of(*letter)? {
        Kind::Directory => Step::There(Node::Directory(
            content
                .split_inclusive(|&byte| byte == 0)
                .map(|entry| {
                    let (letter, name) = entry.split_first().ok_or(libc::EIO)?;
                    let name = CStr::from_bytes_with_nul(name).map_err(|_| libc::EIO)?;
                    Ok((Kind::of(*letter)?, name.to_owned()))
                })
                .collect::<Result<_, c_int>>()?,
        )),
        // a trailing slash says that it should be a directory
        Kind::File | Kind::Device if path.to_bytes().ends_with(b"/") => return Err(libc::ENOTDIR),
        Kind::File => Step::There(Node::File(content.to_vec())),
        Kind::Link => {
            let mut parts = content.split(|&byte| byte == 0);
            let mut part = || PathBuf::from(OsStr::from_bytes(parts.next().unwrap_or_default()));
            Step::Link {
                target: part(),
                below: part(),
            }
        }
        Kind::Device => Step::There(Node::Device(
            std::str::from_utf8(content)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or(libc::EIO)?,
        )),
    })
}

type Question = unsafe extern "C" fn(*const c_char, c_int, *mut u8, usize) -> isize;

/// The private function of `libibverbs.so.1`; None if there is none that has it.
fn question() -> Option<Question> {
    static FOUND: Settled<Option<Question>> = Settled::new();
    *FOUND.get_or_init(|| {
        let found = private(c"ferriband_sysfs")?;
        // SAFETY: the function of this name has this type, by agreement with `abi/verbs/src/sysfs.rs`.
        Some(unsafe { std::mem::transmute::<*mut c_void, Question>(found) })
    })
}

/// A function of `libibverbs.so.1` that is for us alone; None if there is none of this name.
pub fn private(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a string.
    let mut found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        let handle = load()?;
        // SAFETY: the handle was just given, the name is a string.
        found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    }
    (!found.is_null()).then_some(found)
}

/// Loads the `libibverbs.so.1` that lies beside this library. A program that has it already gets the same one.
fn load() -> Option<*mut c_void> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: an address in this library, and room for the answer.
    let known = unsafe { libc::dladdr(load as *const c_void, info.as_mut_ptr()) };
    if known == 0 {
        return None;
    }
    // SAFETY: the call filled it, and zeros are valid too.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own string, which lives as long as this library.
    let file = unsafe { CStr::from_ptr(info.dli_fname) };
    let file = Path::new(OsStr::from_bytes(file.to_bytes()));
    let beside = file.with_file_name("libibverbs.so.1");
    let beside = CString::new(beside.into_os_string().into_encoded_bytes()).ok()?;
    // SAFETY: a string; the library's constructors do nothing but what any program's start does.
    let handle = unsafe { libc::dlopen(beside.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!handle.is_null()).then_some(handle)
}

/// Calls the C library's `realpath` on a path of the file system.
///
/// # Safety
/// `resolved` is NULL or has room for `PATH_MAX` bytes.
pub unsafe fn real_path(path: &CStr, resolved: *mut c_char) -> *mut c_char {
    real::call!(std::ptr::null_mut(), fn realpath(path.as_ptr() => *const c_char, resolved => *mut c_char) -> *mut c_char)
}
