//! The labels that paths push onto packets.

use std::fmt;
use std::sync::Arc;
use wire::mpls::{IMPLICIT_NULL, StackEntry};

/// The time to live of a label for which none is configured.
pub const USUAL_TTL: u8 = 64;

/// The labels that an operator configures for a path (RFC 3031 3.10), the top label first. `None`: no labels.
pub type OutLabels = Option<Arc<Stated>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Stated {
    pub labels: Vec<u32>,
    /// Time to live and traffic class are copied from the packet inside, and back at the end (RFC 3443: uniform model;
    /// otherwise pipe model).
    pub is_uniform: bool,
    /// The time to live and the traffic class of labels in the pipe model.
    pub ttl: Option<u8>,
    pub traffic_class: Option<u8>,
}

impl Stated {
    /// The labels in the form that paths store; `None` when nothing is configured.
    pub fn shared(self) -> OutLabels {
        (self != Stated::default()).then(|| Arc::new(self))
    }

    /// The labels as they are pushed. When they replace another label, the last one copies that label's values.
    pub(crate) fn pushed(&self, is_swap: bool) -> Vec<OutLabel> {
        let (ttl, class) = (self.ttl.unwrap_or(USUAL_TTL), self.traffic_class.unwrap_or(0));
        let says_nothing = self.ttl.is_none() && self.traffic_class.is_none();
        let labels: Vec<u32> = self.labels.iter().copied().filter(|label| *label != IMPLICIT_NULL).collect();
        let last = labels.len().saturating_sub(1);
        let of = |(at, label)| OutLabel {
            entry: StackEntry::new(label, class, false, ttl),
            copies: self.is_uniform || is_swap && (at == last || says_nothing),
        };
        labels.into_iter().enumerate().map(of).collect()
    }
}

/// ` out-labels 17 18 uniform`, as in commands.
impl fmt::Display for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.labels.is_empty() {
            write!(f, " out-labels")?;
            self.labels.iter().try_for_each(|label| write!(f, " {label}"))?;
        }
        if self.is_uniform {
            write!(f, " uniform")?;
        }
        self.ttl.map_or(Ok(()), |ttl| write!(f, " ttl {ttl}"))?;
        self.traffic_class.map_or(Ok(()), |class| write!(f, " exp {class}"))
    }
}

/// A label that is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OutLabel {
    /// The label, with time to live and traffic class unless it copies those.
    pub entry: StackEntry,
    /// Whether it copies time to live and traffic class from below it.
    pub copies: bool,
}

/// Labels on top of others. A label that copies from a label with fixed values gets the same fixed values.
pub(crate) fn on_top(over: &[OutLabel], under: &[OutLabel]) -> Vec<OutLabel> {
    let mut all = [over, under].concat();
    for at in (1..all.len()).rev() {
        let below = all[at];
        let above = &mut all[at - 1];
        if above.copies && !below.copies {
            let entry = StackEntry::new(above.entry.label(), below.entry.traffic_class(), false, below.entry.ttl());
            *above = OutLabel { entry, copies: false };
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(labels: &[u32], is_uniform: bool, ttl: Option<u8>) -> Stated {
        Stated { labels: labels.to_vec(), is_uniform, ttl, traffic_class: None }
    }

    fn shown(labels: &[OutLabel]) -> Vec<(u32, Option<u8>)> {
        labels.iter().map(|label| (label.entry.label(), (!label.copies).then_some(label.entry.ttl()))).collect()
    }

    #[test]
    fn labels_copy_or_are_set() {
        assert_eq!(shown(&stated(&[17, 18], false, None).pushed(false)), [(17, Some(64)), (18, Some(64))]);
        assert_eq!(shown(&stated(&[17, 3], false, Some(9)).pushed(false)), [(17, Some(9))]);
        assert_eq!(shown(&stated(&[17, 18], true, None).pushed(false)), [(17, None), (18, None)]);
        // A swap passes on the old label's values.
        assert_eq!(shown(&stated(&[17, 18], false, None).pushed(true)), [(17, None), (18, None)]);
        assert_eq!(shown(&stated(&[17, 18], false, Some(9)).pushed(true)), [(17, Some(9)), (18, None)]);
        assert_eq!(shown(&stated(&[3], false, None).pushed(true)), []);
        assert_eq!(stated(&[17, 18], true, Some(9)).to_string(), " out-labels 17 18 uniform ttl 9");
        assert_eq!(Stated::default().shared(), None);
    }

    #[test]
    fn those_on_top_copy_what_is_below_them() {
        let (pipe, uniform) = (stated(&[1], false, Some(9)).pushed(false), stated(&[2], true, None).pushed(false));
        assert_eq!(shown(&on_top(&pipe, &uniform)), [(1, Some(9)), (2, None)]);
        assert_eq!(shown(&on_top(&uniform, &pipe)), [(2, Some(9)), (1, Some(9))]);
        assert_eq!(
            shown(&on_top(&[uniform.clone(), pipe].concat(), &uniform)),
            [(2, Some(9)), (1, Some(9)), (2, None)]
        );
        assert_eq!(shown(&on_top(&uniform, &uniform)), [(2, None), (2, None)]);
    }
}
