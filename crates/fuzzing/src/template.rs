//! The packet generator's notation for packets: a byte that says what it begins with and how
//! long packets are, and the text.

use drivers::pg::MAX_SIZE;
use drivers::pg::template::{First, Template, Vary};
use std::hint::black_box;

pub fn run(bytes: &[u8]) {
    let [how, low, high, text @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let vary = if how & 2 != 0 { Vary::Random } else { Vary::Increment };
    let sizes = (how & 4 != 0).then_some((u64::from(*low), u64::from(*high) * 9, vary));
    match Template::parse(text, sizes, First::ALL[usize::from(how >> 3) % First::ALL.len()]) {
        Ok(mut template) => {
            let mut packet = [0; MAX_SIZE];
            for _ in 0..10 {
                assert!(usize::from(template.write_next(&mut packet)) <= MAX_SIZE);
            }
        }
        Err(error) => {
            black_box(error);
        }
    }
}
