//! The table from VLAN tags to the sub-interfaces of one parent.
//!
//! Control changes it in place, a word at a time, while workers read it: a frame finds the sub-interface as it was
//! before or after the change. Tables of 4096 identifiers are split into chunks, which are allocated on first use and
//! stay until the parent is removed. So a sub-interface costs some hundred bytes, and no change copies entries of other
//! sub-interfaces.

use super::{Vid, VlanMatch};
use graph::InterfaceIndex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::ethernet::EtherType;
use wire::vlan::{MAX_VID, MIN_VID};

/// Identifiers in a chunk, and chunks of a table.
const CHUNK: usize = 64;
const CHUNKS: usize = 64;

/// The result of a lookup: a word with the sub-interface's index and what `ethernet-input` must know about it, or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found(u32);

impl Found {
    const NOTHING: Found = Found(0);
    const INDEX: u32 = 0xffff;
    /// It is administratively up.
    const UP: u32 = 1 << 16;
    /// It takes no frame with more tags than it matches.
    const EXACT: u32 = 1 << 17;
    /// Its Ethernet address is not its parent's.
    const OWN_MAC: u32 = 1 << 18;

    pub fn new(index: InterfaceIndex, takes: &VlanMatch, up: bool, own_mac: bool) -> Found {
        let exact = matches!(takes, VlanMatch::Tagged { exact: true, .. });
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        debug_assert!(index.0 <= Found::INDEX && index.0 != 0);
        Found(index.0 | bit(up, Found::UP) | bit(exact, Found::EXACT) | bit(own_mac, Found::OWN_MAC))
    }

    #[inline]
    pub fn index(self) -> InterfaceIndex {
        InterfaceIndex(self.0 & Found::INDEX)
    }
    #[inline]
    pub fn is_up(self) -> bool {
        self.0 & Found::UP != 0
    }
    #[inline]
    pub fn has_own_mac(self) -> bool {
        self.0 & Found::OWN_MAC != 0
    }
    fn is_exact(self) -> bool {
        self.0 & Found::EXACT != 0
    }
    /// None instead of [`Found::NOTHING`].
    fn some(self) -> Option<Found> {
        (self.0 != 0).then_some(self)
    }
}

#[derive(Debug, Default)]
struct Slot(AtomicU32);

impl Slot {
    #[inline]
    fn get(&self) -> Found {
        Found(self.0.load(Ordering::Relaxed))
    }
    fn set(&self, found: Found) {
        self.0.store(found.0, Ordering::Relaxed);
    }
}

/// A value for each VLAN identifier.
#[derive(Debug)]
struct Table<T>([OnceLock<Box<[T; CHUNK]>>; CHUNKS]);

impl<T: Default> Table<T> {
    fn new() -> Table<T> {
        Table(std::array::from_fn(|_| OnceLock::new()))
    }

    #[inline]
    fn get(&self, vid: u16) -> Option<&T> {
        let vid = vid as usize % (CHUNK * CHUNKS);
        self.0[vid / CHUNK].get().map(|chunk| &chunk[vid % CHUNK])
    }

    fn make(&self, vid: u16) -> &T {
        let vid = vid as usize % (CHUNK * CHUNKS);
        let chunk = self.0[vid / CHUNK].get_or_init(|| Box::new(std::array::from_fn(|_| T::default())));
        &chunk[vid % CHUNK]
    }
}

/// The sub-interfaces with one outer tag.
#[derive(Debug, Default)]
struct Behind {
    /// Those that match no inner tag.
    single: Slot,
    any_inner: Slot,
    inner: OnceLock<Box<Table<Slot>>>,
}

impl Behind {
    fn slot(&self, inner: Option<Vid>) -> &Slot {
        match inner {
            None => &self.single,
            Some(Vid::Any) => &self.any_inner,
            Some(Vid::Is(vid)) => self.inner.get_or_init(|| Box::new(Table::new())).make(vid),
        }
    }

    /// The most precise match for a frame with this inner tag, or without one.
    #[inline]
    fn find(&self, inner: Inner) -> Option<Found> {
        let single = self.single.get().some();
        match inner {
            Inner::None => single,
            // A type other than 802.1Q: no sub-interface can match such a tag.
            Inner::Other => single.filter(|found| !found.is_exact()),
            Inner::Vid(vid) => {
                let named = self.inner.get().and_then(|table| table.get(vid)).and_then(|slot| slot.get().some());
                let any = || self.any_inner.get().some().filter(|_| (MIN_VID..=MAX_VID).contains(&vid));
                named.or_else(any).or_else(|| single.filter(|found| !found.is_exact()))
            }
        }
    }
}

/// The inner tag of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    None,
    /// 802.1Q, with this identifier.
    Vid(u16),
    /// Of another type.
    Other,
}

/// The sub-interfaces of one parent.
#[derive(Debug)]
pub struct Demux {
    untagged: Slot,
    default: Slot,
    /// By type of the outer tag: 802.1Q, then 802.1ad; each by identifier, then for any identifier.
    types: [(Table<Behind>, Behind); 2],
}

