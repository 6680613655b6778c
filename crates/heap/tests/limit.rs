//! What happens when memory ends, in processes of their own with a limit on address space.

use quiver_heap::{Heap, at_the_end, has_room, keep_reserve, room_for};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

#[global_allocator]
static HEAP: Heap = Heap;

const MIB: usize = 1 << 20;

/// Runs a test of this program again, alone, where it finds `QUIVER_LIMITED`.
fn alone(test: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", test, "--nocapture", "--test-threads=1"];
    Command::new(program).args(arguments).env("QUIVER_LIMITED", "1").env("RUST_BACKTRACE", "0").output().unwrap()
}

fn is_alone() -> bool {
    std::env::var_os("QUIVER_LIMITED").is_some()
}

/// Bytes of address space of this process.
fn size() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').next().unwrap().parse::<usize>().unwrap() * 4096
}

fn limit(bytes: usize) {
    let limit = libc::rlimit { rlim_cur: bytes as u64, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a limit of this process is set from a value that lives through the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

#[test]
fn who_asks_is_refused_before_memory_ends_and_served_when_it_is_back() {
    if !is_alone() {
        let output = alone("who_asks_is_refused_before_memory_ends_and_served_when_it_is_back");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    keep_reserve();
    assert!(room_for(0));
    limit(size() + 200 * MIB);
    assert!(room_for(100 * MIB) && !room_for(190 * MIB));
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    while room_for(0) {
        blocks.push(vec![1; MIB]);
        assert!(blocks.len() < 200, "it was never refused");
    }
    assert!(blocks.len() > 100, "{} MiB", blocks.len());
    // What is not asked for has the reserve.
    for _ in 0..60 {
        blocks.push(vec![1; MIB]);
    }
    assert!(!has_room() && !has_room());
    drop(blocks);
    assert!(has_room() && room_for(100 * MIB), "memory is back, and the reserve with it");
}

#[test]
fn a_large_block_has_room_to_grow_or_nobody_goes_on() {
    if !is_alone() {
        let output = alone("a_large_block_has_room_to_grow_or_nobody_goes_on");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    keep_reserve();
    limit(size() + 400 * MIB);
    let mut numbers: Vec<u64> = Vec::new();
    while room_for(0) {
        // It doubles now and then, which cannot be refused.
        numbers.extend(0..10_000);
    }
    assert!(numbers.len() * 8 > 50 * MIB, "{} bytes", numbers.len() * 8);
}

#[test]
fn the_end_has_last_words() {
    if !is_alone() {
        let output = alone("the_end_has_last_words");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
        assert!(text.contains("wanted 536870912, and said so in 8388608 bytes"), "{text}");
        return;
    }
    keep_reserve();
    at_the_end(|wanted| {
        let room = vec![1u8; 8 * MIB];
        let _ = writeln!(std::io::stdout(), "wanted {wanted}, and said so in {} bytes", room.len());
    })
    .unwrap();
    limit(size());
    std::hint::black_box(vec![1u8; 512 * MIB]);
}

/// An abort of another kind is not one for want of memory.
#[test]
fn other_ends_have_none() {
    if !is_alone() {
        let output = alone("other_ends_have_none");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
        assert!(!String::from_utf8_lossy(&output.stdout).contains("wanted"));
        return;
    }
    at_the_end(|wanted| println!("wanted {wanted}")).unwrap();
    std::process::abort();
}
