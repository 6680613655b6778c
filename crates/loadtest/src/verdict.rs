//! What limited a device, and which figures show it: what operators conclude by eye from `show runtime`.

use crate::arithmetic::{scaled, significant};
use crate::load::{Lost, WorkerLoad};
use graph::VECTOR_SIZE;
use serde::{Deserialize, Serialize};

/// If vectors are this full on average, more packets were always waiting.
const FULL: f64 = 0.9 * VECTOR_SIZE as f64;
/// A worker that is always busy has at most this share of idle polls, at the start of a run.
const BUSY: f64 = 0.05;
/// Loss below this says nothing about the limit of a device: a full queue while a thread was preempted for a moment.
const NOTHING: f64 = 1e-4;
/// Largest share of the due packets that the load tester may leave unsent for a device without loss to count as
/// carrying this rate: moments in which the load tester was preempted.
const NEARLY: f64 = 0.01;
/// At a fixed rate, the device must refuse at least this share for that to say something about it.
const MANY: f64 = 0.05;

/// What limits a device's rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// There was no loss: nothing limited it at this rate.
    #[default]
    Nothing,
    /// Its workers have no idle time.
    Cpu,
    /// Packets are lost before its workers poll them, though the workers have idle time: the card, its bus, or its
    /// driver.
    Device,
    /// The same without a card: the rings of its shared memory were full.
    Ring,
    /// Packets to send find its queue full, though its workers have idle time.
    Queue,
    /// The load tester could not send or receive more.
    Generator,
    /// Frames end in the middle of a cache line.
    CacheLine,
    /// There was loss, and the inside of the device is unknown.
    Unknown,
    /// Other programs used the machine, so the figures are not the device's.
    NoResult,
}

impl Bound {
    pub fn words(self) -> &'static str {
        match self {
            Bound::Nothing => "not at its limit",
            Bound::Cpu => "CPU-bound",
            Bound::Device => "NIC- or PCIe-bound",
            Bound::Queue => "queue-bound",
            Bound::Generator => "generator-bound",
            Bound::CacheLine => "bound by partial cache lines",
            Bound::Ring => "bound by the rings of shared memory",
            Bound::Unknown => "bound by something inside",
            Bound::NoResult => "no result",
        }
    }
}

/// The limit, and the figures that show it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub bound: Bound,
    pub evidence: Vec<String>,
}

/// The figures that a verdict is based on.
#[derive(Debug, Clone, Default)]
pub struct VerdictInput<'a> {
    /// The load tester sent at the maximum rate.
    pub is_maximum: bool,
    pub kept_rate: bool,
    /// Share of the due packets.
    pub not_sent_share: f64,
    pub sent: u64,
    pub lost: u64,
    /// Packets that the load tester's ports refused.
    pub refused: u64,
    /// The load tester found more packets than it could take, and missed this many.
    pub own_is_full: bool,
    /// Packets that were sent while workers of the load tester were preempted, and could receive none.
    pub away: f64,
    /// The device forwards in the sender's time, as Linux does behind a veth.
    pub in_senders_time: bool,
    pub own_missed: u64,
    /// Its ports are network cards, not shared memory.
    pub has_cards: bool,
    /// The workers of the router under test, and the packets that it counted as lost.
    pub workers: &'a [WorkerLoad],
    pub drops: &'a [Lost],
}

