//! What completes the headers of midchains: lengths, identifiers, checksums, what is copied from the packet inside.

use graph::{Context, Vector};
use std::ops::Range;
use std::sync::OnceLock;

/// Completes the headers of a run of packets. `l3` of each is where its header begins; `length` counts from there on
/// (`l2` is the same). An IPv4 header that may be fragmented needs an identification of its own for each packet (RFC
/// 6864 4.3): give it one, or set DF. It must not change columns other than scratch, nor bytes outside of the header.
pub type FixUp = fn(&mut Context<'_>, &mut Vector, Range<usize>);

/// How many functions there can be.
pub const MAX_FIX_UPS: usize = 64;

/// A registered function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixUpNumber(u16);

/// All of them. They are added and never removed, so that workers read them without a lock.
pub struct FixUps([OnceLock<(&'static str, FixUp)>; MAX_FIX_UPS]);

impl Default for FixUps {
    fn default() -> FixUps {
        FixUps([const { OnceLock::new() }; MAX_FIX_UPS])
    }
}

impl FixUps {
    /// Registers a function; `None` when there are too many. `name` is for `show adj`.
    pub fn add(&self, name: &'static str, function: FixUp) -> Option<FixUpNumber> {
        let at = self.0.iter().position(|place| place.set((name, function)).is_ok())?;
        Some(FixUpNumber(at as u16))
    }

    pub fn name(&self, number: FixUpNumber) -> &'static str {
        self.0.get(usize::from(number.0)).and_then(OnceLock::get).map_or("none", |(name, _)| name)
    }

    /// The function of a midchain.
    pub fn get(&self, fix_up: u16) -> Option<FixUp> {
        let place = self.0.get(usize::from(fix_up).checked_sub(1)?)?;
        place.get().map(|(_, function)| *function)
    }
}

/// As midchains name it; 0 is none.
pub(crate) fn in_object(number: Option<FixUpNumber>) -> u16 {
    number.map_or(0, |number| number.0 + 1)
}
