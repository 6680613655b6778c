//! What a router does with the options of an IPv4 header (RFC 791 3.1, RFC 1812 5.2.4 and 5.3.13): it checks them once,
//! and records its address and the time if the sender asks for that.

use crate::addr::Ipv4Address;
use crate::ipv4::{HEADER_LEN, Ipv4Option, OptionError, Options};

/// Offsets in an option: its pointer, the data of a record route, and the data of a timestamp.
const POINTER: usize = 2;
const ROUTE_DATA: usize = 3;
const TIMES_DATA: usize = 4;
const ADDRESS: usize = 4;
const TIME: usize = 4;

/// What a timestamp option asks for (RFC 791 3.1).
mod timestamp {
    pub const TIMES: u8 = 0;
    pub const ADDRESSES_TOO: u8 = 1;
    /// Only the routers with addresses that the sender listed.
    pub const PRESPECIFIED: u8 = 3;
    pub const MOST_OVERFLOWS: u8 = 15;
}

/// What is wrong with the options of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The header ends after the type of an option.
    LengthMissing,
    /// A length less than that of type, length and the option's minimum.
    LengthTooSmall,
    BeyondHeader,
    /// A pointer to the option's own type, length or pointer.
    PointerTooSmall,
    /// Some room is left, but not enough for a whole entry.
    RoomTooSmall,
    /// Record route and timestamp are allowed once.
    Twice,
    /// More routers could not record the time than the counter can hold.
    Overflow,
}

/// What valid options ask of a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// To record its address or the time, or to count that there was no room.
    pub record: bool,
    /// There is a loose or strict source route.
    pub source_route: bool,
}

/// Checks the options of a header: the bytes behind its first 20.
///
/// # Errors
/// What is wrong, and the offset in the header for ICMP's parameter problem.
pub fn examine(options: &[u8]) -> Result<Request, (Fault, u8)> {
    let mut request = Request::default();
    let (mut has_route, mut has_times) = (false, false);
    let mut at = 0;
    for option in Options::new(options) {
        let place = |offset: usize| (HEADER_LEN + at + offset) as u8;
        let option = option.map_err(|error| match error {
            OptionError::LengthMissing { .. } => (Fault::LengthMissing, place(0)),
            OptionError::LengthTooSmall { .. } => (Fault::LengthTooSmall, place(1)),
            OptionError::BeyondHeader { .. } => (Fault::BeyondHeader, place(1)),
        })?;
        let length = if option.kind == Ipv4Option::NO_OPERATION { 1 } else { 2 + option.data.len() };
        let checked = match option.kind {
            Ipv4Option::RECORD_ROUTE if has_route => Err((Fault::Twice, 0)),
            Ipv4Option::TIMESTAMP if has_times => Err((Fault::Twice, 0)),
            Ipv4Option::RECORD_ROUTE => {
                has_route = true;
                room(&options[at..at + length], ROUTE_DATA, ADDRESS).map(|_| request.record = true)
            }
            Ipv4Option::TIMESTAMP => {
                has_times = true;
                times(&options[at..at + length]).map(|()| request.record = true)
            }
            Ipv4Option::LOOSE_SOURCE_ROUTE | Ipv4Option::STRICT_SOURCE_ROUTE => {
                request.source_route = true;
                room(&options[at..at + length], ROUTE_DATA, ADDRESS).map(|_| ())
            }
            _ => Ok(()),
        };
        checked.map_err(|(fault, offset)| (fault, place(offset)))?;
        at += length;
    }
    Ok(request)
}

/// Where the next entry of an option goes; none when the option is full. The error: what is wrong, and at which byte of
/// the option.
fn room(option: &[u8], data: usize, entry: usize) -> Result<Option<usize>, (Fault, usize)> {
    if option.len() < data {
        return Err((Fault::LengthTooSmall, 1));
    }
    // The pointer counts from 1.
    let Some(next) = usize::from(option[POINTER]).checked_sub(1).filter(|next| *next >= data) else {
        return Err((Fault::PointerTooSmall, POINTER));
    };
    if next >= option.len() {
        return Ok(None);
    }
    if next + entry > option.len() { Err((Fault::RoomTooSmall, POINTER)) } else { Ok(Some(next)) }
}

fn times(option: &[u8]) -> Result<(), (Fault, usize)> {
    let entry = match option.get(3).map(|byte| byte & 0xf) {
        Some(timestamp::ADDRESSES_TOO | timestamp::PRESPECIFIED) => ADDRESS + TIME,
        // Other flags are unknown: nothing is recorded for them.
        _ => TIME,
    };
    let is_full = room(option, TIMES_DATA, entry)?.is_none();
    // Routers without room are counted for these two only.
    let is_counted = matches!(option[3] & 0xf, timestamp::TIMES | timestamp::ADDRESSES_TOO);
    if is_full && is_counted && option[3] >> 4 == timestamp::MOST_OVERFLOWS {
        Err((Fault::Overflow, 3))
    } else {
        Ok(())
    }
}

