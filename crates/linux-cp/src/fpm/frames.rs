//! Frames of the Forwarding Plane Manager's protocol (FRR's fpm/fpm.h): each has a header of four bytes, and messages
//! of netlink behind it.
//!
//! ```text
//!  version (1)  type (1: netlink)  length, header included, in network byte order
//! ```

/// The bytes of the header.
pub const HEADER: usize = 4;
/// The longest frame: its length has 16 bits.
pub const LONGEST: usize = u16::MAX as usize;
const VERSION: u8 = 1;
const NETLINK: u8 = 1;

/// What is no frame: nothing behind it can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoFrame;

/// The messages of the first frame of these bytes, and how long it is; none while it is not there as a whole.
///
/// # Errors
/// When there is no frame.
pub fn first(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, NoFrame> {
    let Some(&[version, kind, high, low]) = bytes.first_chunk() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if version != VERSION || kind != NETLINK || length < HEADER {
        return Err(NoFrame);
    }
    Ok(bytes.get(HEADER..length).map(|messages| (messages, length)))
}

/// A frame with these messages.
pub fn frame(messages: &[u8]) -> Vec<u8> {
    let length = (HEADER + messages.len()).min(LONGEST) as u16;
    let [high, low] = length.to_be_bytes();
    [&[VERSION, NETLINK, high, low], messages].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_where_their_headers_say() {
        let two = [frame(b"first"), frame(b"second")].concat();
        assert_eq!(first(&two), Ok(Some((&b"first"[..], 9))));
        assert_eq!(first(&two[9..]), Ok(Some((&b"second"[..], 10))));
        for end in 0..9 {
            assert_eq!(first(&two[..end]), Ok(None), "{end}");
        }
        assert_eq!(first(&frame(b"")), Ok(Some((&b""[..], 4))));
        for wrong in [[2, 1, 0, 9], [1, 2, 0, 9], [1, 1, 0, 3], [0, 0, 0, 0]] {
            assert_eq!(first(&wrong), Err(NoFrame), "{wrong:?}");
        }
    }
}
