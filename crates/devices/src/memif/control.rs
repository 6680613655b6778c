//! memif sockets by number, and the thread that keeps their connections, which starts with the first memif interface.

use super::MemifConfig;
use drivers::memif::{ConnectionHandle, Keeper, MemifStatus, check_socket};
use drivers::{Device, OpenError, memif};
use graph::Pool;
use router::interface::Interface;
use router::{Error, Router};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The socket of number 0, which is always there: VPP's.
pub const DEFAULT_SOCKET: &str = "/run/vpp/memif.sock";

/// Why an operation on sockets was refused.
#[derive(Debug, thiserror::Error)]
pub enum MemifError {
    #[error(
        "there is no memif socket {0} ('show memif' lists them, 'create memif socket id {0} filename FILE' makes it)"
    )]
    NoSuchSocket(u32),
    #[error("memif socket {id} is '{filename}' already")]
    SocketThere { id: u32, filename: String },
    #[error("'{filename}' is memif socket {id} already")]
    FileThere { id: u32, filename: String },
    #[error("memif socket {id} is in use by {name}")]
    SocketUsed { id: u32, name: String },
    #[error("memif socket 0 is '{DEFAULT_SOCKET}' and stays")]
    DefaultSocket,
}

router::codes! { MemifError {
    NoSuchSocket => "memif-no-such-socket",
    SocketThere => "memif-socket-there",
    FileThere => "memif-file-there",
    SocketUsed => "memif-socket-used",
    DefaultSocket => "memif-default-socket",
} }

/// The router's memif state, apart from its interfaces.
pub struct Memif {
    sockets: BTreeMap<u32, String>,
    keeper: Option<Keeper>,
}

impl Default for Memif {
    fn default() -> Memif {
        Memif { sockets: BTreeMap::from([(0, DEFAULT_SOCKET.into())]), keeper: None }
    }
}

impl Memif {
    /// All sockets, by number.
    pub fn sockets(&self) -> impl Iterator<Item = (u32, &str)> {
        self.sockets.iter().map(|(id, filename)| (*id, filename.as_str()))
    }

    /// # Errors
    /// When there is none of that number.
    pub fn socket(&self, id: u32) -> Result<&str, MemifError> {
        self.sockets.get(&id).map(String::as_str).ok_or(MemifError::NoSuchSocket(id))
    }

    pub(crate) fn open(&mut self, options: memif::Options, pool: &Arc<Pool>) -> Result<Device, OpenError> {
        if options.socket == DEFAULT_SOCKET {
            // VPP's directory may not exist. An error shows later, when the socket is opened for listening.
            let _ = command::files::make_directory(Path::new("/run/vpp"));
        }
        let keeper = match &mut self.keeper {
            Some(keeper) => keeper,
            none => none.insert(Keeper::start()?),
        };
        memif::open(keeper, options, pool)
    }

    /// Whether a peer can connect to a socket.
    pub(crate) fn is_listening(&self, filename: &str) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.listener(filename).is_some())
    }
}

/// Gives a socket a number.
///
/// # Errors
/// When the number already has a file or the file has a number, or no socket can have that name.
pub(super) fn add_socket(router: &mut Router, id: u32, filename: &str) -> Result<(), Error> {
    check_socket(filename)?;
    let memif = router.state_mut::<Memif>();
    let same = memif.sockets().find(|(other, file)| *other == id || *file == filename);
    match same {
        Some((other, file)) if other == id => {
            return Err(MemifError::SocketThere { id, filename: file.into() }.into());
        }
        Some((other, file)) => return Err(MemifError::FileThere { id: other, filename: file.into() }.into()),
        None => {}
    }
    memif.sockets.insert(id, filename.into());
    Ok(())
}

/// # Errors
/// When there is no such socket, or an interface uses it.
pub(super) fn remove_socket(router: &mut Router, id: u32) -> Result<(), Error> {
    router.state::<Memif>().socket(id)?;
    if id == 0 {
        return Err(MemifError::DefaultSocket.into());
    }
    let uses_it =
        |interface: &&Interface| interface.options().is_some_and(|options: &MemifConfig| options.0.socket_id == id);
    if let Some(user) = router.interfaces.iter().find(uses_it) {
        return Err(MemifError::SocketUsed { id, name: user.name.clone() }.into());
    }
    router.state_mut::<Memif>().sockets.remove(&id);
    Ok(())
}

/// The state of a memif; none for other interfaces.
pub(super) fn status(router: &Router, interface: &Interface, with_descriptors: bool) -> Option<MemifStatus> {
    let connection = (&*interface.link as &dyn Any).downcast_ref::<ConnectionHandle>()?;
    Some(connection.status(router.state::<Memif>().keeper.as_ref()?, with_descriptors))
}
