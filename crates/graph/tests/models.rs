//! The ring between workers, and their sleep, in every interleaving and with every stale read that the memory model
//! allows (loom).
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quiver-graph --test models`
#![cfg(loom)]

use loom::model::Builder;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use quiver_graph::doorbell::Doorbell;
use quiver_graph::ring::ring;
use std::collections::VecDeque;

/// Each value comes out once, and in order; loom fails the model when both sides touch a slot at once.
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

/// A worker's doorbell with the work that rings it: a thread that waits for ever fails the model.
#[derive(Default)]
struct Bed {
    doorbell: Doorbell,
    rung: Mutex<bool>,
    ringing: Condvar,
    /// Stands for the channel of messages.
    mail: Mutex<VecDeque<u32>>,
}

impl Bed {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.ringing.notify_one();
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.ringing.wait(rung).unwrap();
        }
        *rung = false;
    }

    fn post(&self, message: u32) {
        self.mail.lock().unwrap().push_back(message);
        if self.doorbell.has_mail_now() {
            self.ring();
        }
    }

    fn take(&self) -> VecDeque<u32> {
        self.doorbell.mail_is_taken();
        std::mem::take(&mut self.mail.lock().unwrap())
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A value put into a ring wakes a sleeping worker, or the worker sees it before it sleeps.
#[test]
fn a_sleeper_does_not_miss_what_is_put_into_its_ring() {
    check(|| {
        let bed = Arc::new(Bed::default());
        let (mut producer, mut consumer) = ring(2, || 0u32);
        let sender = {
            let bed = bed.clone();
            thread::spawn(move || {
                for n in 1..=2 {
                    let mut value = n;
                    assert!(producer.push(&mut value));
                    if bed.doorbell.must_ring() {
                        bed.ring();
                    }
                }
            })
        };
        let mut seen = 0;
        while seen < 2 {
            let mut value = 0;
            if consumer.pop(&mut value) {
                seen += 1;
                continue;
            }
            bed.doorbell.lie_down();
            if consumer.is_empty() {
                bed.sleep();
            }
            bed.doorbell.get_up();
        }
        sender.join().unwrap();
    });
}

/// Every message is taken, whichever thread posts it and whatever the worker is doing.
#[test]
fn a_sleeper_does_not_miss_messages() {
    check(|| {
        let bed = Arc::new(Bed::default());
        let posters = [1, 2].map(|message| {
            let bed = bed.clone();
            thread::spawn(move || bed.post(message))
        });
        let mut seen = 0;
        while seen < 2 {
            if bed.doorbell.has_mail() {
                seen += bed.take().len();
                continue;
            }
            bed.doorbell.lie_down();
            if !bed.doorbell.has_mail() {
                bed.sleep();
            }
            bed.doorbell.get_up();
        }
        posters.into_iter().for_each(|poster| poster.join().unwrap());
    });
}