impl Default for Demux {
    fn default() -> Demux {
        let of_type = || (Table::new(), Behind::default());
        Demux { untagged: Slot::default(), default: Slot::default(), types: [of_type(), of_type()] }
    }
}

impl Demux {
    fn of_type(&self, outer_type: EtherType) -> &(Table<Behind>, Behind) {
        &self.types[(outer_type == EtherType::QINQ) as usize]
    }

    fn slot(&self, takes: &VlanMatch) -> &Slot {
        match *takes {
            VlanMatch::Untagged => &self.untagged,
            VlanMatch::Default => &self.default,
            VlanMatch::Tagged { outer_type, outer, inner, .. } => {
                let (table, any) = self.of_type(outer_type);
                match outer {
                    Vid::Any => any.slot(inner),
                    Vid::Is(vid) => table.make(vid).slot(inner),
                }
            }
        }
    }

    /// Control: gives matching frames to a sub-interface from now on.
    pub fn set(&self, takes: &VlanMatch, found: Found) {
        self.slot(takes).set(found);
    }

    /// Control: the sub-interface that matches exactly the same frames. A less precise match of some of them is no
    /// conflict.
    pub fn who_takes(&self, takes: &VlanMatch) -> Option<InterfaceIndex> {
        self.slot(takes).get().some().map(Found::index)
    }

    /// Control: gives matching frames to no sub-interface from now on.
    pub fn clear(&self, takes: &VlanMatch) {
        self.slot(takes).set(Found::NOTHING);
    }

    /// The sub-interface that takes frames without a tag; none: they are the parent's own.
    #[inline]
    pub fn untagged(&self) -> Option<Found> {
        self.untagged.get().some()
    }

    /// The sub-interface of a frame with an outer tag that names a VLAN. A more precise match comes first.
    #[inline]
    pub fn tagged(&self, outer_type: EtherType, outer: u16, inner: Inner) -> Option<Found> {
        if !(MIN_VID..=MAX_VID).contains(&outer) {
            return None;
        }
        let (table, any) = self.of_type(outer_type);
        let named = table.get(outer).and_then(|behind| behind.find(inner));
        named.or_else(|| any.find(inner)).or_else(|| self.default.get().some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(text: (EtherType, Vid, Option<Vid>, bool)) -> VlanMatch {
        let (outer_type, outer, inner, exact) = text;
        VlanMatch::Tagged { outer_type, outer, inner, exact }
    }

    #[test]
    fn the_most_precise_one_takes_a_frame() {
        let (q, ad) = (EtherType::VLAN, EtherType::QINQ);
        let all = [
            takes((q, Vid::Is(10), None, true)),
            takes((q, Vid::Is(11), None, false)),
            takes((q, Vid::Is(11), Some(Vid::Is(5)), true)),
            takes((q, Vid::Is(12), Some(Vid::Any), true)),
            takes((ad, Vid::Is(10), Some(Vid::Is(5)), true)),
            takes((ad, Vid::Any, None, true)),
            takes((ad, Vid::Any, Some(Vid::Is(7)), true)),
            VlanMatch::Default,
            VlanMatch::Untagged,
        ];
        let demux = Demux::default();
        for (at, takes) in all.iter().enumerate() {
            demux.set(takes, Found::new(InterfaceIndex(at as u32 + 1), takes, true, false));
        }
        let default = 8;
        let cases = [
            (q, 10, Inner::None, 1),
            (q, 10, Inner::Vid(5), default), // exact: no frames with more tags
            (q, 10, Inner::Other, default),
            (q, 11, Inner::None, 2),
            (q, 11, Inner::Vid(5), 3),
            (q, 11, Inner::Vid(6), 2),
            (q, 11, Inner::Other, 2),
            (q, 12, Inner::Vid(9), 4),
            (q, 12, Inner::Vid(0), default), // names no VLAN
            (q, 12, Inner::None, default),
            (q, 13, Inner::None, default),
            (ad, 10, Inner::Vid(5), 5),
            (ad, 10, Inner::None, 6),
            (ad, 99, Inner::None, 6),
            (ad, 99, Inner::Vid(7), 7),
            (ad, 99, Inner::Vid(8), default),
        ];
        for (outer_type, outer, inner, expected) in cases {
            let found = demux.tagged(outer_type, outer, inner).map(|found| found.index().0);
            assert_eq!(found, Some(expected), "{outer_type} {outer} {inner:?}");
        }
        assert_eq!(demux.untagged().map(|found| found.index().0), Some(9));
        // Identifiers that are reserved or name no VLAN: no sub-interface takes these frames.
        assert_eq!((demux.tagged(q, 4095, Inner::None), demux.tagged(q, 0, Inner::None)), (None, None));
        for takes in &all {
            demux.clear(takes);
        }
        assert!(cases.iter().all(|(outer_type, outer, inner, _)| demux.tagged(*outer_type, *outer, *inner).is_none()));
        assert_eq!(demux.untagged(), None);
    }
}
