//! Watching links: a wire that is pulled out takes its routes with it, and brings them back.
//!
//! Devices are asked in turn: at first often, after something changed, then less and less, once a
//! second in the end. So an idle router rests, and a link that flaps costs at most one change of
//! its routes for each look.

use crate::Router;
use crate::notice::Notice;
use graph::InterfaceIndex;
use std::time::{Duration, Instant};

/// Between two looks: at first, and at rest.
const SOON: Duration = Duration::from_millis(10);
const REST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct LinkWatch {
    due: Option<Instant>,
    pause: Duration,
}

impl Default for LinkWatch {
    fn default() -> LinkWatch {
        LinkWatch { due: None, pause: REST }
    }
}

impl LinkWatch {
    /// Something is about to change: look soon.
    pub fn poll_soon(&mut self, now: Instant) {
        self.pause = SOON;
        self.due = Some(now + SOON);
    }

    /// When [`Router::tick`] has something to do here.
    pub fn next_due(&self) -> Option<Instant> {
        self.due
    }
}

impl Router {
    /// Looks at links when it is time to.
    pub(crate) fn tick_links(&mut self, now: Instant) {
        if self.links.due.is_none_or(|due| now < due) {
            return;
        }
        let has_changed = self.check_links();
        let pause = if has_changed { SOON } else { (self.links.pause * 2).min(REST) };
        // Nobody uses a device that is administratively down, or that has no wire.
        let is_watched = self.interfaces.iter().any(|interface| interface.admin_up && interface.has_wire());
        self.links.pause = pause;
        self.links.due = is_watched.then(|| now + pause);
    }

    /// Looks at all links now, and brings routes in line with them; whether one had changed.
    pub fn check_links(&mut self) -> bool {
        let changed: Vec<(InterfaceIndex, bool)> = self
            .interfaces
            .iter()
            .map(|interface| (interface, interface.link.is_up()))
            .filter(|(interface, up)| interface.link_is_up != *up)
            .map(|(interface, up)| (interface.index, up))
            .collect();
        changed.iter().for_each(|(index, up)| self.operation(|router| router.set_link(*index, *up)));
        !changed.is_empty()
    }

    fn set_link(&mut self, index: InterfaceIndex, up: bool) {
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        interface.link_is_up = up;
        match up {
            true => log::info!("{}: link is up", interface.name),
            false => log::warn!("{}: link is down", interface.name),
        }
        let is_used = interface.admin_up;
        self.say(Notice::LinkState { interface: index, up });
        if !is_used {
            return;
        }
        let mut states = self.state_changed(index);
        // Itself first, which is set up all the while.
        states[0].1 = up;
        self.publish_facts();
        self.settle(&states);
    }
}