/// Records in options that [`examine`] accepted: the address by which a packet leaves, and the time in milliseconds
/// since midnight UT. `is_ours` recognises the addresses of this router.
pub fn record(options: &mut [u8], address: Ipv4Address, milliseconds: u32, is_ours: impl Fn(Ipv4Address) -> bool) {
    let mut at = 0;
    while let Some(&kind) = options.get(at).filter(|kind| **kind != Ipv4Option::END_OF_LIST) {
        if kind == Ipv4Option::NO_OPERATION {
            at += 1;
            continue;
        }
        let Some(length) = options.get(at + 1).map(|length| usize::from(*length)).filter(|length| *length >= 2) else {
            return;
        };
        let Some(option) = options.get_mut(at..at + length) else { return };
        match kind {
            Ipv4Option::RECORD_ROUTE => {
                if let Ok(Some(next)) = room(option, ROUTE_DATA, ADDRESS) {
                    option[next..next + ADDRESS].copy_from_slice(&address.octets());
                    option[POINTER] += ADDRESS as u8;
                }
            }
            Ipv4Option::TIMESTAMP => record_time(option, address, milliseconds, &is_ours),
            _ => {}
        }
        at += length;
    }
}

fn record_time(option: &mut [u8], address: Ipv4Address, milliseconds: u32, is_ours: impl Fn(Ipv4Address) -> bool) {
    let Some(asked) = option.get(3).map(|byte| byte & 0xf) else { return };
    let entry = match asked {
        timestamp::TIMES => TIME,
        timestamp::ADDRESSES_TOO | timestamp::PRESPECIFIED => ADDRESS + TIME,
        _ => return,
    };
    let next = match room(option, TIMES_DATA, entry) {
        Ok(Some(next)) => next,
        Ok(None) if asked != timestamp::PRESPECIFIED && option[3] >> 4 < timestamp::MOST_OVERFLOWS => {
            option[3] += 0x10;
            return;
        }
        _ => return,
    };
    match asked {
        timestamp::ADDRESSES_TOO => option[next..next + ADDRESS].copy_from_slice(&address.octets()),
        timestamp::PRESPECIFIED => {
            let [a, b, c, d] = [option[next], option[next + 1], option[next + 2], option[next + 3]];
            if !is_ours(Ipv4Address::new(a, b, c, d)) {
                return;
            }
        }
        _ => {}
    }
    option[next + entry - TIME..next + entry].copy_from_slice(&milliseconds.to_be_bytes());
    option[POINTER] += entry as u8;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: Ipv4Address = Ipv4Address::new(192, 0, 2, 1);

    fn recorded(options: &[u8]) -> Vec<u8> {
        let mut options = options.to_vec();
        record(&mut options, US, 0x0102_0304, |address| address == US);
        options
    }

    #[test]
    fn each_malformation_has_its_name_and_place() {
        let cases: &[(&[u8], Fault, u8)] = &[
            (&[1, 1, 1, 7], Fault::LengthMissing, 23),
            (&[7, 1, 4, 0], Fault::LengthTooSmall, 21),
            (&[99, 0, 0, 0], Fault::LengthTooSmall, 21),
            (&[7, 2, 1, 1], Fault::LengthTooSmall, 21),
            (&[68, 3, 5, 0], Fault::LengthTooSmall, 21),
            (&[1, 99, 9, 0], Fault::BeyondHeader, 22),
            (&[7, 7, 3, 0, 0, 0, 0, 0], Fault::PointerTooSmall, 22),
            (&[131, 7, 0, 0, 0, 0, 0, 0], Fault::PointerTooSmall, 22),
            (&[68, 8, 4, 0, 0, 0, 0, 0], Fault::PointerTooSmall, 22),
            (&[1, 7, 7, 5, 0, 0, 0, 0], Fault::RoomTooSmall, 23),
            (&[68, 8, 5, 1, 0, 0, 0, 0], Fault::RoomTooSmall, 22),
            (&[7, 3, 4, 7, 3, 4, 1, 1], Fault::Twice, 23),
            (&[68, 4, 5, 0, 68, 4, 5, 0], Fault::Twice, 24),
            (&[68, 4, 5, 0xf0], Fault::Overflow, 23),
        ];
        for (options, fault, at) in cases {
            assert_eq!(examine(options), Err((*fault, *at)), "{options:?}");
        }
    }

    #[test]
    fn sound_options_say_what_they_ask_for() {
        let (record, source_route) = (Request { record: true, ..Request::default() }, true);
        assert_eq!(examine(&[]), Ok(Request::default()));
        assert_eq!(examine(&[148, 4, 0, 0, 99, 2, 0, 7]), Ok(Request::default()));
        assert_eq!(examine(&[1, 7, 3, 4]), Ok(record));
        assert_eq!(examine(&[68, 4, 5, 0xe0]), Ok(record));
        assert_eq!(examine(&[137, 7, 8, 10, 0, 0, 1, 0]), Ok(Request { source_route, ..Request::default() }));
        assert_eq!(examine(&[131, 3, 4, 7, 3, 4, 0, 0]), Ok(Request { source_route, ..record }));
    }

    #[test]
    fn the_next_free_place_is_written() {
        assert_eq!(recorded(&[1, 7, 7, 4, 0, 0, 0, 0]), [1, 7, 7, 8, 192, 0, 2, 1]);
        assert_eq!(recorded(&[1, 7, 7, 8, 9, 9, 9, 9]), [1, 7, 7, 8, 9, 9, 9, 9], "it is full");
        assert_eq!(recorded(&[68, 8, 5, 0, 0, 0, 0, 0]), [68, 8, 9, 0, 1, 2, 3, 4]);
        assert_eq!(recorded(&[68, 8, 9, 0x20, 7, 7, 7, 7]), [68, 8, 9, 0x30, 7, 7, 7, 7], "one more without room");
        assert_eq!(recorded(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]), [68, 12, 13, 1, 192, 0, 2, 1, 1, 2, 3, 4]);
        assert_eq!(recorded(&[68, 12, 5, 3, 192, 0, 2, 1, 0, 0, 0, 0]), [68, 12, 13, 3, 192, 0, 2, 1, 1, 2, 3, 4]);
        let of_another = [68, 12, 5, 3, 192, 0, 2, 9, 0, 0, 0, 0];
        assert_eq!(recorded(&of_another), of_another);
        let full_of_others = [68, 12, 13, 3, 192, 0, 2, 9, 0, 0, 0, 0];
        assert_eq!(recorded(&full_of_others), full_of_others, "who is not named is not missed");
        let both = recorded(&[68, 8, 5, 0, 0, 0, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0]);
        assert_eq!(both, [68, 8, 9, 0, 1, 2, 3, 4, 7, 7, 8, 192, 0, 2, 1, 0]);
    }

    /// The same by a plain walk with indices, following RFC 791.
    fn oracle(options: &[u8]) -> Result<(), ()> {
        let (mut at, mut seen) = (0, [false; 256]);
        while at < options.len() && options[at] != 0 {
            let kind = options[at];
            if kind == 1 {
                at += 1;
                continue;
            }
            if at + 1 >= options.len() {
                return Err(());
            }
            let length = options[at + 1] as usize;
            if length < 2 || at + length > options.len() {
                return Err(());
            }
            if [7, 68].contains(&kind) && std::mem::replace(&mut seen[kind as usize], true) {
                return Err(());
            }
            if [7, 68, 131, 137].contains(&kind) {
                let first = if kind == 68 { 5 } else { 4 };
                if length + 1 < first || (options[at + 2] as usize) < first {
                    return Err(());
                }
                let entry = if kind == 68 && [1, 3].contains(&(options[at + 3] & 15)) { 8 } else { 4 };
                let pointer = options[at + 2] as usize;
                if pointer <= length && pointer + entry - 1 > length {
                    return Err(());
                }
                if kind == 68 && pointer > length && options[at + 3] >> 4 == 15 && options[at + 3] & 15 < 2 {
                    return Err(());
                }
            }
            at += length;
        }
        Ok(())
    }

    /// Mostly options that are almost valid: random bytes hardly get past the first byte.
    fn any_options() -> impl Strategy<Value = Vec<u8>> {
        let kind = prop::sample::select(vec![0u8, 1, 7, 68, 131, 137, 148, 99]);
        let option = (kind, 0u8..14, 0u8..14, any::<u8>(), prop::collection::vec(any::<u8>(), 0..9)).prop_map(
            |(kind, length, pointer, flags, rest)| [vec![kind, length, pointer, flags & 0xf3], rest].concat(),
        );
        prop::collection::vec(option, 0..4).prop_map(|parts| {
            let mut bytes = parts.concat();
            bytes.truncate(40);
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn any_bytes_are_judged_as_by_a_plain_walk(bytes in any_options()) {
            prop_assert_eq!(examine(&bytes).is_ok(), oracle(&bytes).is_ok());
        }

        #[test]
        fn recording_keeps_sound_options_sound_and_touches_no_others(bytes in any_options()) {
            let after = recorded(&bytes);
            prop_assert_eq!(after.len(), bytes.len());
            match examine(&bytes) {
                Ok(request) if !request.record => prop_assert_eq!(&after, &bytes),
                // Valid options stay valid, unless the overflow counter has reached its end.
                Ok(_) => prop_assert!(matches!(
                    examine(&after),
                    Ok(_) | Err((Fault::Overflow | Fault::RoomTooSmall, _))
                )),
                Err((_, at)) => prop_assert!((20..20 + bytes.len()).contains(&at.into())),
            }
        }
    }
}
