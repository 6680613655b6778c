//! What is said of devices that are known, in this process: exactly what they did.

use quiver_loadtest::device::reference::{Impairments, wire};
use quiver_loadtest::profile::Profile;
use quiver_loadtest::rate::Rate;
use quiver_loadtest::tester::{Counted, Finished, Options, Outcome, Tester};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A load tester at both ends of a wire.
struct Bench {
    tester: Tester,
    counts: [Arc<quiver_loadtest::device::reference::Counts>; 2],
    plug: Arc<AtomicBool>,
}

impl Bench {
    fn new(impairments: &str) -> Bench {
        let wire = wire(&impairments.parse::<Impairments>().unwrap());
        let mut tester = Tester::new(&Options::default()).unwrap();
        for (number, end) in wire.ends.into_iter().enumerate() {
            tester.add_device(&format!("end {number}"), end).unwrap();
        }
        tester.await_ready(&mut || {}).unwrap();
        Bench { tester, counts: wire.counts, plug: wire.plug }
    }

    /// Sends a profile by these ports, for so long.
    fn run(&mut self, profile: &str, senders: &[usize], rate: &str, length: Duration) -> Outcome {
        let profile = match profile.contains('\n') {
            true => Profile::parse("test.toml", profile).unwrap(),
            false => Profile::load(profile).unwrap(),
        };
        self.tester.start(&profile, senders, rate.parse::<Rate>().unwrap(), None).unwrap();
        let end = Instant::now() + length;
        while Instant::now() < end && !self.tester.has_ended() {
            self.tester.wait(Instant::now() + Duration::from_millis(10), &mut || {});
        }
        self.tester.stop(Duration::from_millis(200), &mut || {}).unwrap()
    }
}