impl Verdict {
    pub fn from(facts: &VerdictInput<'_>) -> Verdict {
        let share = facts.lost as f64 / (facts.sent as f64).max(1.0);
        let is_lossy = share > NOTHING;
        let mut evidence = Vec::new();
        let busiest =
            facts.workers.iter().max_by_key(|worker| worker.received()).filter(|worker| worker.received() > 0);
        if let Some(worker) = busiest {
            evidence.push(said(worker));
            evidence.push(check(worker));
        }
        if is_lossy {
            evidence.push(format!(
                "{} of {} packets were lost: {} %",
                facts.lost,
                facts.sent,
                significant(100.0 * share)
            ));
        }
        let worst = facts.drops.iter().max_by_key(|drop| drop.packets);
        if let Some(drop) = worst {
            evidence.push(format!("the router dropped {} at {}: {}", drop.packets, drop.node, drop.reason));
        }
        let refused = facts.refused as f64 / (facts.sent + facts.refused).max(1) as f64;
        // At a fixed rate, a ring may be full for a while because the device was preempted: that says little.
        let is_refused = refused > if facts.is_maximum { NOTHING } else { MANY };
        let is_pressed = is_lossy || facts.is_maximum || !facts.kept_rate;
        let is_busy = busiest.is_some_and(|worker| worker.idle_polls() < BUSY && worker.vectors_per_call() > FULL);
        let outputs: u64 = facts.drops.iter().filter(|drop| drop.is_output()).map(|drop| drop.packets).sum();
        let missed = facts.own_missed as f64;
        let ahead_of_workers = if facts.has_cards { Bound::Device } else { Bound::Ring };
        let bound = if missed * 2.0 > facts.lost as f64 && missed > NOTHING * facts.sent as f64 {
            evidence.push(format!("the load tester itself missed {}", facts.own_missed));
            Bound::Generator
        } else if is_pressed && is_busy {
            Bound::Cpu
        } else if is_lossy && outputs * 2 > facts.lost {
            // The receiver is too slow, or was preempted.
            if facts.own_is_full {
                evidence.push("the load tester had always more waiting than it could take".into());
                Bound::Generator
            } else if facts.lost as f64 <= facts.away {
                evidence
                    .push(format!("{:.0} were sent while the load tester was preempted and received none", facts.away));
                Bound::Generator
            } else {
                Bound::Queue
            }
        } else if is_lossy && busiest.is_some() {
            evidence.push("its workers had time left: what was lost was lost ahead of them".into());
            ahead_of_workers
        } else if is_lossy {
            Bound::Unknown
        } else if is_refused && busiest.is_some() {
            let refused = significant(100.0 * refused);
            evidence
                .push(format!("the load tester's ports had no room for {refused} % while its workers had time left"));
            ahead_of_workers
        } else if facts.in_senders_time && (facts.is_maximum || !facts.kept_rate) {
            evidence.push(
                "Linux forwards what comes by a veth in the time of who sends: what could not be sent it could not \
                 forward"
                    .into(),
            );
            Bound::Cpu
        } else if facts.is_maximum || facts.not_sent_share > NEARLY {
            evidence.push("all that the load tester could send came".into());
            Bound::Generator
        } else {
            if !facts.kept_rate {
                let left_out = significant(100.0 * facts.not_sent_share);
                evidence.push(format!("the load tester left out {left_out} % of what was due"));
            }
            match facts.lost {
                0 => evidence.push("all came that was sent".into()),
                lost => evidence.push(format!("{lost} of {} packets were lost: too few to judge by", facts.sent)),
            }
            Bound::Nothing
        };
        Verdict { bound, evidence }
    }

    /// No result, and the reason.
    pub fn no_result(why: String) -> Verdict {
        Verdict { bound: Bound::NoResult, evidence: vec![why] }
    }

    /// Why there is no result, if there is none.
    pub fn why_no_result(&self) -> Option<&str> {
        self.evidence.first().filter(|_| self.bound == Bound::NoResult).map(String::as_str)
    }

    /// On one line.
    pub fn line(&self) -> String {
        let mut line = self.bound.words().to_string();
        if !self.evidence.is_empty() {
            line += &format!(": {}", self.evidence.join("; "));
        }
        line
    }
}

fn said(worker: &WorkerLoad) -> String {
    format!(
        "worker {}: {:.2} packets a call, {} % of its time in idle polls",
        worker.worker,
        worker.vectors_per_call(),
        significant(100.0 * worker.idle_polls())
    )
}

