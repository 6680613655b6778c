//! memif sockets by number, and the thread that keeps their connections, which starts with the first memif interface.

use crate::{Error, Router};
use drivers::memif::{Keeper, MemifStatus, check_socket};
use drivers::{Device, OpenError, memif};
use graph::{InterfaceIndex, Pool};
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

impl Router {
    /// Gives a socket a number.
    ///
    /// # Errors
    /// When the number already has a file or the file has a number, or no socket can have that name.
    pub fn add_memif_socket(&mut self, id: u32, filename: &str) -> Result<(), Error> {
        check_socket(filename)?;
        let same = self.memif.sockets().find(|(other, file)| *other == id || *file == filename);
        match same {
            Some((other, file)) if other == id => {
                return Err(MemifError::SocketThere { id, filename: file.into() }.into());
            }
            Some((other, file)) => return Err(MemifError::FileThere { id: other, filename: file.into() }.into()),
            None => {}
        }
        self.memif.sockets.insert(id, filename.into());
        Ok(())
    }

    /// # Errors
    /// When there is no such socket, or an interface uses it.
    pub fn remove_memif_socket(&mut self, id: u32) -> Result<(), Error> {
        self.memif.socket(id)?;
        if id == 0 {
            return Err(MemifError::DefaultSocket.into());
        }
        if let Some(user) = self.interfaces.iter().find(|interface| interface.memif_socket() == Some(id)) {
            return Err(MemifError::SocketUsed { id, name: user.name.clone() }.into());
        }
        self.memif.sockets.remove(&id);
        Ok(())
    }

    /// The state of a memif; none for other interfaces.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn memif_status(&self, index: InterfaceIndex, with_descriptors: bool) -> Result<Option<MemifStatus>, Error> {
        let interface = self.interfaces.get(index)?;
        let care = interface.link.memif().zip(self.memif.keeper.as_ref());
        Ok(care.map(|(care, keeper)| care.status(keeper, with_descriptors)))
    }
}
