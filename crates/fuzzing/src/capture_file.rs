//! The bytes of a capture that is to be replayed.

use drivers::capture_file::{MAX_FRAME, read};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, Write};
use std::path::Path;

pub fn run(bytes: &[u8]) {
    let mut file = File::from(memfd_create("capture", MemfdFlags::CLOEXEC).expect("memory"));
    file.write_all(bytes).and_then(|()| file.rewind()).expect("memory");
    match read(Path::new("capture"), file, MAX_FRAME) {
        Ok(packets) => {
            assert!(!packets.is_empty());
            assert!(packets.iter().all(|packet| (1..=MAX_FRAME).contains(&packet.frame.len())));
        }
        Err(error) => {
            black_box(error);
        }
    }
}
