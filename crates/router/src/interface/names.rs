//! What interfaces may be called.

use crate::interface::InterfaceError;
use crate::{Error, Router};
use std::net::Ipv6Addr;
use wire::MacAddress;

/// Longest interface name: what Linux and VPP's tables can show.
pub const MAX_NAME: usize = 63;
/// Most bytes of a tag, as of VPP's.
pub const MAX_TAG: usize = 63;

/// Words that commands have where an interface may stand.
const WORDS_OF_COMMANDS: &[&str] = &[
    "all",
    "any",
    "blackhole",
    "default",
    "del",
    "drop",
    "flush",
    "local",
    "name",
    "null-send-prohibit",
    "null-send-unreach",
    "offlink",
    "onlink",
    "prohibit",
    "punt",
    "receive",
    "static",
    "unreach",
    "unreachable",
    "use",
    "via",
    "weight",
];

/// Names that make sense in node names, and that a command cannot take for something else:
/// a configuration must mean the same when it is read again.
fn check_name(name: &str) -> Result<(), Error> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:".contains(c));
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !plain || !begins || name.len() > MAX_NAME {
        return Err(InterfaceError::BadName(name.into()).into());
    }
    let is_address = name.parse::<Ipv6Addr>().is_ok() || name.parse::<MacAddress>().is_ok();
    if is_address || WORDS_OF_COMMANDS.contains(&name) {
        return Err(Error::ReservedName(name.into()));
    }
    Ok(())
}

/// A tag that means the same when a configuration is read again.
pub(super) fn check_tag(tag: &str) -> Result<(), Error> {
    let plain = tag.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@+".contains(c));
    if tag.is_empty() || !plain || tag.len() > MAX_TAG {
        Err(InterfaceError::BadTag(tag.into()).into())
    } else {
        Ok(())
    }
}

impl Router {
    /// A name like `tap0` that is free.
    pub fn free_name(&mut self, stem: &str) -> String {
        format!("{stem}{}", self.interfaces.free_number(&[stem]))
    }

    /// Refuses a name that cannot be given to a new interface.
    ///
    /// # Errors
    /// When it is malformed or taken.
    pub fn check_new_name(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        match self.interfaces.find(name) {
            Ok(_) => Err(Error::NameTaken(name.into())),
            Err(_) => Ok(()),
        }
    }
}
