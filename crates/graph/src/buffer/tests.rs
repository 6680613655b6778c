use super::*;

#[test]
fn magazines_that_follow_each_other_lie_far_apart() {
    for count in [4, 5, 64, 100, 65536] {
        let order: Vec<u32> = apart(count).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..count), "each comes once");
        let near = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < count / 4).count();
        assert!(near <= order.len() / 4, "{near} of {count} are near the one before");
    }
}

#[test]
fn every_buffer_can_be_had_once_and_comes_back() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let mut all = vec![PacketIndex(0); 1500];
    assert_eq!(buffers.allocate(&mut all), 1024);
    let mut seen: Vec<u32> = all[..1024].iter().map(|p| p.0).collect();
    seen.sort();
    assert_eq!(seen, (0..1024).collect::<Vec<_>>());
    assert_eq!(buffers.allocate_one(), None);
    buffers.free(&all[..1024]);
    assert_eq!(buffers.in_use(), 0);
    assert_eq!(buffers.cached(), 1024);
    drop(buffers);
    assert_eq!(pool.available(), 1024);
}

#[test]
fn nobody_who_has_the_file_makes_it_shorter_or_longer() {
    let pool = Pool::new(1024, false).unwrap();
    let file = pool.file().try_clone_to_owned().unwrap();
    let length = fs::fstat(&file).unwrap().st_size as u64;
    assert_eq!(length, pool.memory().1 as u64);
    for other in [0, length - 4096, length + 4096] {
        assert!(fs::ftruncate(&file, other).is_err(), "{other}");
    }
}

#[test]
fn order_of_reuse_is_last_freed_or_oldest_freed() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let mut two = [PacketIndex(0); 2];
    buffers.allocate(&mut two);
    buffers.free(&two);
    let mut again = [PacketIndex(0); 2];
    buffers.allocate(&mut again);
    assert_eq!(again, two);
    buffers.free(&again);
    buffers.set_reuse(Reuse::OldestFreed);
    let mut other = [PacketIndex(0); 2];
    buffers.allocate(&mut other);
    assert_ne!(other, two);
}

#[test]
fn a_surplus_goes_back_to_the_pool() {
    let pool = Pool::new(4096, false).unwrap();
    let mut buffers = Buffers::new(&pool, 512);
    let mut many = vec![PacketIndex(0); 2048];
    assert_eq!(buffers.allocate(&mut many), 2048);
    buffers.free(&many);
    assert!(buffers.cached() <= 512);
    assert_eq!(pool.available() + buffers.cached(), 4096);
}

#[test]
fn chains_are_freed_whole() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let (a, b) = (buffers.allocate_one().unwrap(), buffers.allocate_one().unwrap());
    buffers.segment_mut(a).set_next(Some(b));
    buffers.free_chain(a);
    assert_eq!(buffers.in_use(), 0);
}

/// What a fault of the program is reported as; `None` in builds that do not check.
fn fault(what: impl FnOnce()) -> Option<String> {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what)).err()?;
    Some(*panic.downcast::<String>().unwrap())
}

#[test]
fn a_buffer_that_is_not_the_callers_is_a_panic_that_names_both() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    let mut others = Buffers::new(&pool, 1024);
    buffers.set_owner_name("worker 0");
    others.set_owner_name("worker 1");
    let packet = buffers.allocate_one().unwrap();
    let said = |what: &str| CHECKED.then(|| format!("buffer {} {what}", packet.0));
    let touched = fault(|| {
        others.bytes(packet);
    });
    assert_eq!(touched, said("is held by worker 0, and worker 1 touched it"));
    assert_eq!(fault(|| others.free(&[packet])), said("is held by worker 0, and worker 1 freed it"));
    assert_eq!(
        fault(|| {
            others.frames(&[packet], &[256]);
        }),
        said("is held by worker 0, and worker 1 touched it")
    );
    buffers.send_away(packet);
    others.bytes_mut(packet)[256] = 1;
    let again = fault(|| buffers.bytes_mut(packet)[256] = 2);
    assert_eq!(again, said("is held by worker 1, and worker 0 touched it"));
    others.free(&[packet]);
    assert_eq!(fault(|| buffers.free(&[packet])), said("is free, last used by worker 1, and worker 0 freed it"));
    assert!(
        fault(|| {
            buffers.bytes(PacketIndex::NONE);
        })
        .is_some(),
        "no packet"
    );
}

#[test]
fn nobody_touches_what_a_device_has() {
    let pool = Pool::new(1024, false).unwrap();
    let mut buffers = Buffers::new(&pool, 1024);
    buffers.set_owner_name("worker 0");
    let mut lent = crate::Lent::new(&pool);
    let packet = buffers.allocate_one().unwrap();
    lent.lend(packet);
    let said = format!("buffer {} was lent to a device by worker 0, and worker 0 touched it", packet.0);
    assert_eq!(fault(|| buffers.segment_mut(packet).set_next(None)), CHECKED.then_some(said));
    let back = lent.regain(packet.0).unwrap();
    buffers.free(&[back]);
}

#[test]
fn pool_sizes_out_of_range_are_refused() {
    assert!(Pool::new(10, false).is_err());
    assert!(Pool::new(u32::MAX, false).is_err());
}
