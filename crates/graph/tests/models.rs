//! The ring between workers, in every interleaving and with every stale read that the memory model
//! allows (loom).
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quiver-graph --test models --release`
#![cfg(loom)]

use loom::thread;
use quiver_graph::ring::ring;

/// Values come out once each and in order; loom fails the model when both sides touch a slot at once.
#[test]
fn what_goes_in_comes_out_in_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(2, || 0u32);
        let sender = thread::spawn(move || {
            let mut sent = 0;
            for n in 1..=3 {
                let mut value = n;
                if producer.push(&mut value) {
                    sent += 1;
                } else {
                    assert_eq!(value, n, "what is refused stays");
                    break;
                }
            }
            sent
        });
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut value = 0;
            if consumer.pop(&mut value) {
                seen.push(value);
            }
            thread::yield_now();
        }
        let sent = sender.join().unwrap();
        let mut value = 0;
        while consumer.pop(&mut value) {
            seen.push(value);
        }
        assert_eq!(seen, (1..=sent).collect::<Vec<u32>>());
    });
}
