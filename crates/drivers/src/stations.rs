//! Which frames an interface of the host is asked for (packet(7), `PACKET_ADD_MEMBERSHIP`).

use crate::{StationFilter, socket_option};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;
use wire::MacAddress;

/// A kind of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    Station(MacAddress),
    Groups,
    All,
}

/// What an interface is asked for by a packet socket.
pub(crate) struct Stations {
    socket: Arc<OwnedFd>,
    /// The interface's index.
    interface: u32,
    /// What the socket asks for now; the kernel forgets it with the socket.
    memberships: Vec<Membership>,
}

impl Stations {
    pub fn new(socket: Arc<OwnedFd>, interface: u32) -> Stations {
        Stations { socket, interface, memberships: Vec::new() }
    }

    /// Asks for these frames, and those for groups. The kernel takes care of NICs that filter fewer addresses than
    /// they are given; of an interface that takes none at all everything is asked for.
    ///
    /// # Errors
    /// When the system refuses: it brings what it did.
    pub fn set(&mut self, filter: &StationFilter) -> io::Result<()> {
        let stations = filter.stations.iter().copied().map(Membership::Station);
        let mut wanted: Vec<Membership> = std::iter::once(Membership::Groups).chain(stations).collect();
        wanted.extend(filter.promiscuous.then_some(Membership::All));
        match self.ask_for(wanted) {
            Err(_) if !filter.promiscuous => self.ask_for(vec![Membership::Groups, Membership::All]),
            outcome => outcome,
        }
    }

    fn change(&self, option: i32, membership: Membership) -> io::Result<()> {
        let (kind, address) = match membership {
            Membership::Station(mac) => (libc::PACKET_MR_UNICAST, Some(mac)),
            Membership::Groups => (libc::PACKET_MR_ALLMULTI, None),
            Membership::All => (libc::PACKET_MR_PROMISC, None),
        };
        let mut request = libc::packet_mreq {
            mr_ifindex: self.interface as i32,
            mr_type: kind as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        if let Some(mac) = address {
            request.mr_alen = mac.0.len() as u16;
            request.mr_address[..mac.0.len()].copy_from_slice(&mac.0);
        }
        socket_option::set(&self.socket, libc::SOL_PACKET, option, &request)
    }

    /// Asks for what is not asked for yet, then no longer for the rest.
    fn ask_for(&mut self, wanted: Vec<Membership>) -> io::Result<()> {
        let before = self.memberships.clone();
        for &membership in wanted.iter().filter(|membership| !before.contains(membership)) {
            if let Err(error) = self.change(libc::PACKET_ADD_MEMBERSHIP, membership) {
                let added = self.memberships.split_off(before.len());
                added.into_iter().for_each(|added| drop(self.change(libc::PACKET_DROP_MEMBERSHIP, added)));
                return Err(error);
            }
            self.memberships.push(membership);
        }
        for &membership in before.iter().filter(|membership| !wanted.contains(membership)) {
            // It may have gone with the interface; too much is no harm.
            let _ = self.change(libc::PACKET_DROP_MEMBERSHIP, membership);
        }
        self.memberships = wanted;
        Ok(())
    }
}
