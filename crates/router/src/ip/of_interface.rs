//! Routes by an interface that goes.

use super::control::Source;
use crate::Router;
use graph::InterfaceIndex;

impl Router {
    /// Takes every path that names an interface off the operators' routes.
    pub(crate) fn remove_paths_of(&mut self, gone: InterfaceIndex) {
        let mut behind = None;
        loop {
            let lists = self.ip.some_lists_by(gone, behind);
            behind = lists.last().copied();
            if behind.is_none() {
                return;
            }
            // Those on the link go with the paths that insist on them.
            let routes = self.routes_of(gone, lists).into_iter().filter(|(_, _, source, _)| *source != Source::OnLink);
            for (table, prefix, source, paths) in routes {
                self.breathe();
                if let Err(error) = self.remove_route_in(table, prefix, source, &paths) {
                    log::error!("route {prefix} is not up to date: {error}");
                }
            }
        }
    }
}
