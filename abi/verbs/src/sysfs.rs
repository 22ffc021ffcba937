//! The files that the kernel would show for a device under /sys, for programs that read them through this library.
//!
//! Our devices have no kernel part. Their files are made up here from what the adapter knows; every other
//! path is read from the file system as it is.

use crate::boundary::{Failure, MinusOne, Negated, entry, try_entry};
use std::ffi::{CStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tree::{Kind, Node};

mod tree;

/// Where programs find the tree: the environment is not asked, so that a stray variable cannot hide a device.
const ROOT: &CStr = c"/sys";

/// `ibv_get_sysfs_path`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    ROOT.as_ptr()
}

/// `ibv_read_sysfs_file`: the text of a file without its final newline, terminated; its length, or -1.
///
/// # Safety
/// `dir` and `file` are NULL or strings, and `buffer` is writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { path(dir, file) }?;
        let text = match of_ours(&path) {
            Some(text) => text?.into_bytes(),
            None => {
                std::fs::read(&path).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?
            }
        };
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        if buffer.is_null() || text.len() >= size {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise, and the text with its NUL fits.
        unsafe {
            text.as_ptr()
                .cast::<c_char>()
                .copy_to_nonoverlapping(buffer, text.len())
        };
        // SAFETY: as above.
        unsafe { buffer.add(text.len()).write(0) };
        Ok(MinusOne(text.len() as c_int))
    })
    .0
}

/// A directory and a file in it as a path.
///
/// # Safety
/// The pointers are NULL or strings.
unsafe fn path(dir: *const c_char, file: *const c_char) -> Result<PathBuf, i32> {
    let part = |pointer: *const c_char| {
        if pointer.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(pointer) };
        Ok(Path::new(std::ffi::OsStr::from_bytes(text.to_bytes())))
    };
    Ok(part(dir)?.join(part(file)?))
}

/// The text of a file of one of our devices; None if the path is not one of ours.
fn of_ours(path: &Path) -> Option<Result<String, i32>> {
    tree::find(path).map(|found| match found? {
        Node::File(text) => text(),
        Node::Directory(_) => Err(libc::EISDIR),
        Node::Link { target, below } => std::fs::read_to_string(target.join(below))
            .map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)),
        Node::Device(..) => Err(libc::ENXIO),
    })
}

/// What `ferriband_sysfs` is asked for.
const WITH_CONTENT: c_int = 1;

/// What lies at a path, for the library that shows these files to programs which do not ask us (`abi/sysfs`). Private: node
/// FERRIBAND_PRIVATE_1.
///
/// The answer's first byte is its kind: `d`, `f`, `l` or `c`. With `WITH_CONTENT` the content follows: of a directory each name with its kind
/// before it and a NUL behind it, of a file the text. Of a link its target follows always, a NUL, and what came after the link in `path`; of a
/// device its number as `makedev` makes it, in decimal digits. The result is the answer's length or a negative errno: ENXIO if the path is not
/// one of ours, ERANGE if the answer is longer than `size`.
///
/// # Safety
/// `path` is a string, and `buffer` is writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_sysfs(
    path: *const c_char,
    asked: c_int,
    buffer: *mut u8,
    size: usize,
) -> isize {
    entry(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { CStr::from_ptr(path) };
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let answer = match describe(path, asked == WITH_CONTENT) {
            Ok(answer) if answer.len() > size => return Negated::failure(libc::ERANGE),
            Ok(answer) => answer,
            Err(errno) => return Negated::failure(errno),
        };
        // SAFETY: the caller's promise, and the answer fits.
        unsafe { answer.as_ptr().copy_to_nonoverlapping(buffer, answer.len()) };
        Negated(answer.len() as isize)
    })
    .0
}

fn describe(path: &Path, with_content: bool) -> Result<Vec<u8>, i32> {
    let letter = |kind| match kind {
        Kind::Directory => b'd',
        Kind::File => b'f',
        Kind::Link => b'l',
        Kind::Device => b'c',
    };
    let node = tree::find(path).ok_or(libc::ENXIO)??;
    let mut answer = Vec::new();
    match node {
        Node::Directory(entries) => {
            answer.push(letter(Kind::Directory));
            for (kind, name) in entries.into_iter().filter(|_| with_content) {
                answer.push(letter(kind));
                answer.extend(name.bytes());
                answer.push(0);
            }
        }
        Node::File(text) => {
            answer.push(letter(Kind::File));
            if with_content {
                answer.extend(text()?.bytes());
                answer.push(b'\n');
            }
        }
        Node::Link { target, below } => {
            answer.push(letter(Kind::Link));
            answer.extend(target.as_os_str().as_bytes());
            answer.push(0);
            answer.extend(below.as_os_str().as_bytes());
        }
        Node::Device(major, minor) => {
            answer.push(letter(Kind::Device));
            answer.extend(libc::makedev(major, minor).to_string().bytes());
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads into a buffer of 64 bytes of which `size` are offered.
    fn read(dir: &CStr, file: &CStr, size: usize) -> Result<String, i32> {
        let mut buffer = [0 as c_char; 64];
        let start = buffer.as_mut_ptr();
        // SAFETY: strings and a live buffer.
        let length = unsafe { ibv_read_sysfs_file(dir.as_ptr(), file.as_ptr(), start, size) };
        if length < 0 {
            return Err(crate::boundary::errno());
        }
        // SAFETY: the function terminated the text.
        let text = unsafe { CStr::from_ptr(start) };
        assert_eq!(text.count_bytes(), length as usize);
        Ok(text.to_str().expect("text").to_owned())
    }

    #[test]
    fn other_paths_are_read_from_the_file_system() {
        let name = read(c"/proc/self", c"comm", 64).expect("every process has a name");
        assert!(!name.is_empty() && !name.ends_with('\n'));
        assert_eq!(
            read(c"/proc/self", c"comm", name.len()),
            Err(libc::EINVAL),
            "no room for the NUL"
        );
        assert_eq!(read(c"/nowhere", c"at-all", 64), Err(libc::ENOENT));
    }
}