/// For a worker without idle time, rate times cost should equal the clock.
fn check(worker: &WorkerLoad) -> String {
    let (pps, clocks) = (worker.received() as f64 / worker.seconds.max(f64::MIN_POSITIVE), worker.clocks_per_packet());
    let frequency = worker.clocks / worker.seconds.max(f64::MIN_POSITIVE);
    format!(
        "{}pps x {} clocks = {}Hz of {}Hz: {:.0} % of the clock",
        scaled(pps),
        significant(clocks),
        scaled(pps * clocks),
        scaled(frequency),
        100.0 * pps * clocks / frequency
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Kind, NodeLoad};

    /// A worker with `calls` polls, `empty` of them idle, which brought `packets` packets at 100 clocks each; it spent
    /// the rest of a second in idle polls.
    fn worker(calls: u64, empty: u64, packets: u64) -> WorkerLoad {
        let idle_clocks = 2_600_000_000 - 100 * packets;
        let input = NodeLoad {
            name: "memif-input".into(),
            kind: Kind::Input,
            calls,
            empty,
            packets,
            clocks: 40 * packets + idle_clocks,
            idle_clocks,
        };
        let lookup = NodeLoad {
            name: "ip4-lookup".into(),
            kind: Kind::Graph,
            clocks: 60 * packets,
            empty: 0,
            idle_clocks: 0,
            ..input.clone()
        };
        WorkerLoad { worker: 0, seconds: 1.0, clocks: 2.6e9, rounds: calls, sleeps: 0, nodes: vec![input, lookup] }
    }

    fn bound(facts: VerdictInput<'_>) -> Bound {
        Verdict::from(&facts).bound
    }

    #[test]
    fn what_holds_a_device_back_is_seen_by_its_figures() {
        let busy = [worker(100_000, 10, 25_600_000)];
        let idle = [worker(5_000_000, 4_000_000, 10_000_000)];
        let lossy = VerdictInput { kept_rate: true, sent: 30_000_000, lost: 4_400_000, ..VerdictInput::default() };
        let full = [Lost { node: "e1-tx".into(), reason: "device has no room".into(), packets: 4_400_000 }];
        assert_eq!(bound(VerdictInput { workers: &busy, ..lossy.clone() }), Bound::Cpu);
        assert_eq!(bound(VerdictInput { workers: &idle, has_cards: true, ..lossy.clone() }), Bound::Device);
        // Shared memory is no network card.
        assert_eq!(bound(VerdictInput { workers: &idle, ..lossy.clone() }), Bound::Ring);
        assert!(!Bound::Ring.words().contains("NIC"));
        assert_eq!(bound(VerdictInput { workers: &idle, drops: &full, ..lossy.clone() }), Bound::Queue);
        assert_eq!(
            bound(VerdictInput { workers: &idle, drops: &full, own_is_full: true, ..lossy.clone() }),
            Bound::Generator
        );
        assert_eq!(bound(VerdictInput { workers: &idle, drops: &full, away: 5e6, ..lossy.clone() }), Bound::Generator);
        assert_eq!(bound(VerdictInput { own_missed: 3_000_000, ..lossy.clone() }), Bound::Generator);
        assert_eq!(bound(lossy), Bound::Unknown);
        let good = VerdictInput { kept_rate: true, sent: 10_000_000, workers: &idle, ..VerdictInput::default() };
        assert_eq!(bound(good.clone()), Bound::Nothing);
        assert_eq!(bound(VerdictInput { is_maximum: true, ..good.clone() }), Bound::Generator);
        let slow = |not_sent_share| VerdictInput { kept_rate: false, not_sent_share, ..good.clone() };
        assert_eq!((bound(slow(0.009)), bound(slow(0.02))), (Bound::Nothing, Bound::Generator));
        assert_eq!(
            bound(VerdictInput { kept_rate: false, workers: &[], in_senders_time: true, ..good.clone() }),
            Bound::Cpu
        );
        assert_eq!(bound(VerdictInput { is_maximum: true, refused: 1_000_000, ..good.clone() }), Bound::Ring);
        // A few packets were refused, or missed, while a thread was preempted for a moment.
        assert_eq!(bound(VerdictInput { is_maximum: true, refused: 10, ..good.clone() }), Bound::Generator);
        assert_eq!(bound(VerdictInput { refused: 10, own_missed: 10, ..good.clone() }), Bound::Nothing);
        let slow = |refused| VerdictInput { kept_rate: false, not_sent_share: 0.1, refused, ..good.clone() };
        assert_eq!((bound(slow(2_000_000)), bound(slow(200_000))), (Bound::Ring, Bound::Generator));
        assert_eq!(
            bound(VerdictInput { own_missed: 10, workers: &busy, sent: 30_000_000, lost: 4_400_000, ..good }),
            Bound::Cpu
        );
    }

    #[test]
    fn rate_times_cost_is_the_clock() {
        let facts = VerdictInput { kept_rate: true, sent: 30_000_000, lost: 4_000_000, ..VerdictInput::default() };
        let busy = [worker(100_000, 0, 26_000_000)];
        let verdict = Verdict::from(&VerdictInput { workers: &busy, ..facts });
        assert_eq!(
            verdict.evidence[..2],
            [
                "worker 0: 260.00 packets a call, 0 % of its time in idle polls",
                "26 Mpps x 100 clocks = 2.6 GHz of 2.6 GHz: 100 % of the clock"
            ]
        );
        assert!(verdict.line().starts_with("CPU-bound: worker 0"), "{}", verdict.line());
    }
}
