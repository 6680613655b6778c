//! Messages between processes on sockets that keep them apart (`SOCK_SEQPACKET`), each with at most one descriptor.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Room for descriptors of a message; all but one are closed.
const MAX_DESCRIPTORS: usize = 4;

/// What was received.
#[derive(Debug)]
pub enum Received {
    Nothing,
    /// The other end is closed.
    End,
    /// A message and the descriptor that came with it. Of one that is longer than asked for, the beginning.
    Bytes(Vec<u8>, Option<OwnedFd>),
}

/// # Errors
/// When the message cannot be sent at once.
pub fn send(to: BorrowedFd<'_>, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    net::sendmsg(to, &[IoSlice::new(bytes)], &mut control, flags)?;
    Ok(())
}

/// Receives a message of at most so many bytes, if there is one.
///
/// # Errors
/// When the socket is broken.
pub fn receive(from: BorrowedFd<'_>, most: usize) -> io::Result<Received> {
    let mut bytes = vec![0; most];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = match net::recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(got) => got.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
        Err(error) => return Err(error.into()),
    };
    if got == 0 {
        return Ok(Received::End);
    }
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut descriptors| descriptors.next());
    bytes.truncate(got);
    Ok(Received::Bytes(bytes, descriptor))
}