/// A burst of so many packets of 60 bytes, at 100 kpps.
fn burst(packets: u64) -> String {
    format!(
        "[[stream]]\nsize = 60\nrate = \"100kpps\"\nmode = {{ burst = {{ packets = {packets} }} }}\n\
         layers = [{{ ipv4 = {{}} }}, {{ udp = {{}} }}]\n"
    )
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Waits until this is so, however busy the machine is.
fn wait_until(tester: &mut Tester, what: &str, mut is_so: impl FnMut(&mut Tester) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so(tester) {
        assert!(Instant::now() < end, "waited 60 s until {what}: {:?}", tester.counted());
        tester.wait(Instant::now() + Duration::from_millis(5), &mut || {});
    }
}

/// Of a stream that had so many packets to send.
fn assert_due(stream: &Finished, packets: u64) {
    let Counted { sent, refused, late, starved, .. } = stream.counted;
    assert_eq!((sent, refused, late, starved), (packets, 0, 0, 0));
}

#[test]
fn long_frames_go_through_several_buffers() {
    let mut bench = Bench::new("lose=100");
    let text = "[[stream]]\nsizes = [{ size = 9014, weight = 1 }, { size = 2049, weight = 1 }, { size = 60, weight \
     = 1 }]\n\
                mode = { burst = { packets = 3000 } }\nrate = \"20kpps\"\nlayers = [{ ipv4 = {} }, { udp = {} }]\n";
    let outcome = bench.run(text, &[0], "1", Duration::from_secs(5));
    let stream = &outcome.streams[0];
    assert_due(stream, 3000);
    assert_eq!(stream.counted.sent_bytes, 1000 * (9014 + 2049 + 60));
    // Of the last nothing shows that it is missing: a gap has two ends.
    assert_eq!((stream.received.packets, stream.received.gaps), (2970, 29));
    assert_eq!(stream.received.latency.len(), 2970);
}

#[test]
fn small_tags_are_known_again_and_put_in_order() {
    let mut bench = Bench::new("lose=50,duplicate=70,reorder=90,by=3");
    let outcome = bench.run("ip6-cimix", &[0, 1], "20kpps", Duration::from_millis(500));
    for stream in outcome.streams.iter().filter(|stream| !stream.running.program.is_timed()) {
        let received = &stream.received;
        assert!(received.duplicates > 0 && received.reordered > 0 && received.packets < stream.counted.sent);
        assert_eq!(received.latency.len(), 0);
    }
    for (way, counts) in bench.counts.iter().enumerate() {
        let of_way: Vec<_> = outcome.streams.iter().filter(|stream| stream.running.port == way).collect();
        let sum = |what: fn(&Finished) -> u64| of_way.iter().map(|stream| what(stream)).sum::<u64>();
        assert_eq!(sum(|stream| stream.counted.sent - stream.received.packets), read(&counts.lost));
        assert_eq!(sum(|stream| stream.received.duplicates), read(&counts.duplicated));
    }
}

#[test]
fn a_good_wire_loses_nothing_in_both_directions() {
    let mut bench = Bench::new("");
    let outcome = bench.run("bench-var2-imix", &[0, 1], "200kpps", Duration::from_millis(500));
    assert_eq!(outcome.streams.len(), 6);
    for stream in &outcome.streams {
        let received = &stream.received;
        assert!(stream.counted.sent > 0, "{}", stream.running.program.name);
        assert_eq!(stream.counted.sent, received.packets);
        assert_eq!(stream.counted.sent_bytes, received.bytes);
        assert_eq!((received.duplicates, received.reordered, received.elsewhere, received.too_old), (0, 0, 0, 0));
        assert_eq!(received.gaps, 0);
        assert_eq!(received.latency.len(), received.packets);
    }
    for way in 0..2 {
        let of_way = outcome.streams.iter().filter(|stream| stream.running.port == way);
        assert_eq!(of_way.map(|stream| stream.counted.sent).sum::<u64>(), read(&bench.counts[way].came));
    }
}

#[test]
fn one_in_a_thousand_is_one_in_a_thousand() {
    let mut bench = Bench::new("lose=1000");
    let outcome = bench.run(&burst(50_500), &[0], "1", Duration::from_secs(20));
    let stream = &outcome.streams[0];
    assert_due(stream, 50_500);
    assert_eq!(stream.counted.sent - stream.received.packets, stream.counted.sent / 1000);
    assert_eq!(stream.received.gaps, stream.counted.sent / 1000);
    assert_eq!(stream.received.longest_gap, 1);
    assert_eq!(read(&bench.counts[0].lost), stream.counted.sent / 1000);
}

#[test]
fn loss_is_of_the_sample_that_sent_the_packet_however_late_the_others_came() {
    // Each 10th is lost; the others wait for 30 ms, longer than a sample lasts, so each sample has what the last ones
    // sent.
    let mut bench = Bench::new("lose=10,delay=30ms");
    let profile = Profile::load("bench").unwrap();
    bench.tester.start(&profile, &[0], "50kpps".parse().unwrap(), None).unwrap();
    let mut cuts = Vec::new();
    for _ in 0..20 {
        bench.tester.wait(Instant::now() + Duration::from_millis(10), &mut || {});
        cuts.push(bench.tester.cut().expect("the worker answers"));
    }
    let outcome = bench.tester.stop(Duration::from_millis(200), &mut || {}).unwrap();
    let [stream] = &outcome.streams[..] else { panic!("{}", outcome.streams.len()) };
    assert_eq!(stream.counted.refused, 0);
    let known: Vec<u64> = cuts.iter().map(|cut| cut.counted[0].sent / 10).collect();
    assert_eq!(cuts.iter().map(|cut| cut.epoch).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert_eq!(stream.lost_by, known);
    assert!(known[19] > 100 && known[19] <= stream.counted.lost(), "{known:?}");
    assert!(cuts.windows(2).all(|pair| pair[0].at < pair[1].at));
    // The next run begins at its own beginning.
    let again = bench.run("bench", &[0], "10kpps", Duration::from_millis(50));
    assert!(again.streams[0].lost_by.is_empty());
}

#[test]
fn what_is_lost_above_a_rate_is_lost_there_only() {
    let mut bench = Bench::new("lose=10,above=100kpps");
    let slow = bench.run("bench", &[0], "50kpps", Duration::from_millis(300));
    assert_eq!(slow.streams[0].counted.sent, slow.streams[0].received.packets);
    let before = read(&bench.counts[0].lost);
    assert_eq!(before, 0);
    let profile = Profile::load("bench").unwrap();
    bench.tester.start(&profile, &[0], "300kpps".parse().unwrap(), None).unwrap();
    let lost = &bench.counts[0].lost;
    wait_until(&mut bench.tester, "packets are lost", |_| read(lost) > 1000);
    let fast = bench.tester.stop(Duration::from_millis(100), &mut || {}).unwrap();
    let lost = fast.streams[0].counted.sent - fast.streams[0].received.packets;
    assert_eq!(lost, read(&bench.counts[0].lost));
    // None before the wire had seen the rate, nor while a busy machine kept it from being reached.
    assert!(lost <= fast.streams[0].counted.sent / 10, "{lost}");
}

#[test]
fn copies_are_counted_and_are_no_packets() {
    let mut bench = Bench::new("duplicate=50");
    let outcome = bench.run(&burst(10_000), &[0], "1", Duration::from_secs(20));
    let stream = &outcome.streams[0];
    assert_due(stream, 10_000);
    assert_eq!(stream.received.packets, stream.counted.sent);
    assert_eq!(stream.received.duplicates, stream.counted.sent / 50);
}

#[test]
fn disorder_is_counted_with_its_extent() {
    let mut bench = Bench::new("reorder=100,by=4");
    let outcome = bench.run(&burst(10_050), &[0], "1", Duration::from_secs(20));
    let stream = &outcome.streams[0];
    assert_due(stream, 10_050);
    assert_eq!(stream.received.packets, stream.counted.sent);
    assert_eq!(stream.received.reordered, read(&bench.counts[0].reordered));
    assert_eq!(stream.received.reordered, stream.counted.sent / 100);
    assert_eq!(stream.received.reordering_extent, 4);
    assert_eq!(stream.received.duplicates, 0);
}

#[test]
fn a_delay_is_seen_as_it_is() {
    let mut bench = Bench::new("delay=20ms");
    let outcome = bench.run(&burst(2_000), &[0, 1], "1", Duration::from_secs(20));
    for stream in &outcome.streams {
        let latency = &stream.received.latency;
        assert_eq!(stream.received.packets, stream.counted.sent);
        // What is added is the time between two looks; a loaded machine may take longer, never less.
        let [least, half] = [stream.received.least, latency.value_at_quantile(0.5)].map(|ns| ns as f64 / 1e6);
        assert!((19.99..30.0).contains(&least), "{least} ms");
        assert!((19.99..60.0).contains(&half), "{half} ms");
    }
}

#[test]
fn what_a_device_cannot_carry_is_its_loss() {
    let mut bench = Bench::new("capacity=50kpps,queue=16");
    let outcome = bench.run("bench", &[0], "100kpps", Duration::from_millis(400));
    let stream = &outcome.streams[0];
    assert_eq!(stream.counted.sent - stream.received.packets, read(&bench.counts[0].lost));
    let share = stream.received.packets as f64 / outcome.seconds / 50e3;
    // A machine that has other things to do gets less through, and never more.
    assert!((0.1..1.05).contains(&share), "{share}");
    // Sixteen wait for a 50000th of a second each.
    assert!(stream.received.latency.value_at_quantile(0.5) > 300_000);
}

#[test]
fn runs_follow_each_other_at_other_rates() {
    let mut bench = Bench::new("");
    let first = bench.run("bench-var2-64b", &[0], "10kpps", Duration::from_millis(100));
    assert_eq!(first.streams[0].counted.sent, first.streams[0].received.packets);
    bench.tester.start(&Profile::load("tcp-syn").unwrap(), &[0], "10kpps".parse().unwrap(), None).unwrap();
    bench.tester.wait(Instant::now() + Duration::from_millis(100), &mut || {});
    bench.tester.set_rate(None, "0".parse().unwrap()).unwrap();
    bench.tester.wait(Instant::now() + Duration::from_millis(20), &mut || {});
    let paused = bench.tester.counted();
    bench.tester.wait(Instant::now() + Duration::from_millis(100), &mut || {});
    assert_eq!(bench.tester.counted(), paused);
    bench.tester.set_rate(Some(0), "50kpps".parse().unwrap()).unwrap();
    let sent = paused[0].sent;
    wait_until(&mut bench.tester, "it sends again", |tester| tester.counted()[0].sent > sent + 1000);
    let outcome = bench.tester.stop(Duration::from_millis(50), &mut || {}).unwrap();
    let stream = &outcome.streams[0];
    // The small tag: counted and in order, not timed.
    assert_eq!(stream.counted.sent, stream.received.packets);
    assert_eq!((stream.received.latency.len(), stream.received.gaps), (0, 0));
}

#[test]
fn as_many_as_go_are_made_without_loss_of_the_wire() {
    let mut bench = Bench::new("");
    let outcome = bench.run("bench", &[0], "max", Duration::from_millis(200));
    let stream = &outcome.streams[0];
    assert_eq!(stream.counted.sent, stream.received.packets, "{:?}", stream.counted);
    assert!(stream.counted.sent > 1000);
}

#[test]
fn a_wire_that_is_pulled_out_is_seen_and_the_rest_is_kept() {
    let mut bench = Bench::new("");
    let profile = Profile::load("bench").unwrap();
    bench.tester.start(&profile, &[0], "10kpps".parse().unwrap(), None).unwrap();
    wait_until(&mut bench.tester, "packets are sent", |tester| tester.counted()[0].sent > 500);
    assert_eq!(bench.tester.down(), None);
    bench.plug.store(false, Ordering::Relaxed);
    wait_until(&mut bench.tester, "packets are refused", |tester| tester.counted()[0].refused > 100);
    assert_eq!(bench.tester.down(), Some(0));
    let outcome = bench.tester.stop(Duration::from_millis(50), &mut || {}).unwrap();
    let counted = outcome.streams[0].counted;
    assert_eq!(counted.sent, outcome.streams[0].received.packets);
}

#[test]
fn no_port_no_link_no_speed_is_said() {
    let profile = Profile::load("bench").unwrap();
    let mut bench = Bench::new("");
    let error = bench.tester.start(&profile, &[0], "50%".parse().unwrap(), None).unwrap_err().to_string();
    assert!(error.contains("say 'speed=10g' for the port"), "{error}");
    bench.plug.store(false, Ordering::Relaxed);
    let error = bench.tester.await_ready(&mut || {}).unwrap_err().to_string();
    assert!(error.contains("port 0 (end 0): its link is down"), "{error}");
}

#[test]
fn ports_begin_and_end_one_by_one() {
    let mut bench = Bench::new("lose=10,delay=2ms");
    let profile = Profile::load("bench").unwrap();
    let wait = |bench: &mut Bench, ms| bench.tester.wait(Instant::now() + Duration::from_millis(ms), &mut || {});
    bench.tester.start(&profile, &[0], "10kpps".parse().unwrap(), None).unwrap();
    wait(&mut bench, 200);
    bench.tester.start(&profile, &[1], "5kpps".parse().unwrap(), Some(1000)).unwrap();
    assert_eq!(bench.tester.running().iter().map(|stream| stream.port).collect::<Vec<_>>(), [0, 1]);
    let are_known = |tester: &mut Tester| tester.counted().iter().all(|one| one.timed > 100 && one.received > 100);
    wait_until(&mut bench.tester, "packets of both come back", are_known);
    // What is known while it runs: delays are those that were planted.
    let counted = bench.tester.counted();
    // They are read one after the other while they change.
    for Counted { timed, delays, longest, .. } in counted {
        assert!(delays / timed > 1_900_000 && longest >= 2_000_000, "{delays} {timed} {longest}");
    }
    let first = bench.tester.stop_ports(&[0], Duration::from_millis(100), &mut || {}).unwrap();
    let [stream] = &first.streams[..] else { panic!("{}", first.streams.len()) };
    assert_eq!((stream.running.port, stream.counted.sent), (0, read(&bench.counts[0].came)));
    assert_eq!(stream.counted.received, stream.counted.sent - stream.counted.sent / 10);
    // The other goes on to its end, and a third begins meanwhile.
    assert_eq!(bench.tester.running().len(), 1);
    bench.tester.start(&profile, &[0], "1kpps".parse().unwrap(), Some(10)).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while !bench.tester.has_ended() && Instant::now() < end {
        wait(&mut bench, 5);
    }
    assert!(bench.tester.port_has_ended(0) && bench.tester.port_has_ended(1));
    let second = bench.tester.stop(Duration::from_millis(100), &mut || {}).unwrap();
    let mut ended: Vec<_> = second
        .streams
        .iter()
        .map(|stream| (stream.running.port, stream.counted.sent, stream.received.packets))
        .collect();
    ended.sort_unstable();
    // Each tenth of all that came was lost, of which the first stream had its share.
    let before = stream.counted.sent;
    assert_eq!(ended, [(0, 10, 10 - ((before + 10) / 10 - before / 10)), (1, 1000, 900)]);
    assert!(bench.tester.running().is_empty());
}

#[test]
fn a_limit_is_of_a_ports_streams_together() {
    let mut bench = Bench::new("");
    let stream = |size| format!("[[stream]]\nsize = {size}\nlayers = [{{ ipv4 = {{}} }}, {{ udp = {{}} }}]\n");
    let profile = Profile::parse("test.toml", &(stream(60) + &stream(1514))).unwrap();
    bench.tester.start(&profile, &[0, 1], "100kpps".parse().unwrap(), Some(777)).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while !bench.tester.has_ended() && Instant::now() < end {
        bench.tester.wait(Instant::now() + Duration::from_millis(5), &mut || {});
    }
    let outcome = bench.tester.stop(Duration::from_millis(100), &mut || {}).unwrap();
    for port in [0, 1] {
        let own = || outcome.streams.iter().filter(|stream| stream.running.port == port);
        assert_eq!(own().map(|stream| stream.counted.sent + stream.counted.refused).sum::<u64>(), 777);
        assert_eq!(
            own().map(|stream| stream.received.packets).sum::<u64>(),
            own().map(|stream| stream.counted.sent).sum::<u64>()
        );
        assert!(own().all(|stream| stream.counted.sent > 300));
    }
}

#[test]
fn what_came_late_was_not_lost() {
    // So many numbers that a gap of the beginning is far behind the window.
    let mut bench = Bench::new("reorder=50,by=3");
    let outcome = bench.run("bench", &[0], "1mpps", Duration::from_millis(500));
    let [stream] = &outcome.streams[..] else { panic!("{}", outcome.streams.len()) };
    assert!(stream.received.reordered > 1000 && stream.counted.lost() == 0, "{:?}", stream.counted);
    assert_eq!((stream.received.losses.len(), stream.received.lost_before), (0, false));
}

#[test]
fn the_last_loss_after_an_overload_has_its_time() {
    let mut bench = Bench::new("lose=2,above=50kpps,recover=50ms");
    let profile = Profile::load("bench").unwrap();
    let wait = |bench: &mut Bench, ms| bench.tester.wait(Instant::now() + Duration::from_millis(ms), &mut || {});
    bench.tester.start(&profile, &[0], "200kpps".parse().unwrap(), None).unwrap();
    wait(&mut bench, 200);
    bench.tester.set_rate(None, "20kpps".parse().unwrap()).unwrap();
    wait(&mut bench, 400);
    let outcome = bench.tester.stop(Duration::from_millis(100), &mut || {}).unwrap();
    let [stream] = &outcome.streams[..] else { panic!("{}", outcome.streams.len()) };
    let fell = outcome.rate_changed.expect("it was changed");
    let last = *stream.received.losses.last().expect("half of it was lost");
    let after = graph::time::seconds(last.saturating_sub(fell));
    // The device looks every ten milliseconds how much comes; the machine may have been away meanwhile.
    assert!((0.045..0.065).contains(&after) || !outcome.pauses.is_empty(), "{after} {:?}", outcome.pauses);
    assert_eq!(stream.counted.sent - stream.received.packets, read(&bench.counts[0].lost));
}

#[test]
fn of_many_ports_some_may_end_and_begin_again() {
    let mut tester = Tester::new(&Options::default()).unwrap();
    let mut counts = Vec::new();
    for pair in 0..2 {
        let wire = wire(&Impairments::default());
        for (number, end) in wire.ends.into_iter().enumerate() {
            tester.add_device(&format!("end {number} of {pair}"), end).unwrap();
        }
        counts.extend(wire.counts);
    }
    tester.await_ready(&mut || {}).unwrap();
    let profile = Profile::load("bench").unwrap();
    let rate: Rate = "5kpps".parse().unwrap();
    let wait = |tester: &mut Tester| tester.wait(Instant::now() + Duration::from_millis(50), &mut || {});
    let mut sent = 0;
    // Whoever's turn it was is gone, time and again.
    for (ports, ending) in [(&[0, 1, 2, 3][..], &[0, 1][..]), (&[0, 1], &[2, 3]), (&[3], &[0, 1, 3]), (&[2], &[2])] {
        tester.start(&profile, ports, rate, None).unwrap();
        wait_until(&mut tester, "all of them send", |tester| tester.counted().iter().all(|one| one.sent > 100));
        let outcome = tester.stop_ports(ending, Duration::from_millis(30), &mut || {}).unwrap();
        assert_eq!(outcome.streams.len(), ending.len());
        for stream in &outcome.streams {
            assert!(ending.contains(&stream.running.port), "{:?}", stream.counted);
            assert_eq!(stream.counted.sent, stream.received.packets);
            sent += stream.counted.sent;
        }
        wait(&mut tester);
    }
    assert!(tester.running().is_empty());
    assert_eq!(sent, counts.iter().map(|counts| read(&counts.came)).sum::<u64>());
}
