//! Neighbours as Linux says them (linux/neighbour.h: `struct ndmsg` and its attributes).

use super::message::{Attributes, Malformed, u16_at, u32_at};
use super::route::{AF_INET, AF_INET6, NotFollowed, address};
use std::net::IpAddr;
use wire::MacAddress;

pub const NEW: u16 = 28;
pub const DELETE: u16 = 29;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

const STATE_REACHABLE: u16 = 0x02;
const STATE_PERMANENT: u16 = 0x80;
/// It is no neighbour: the router answers for it.
const FLAG_PROXY: u8 = 0x08;

/// How Linux has a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// An operator or a daemon set it.
    Permanent(MacAddress),
    /// It answered just now.
    Reachable(MacAddress),
    /// Anything else: of no use to the router, which has its own state of it.
    Other,
}

/// A neighbour on an interface of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    pub link: u32,
    pub address: IpAddr,
    pub standing: Standing,
}

/// Reads the payload of a message of type [`NEW`] or [`DELETE`].
///
/// # Errors
/// When it is about no neighbour with an address of a link.
pub fn parse(payload: &[u8]) -> Result<Neighbour, NotFollowed> {
    let (header, attributes) = payload.split_at_checked(12).ok_or(Malformed)?;
    if !matches!(header[0], AF_INET | AF_INET6) || header[10] & FLAG_PROXY != 0 {
        return Err(NotFollowed::Other);
    }
    let (link, state) = (u32_at(header, 4).ok_or(Malformed)?, u16_at(header, 8).ok_or(Malformed)?);
    let (mut of, mut mac) = (None, None);
    for attribute in Attributes(attributes) {
        match attribute? {
            (NDA_DST, value) => of = address(value),
            (NDA_LLADDR, value) => mac = <[u8; 6]>::try_from(value).ok().map(MacAddress),
            _ => {}
        }
    }
    let address = of.filter(|of| of.is_ipv4() == (header[0] == AF_INET)).ok_or(Malformed)?;
    let standing = match mac.filter(|mac| !mac.is_zero() && !mac.is_multicast()) {
        Some(mac) if state & STATE_PERMANENT != 0 => Standing::Permanent(mac),
        Some(mac) if state & STATE_REACHABLE != 0 => Standing::Reachable(mac),
        _ => Standing::Other,
    };
    Ok(Neighbour { link, address, standing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_sure_is_taken() {
        let neighbour = |state: u16, flags: u8, mac: &[u8]| {
            let header = [&[2, 0, 0, 0, 7, 0, 0, 0][..], &state.to_ne_bytes(), &[flags, 1]].concat();
            let address = [&8u16.to_ne_bytes()[..], &NDA_DST.to_ne_bytes(), &[192, 0, 2, 9]].concat();
            let length = (4 + mac.len()) as u16;
            let mac = [&length.to_ne_bytes()[..], &NDA_LLADDR.to_ne_bytes(), mac, &[0, 0]].concat();
            parse(&[header, address, mac].concat())
        };
        let mac = [2, 0, 0, 0, 0, 9];
        let is = |standing| Ok(Neighbour { link: 7, address: "192.0.2.9".parse().unwrap(), standing });
        assert_eq!(neighbour(0x80, 0, &mac), is(Standing::Permanent(MacAddress(mac))));
        assert_eq!(neighbour(0x02, 0, &mac), is(Standing::Reachable(MacAddress(mac))));
        assert_eq!(neighbour(0x04, 0, &mac), is(Standing::Other), "stale");
        assert_eq!(neighbour(0x80, 0, &[0; 6]), is(Standing::Other), "no address");
        assert_eq!(neighbour(0x80, 0x08, &mac), Err(NotFollowed::Other), "a proxy");
        assert_eq!(parse(&[2; 11]), Err(NotFollowed::Malformed));
    }
}
