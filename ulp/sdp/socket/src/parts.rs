//! The parts of a message of a program's, as lists of addresses and lengths.
//!
//! Owns: cutting them. Must not know: what lies there.

/// Bytes of all.
pub(crate) fn length(parts: &[libc::iovec]) -> u64 {
    let lengths = parts.iter().map(|part| part.iov_len as u64);
    lengths.fold(0, u64::saturating_add)
}

/// The parts of so many bytes.
pub(crate) fn ahead(parts: &[libc::iovec], mut bytes: u64) -> Vec<libc::iovec> {
    let mut cut = Vec::with_capacity(parts.len());
    for part in parts {
        let length = bytes.min(part.iov_len as u64);
        bytes -= length;
        cut.push(libc::iovec {
            iov_len: length as usize,
            ..*part
        });
        if bytes == 0 {
            break;
        }
    }
    cut
}

/// The parts behind so many bytes.
pub(crate) fn behind(parts: &[libc::iovec], mut skip: u64) -> Vec<libc::iovec> {
    let mut rest = Vec::with_capacity(parts.len());
    for part in parts {
        let cut = skip.min(part.iov_len as u64) as usize;
        skip -= cut as u64;
        if cut < part.iov_len {
            rest.push(libc::iovec {
                iov_base: part.iov_base.wrapping_byte_add(cut),
                iov_len: part.iov_len - cut,
            });
        }
    }
    rest
}

/// The parts of so many bytes behind others, and how many these are.
pub(crate) fn window(parts: &[libc::iovec], skip: u64, bytes: u64) -> (Vec<libc::iovec>, u64) {
    let window = ahead(&behind(parts, skip), bytes);
    let bytes = length(&window);
    (window, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_the_bytes_that_were_asked_for() {
        let text = [b"abc".as_slice(), b"", b"defgh", b"i"];
        let parts = text.map(|part| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        });
        let all: Vec<_> = text.concat();
        for skip in 0..=10 {
            for bytes in 0..=10 {
                let (window, length) = window(&parts, skip, bytes);
                let from = skip.min(9) as usize;
                let to = (skip + bytes).min(9) as usize;
                let read = window.iter().flat_map(|part| {
                    // SAFETY: a piece of the texts.
                    unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) }
                });
                assert_eq!(read.copied().collect::<Vec<_>>(), all[from..to.max(from)]);
                assert_eq!(length, (to.max(from) - from) as u64);
            }
        }
    }
}
