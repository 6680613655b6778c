//! The bytes of a capture that is to be replayed.

use drivers::pg::{MAX_SIZE, read_capture};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, Write};
use std::path::Path;

pub fn run(bytes: &[u8]) {
    let mut file = File::from(memfd_create("capture", MemfdFlags::CLOEXEC).expect("memory"));
    file.write_all(bytes).and_then(|()| file.rewind()).expect("memory");
    match read_capture(Path::new("capture"), file) {
        Ok(packets) => {
            assert!(!packets.is_empty());
            assert!(packets.iter().all(|packet| !packet.is_empty() && packet.len() <= MAX_SIZE));
        }
        Err(error) => {
            black_box(error);
        }
    }
}
