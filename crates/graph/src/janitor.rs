//! Where workers leave what takes long to put away.
//!
//! To close a TAP or a packet socket takes the kernel tens of milliseconds: it waits until no
//! processor uses the device any more. No worker shall wait for that; so a thread of its own does, and
//! control waits only when it wants the same device again.

use crossbeam_channel::{Sender, bounded, unbounded};
use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// How long control waits for what the kernel puts away.
const PATIENCE: Duration = Duration::from_secs(2);

/// A way to the janitor.
#[derive(Clone, Default)]
pub struct Janitor(Arc<OnceLock<Sender<Box<dyn Any + Send>>>>);

impl Janitor {
    /// Starts the thread, with the core and the priority of the caller's: to be called before workers run.
    pub fn start(&self) {
        self.sender();
    }

    fn sender(&self) -> &Sender<Box<dyn Any + Send>> {
        self.0.get_or_init(|| {
            let (sender, receiver) = unbounded::<Box<dyn Any + Send>>();
            let work = move || receiver.into_iter().for_each(drop);
            if let Err(error) = thread::Builder::new().name("quiver_janitor".into()).spawn(work) {
                log::warn!("devices are closed by who used them last, which takes long: {error}");
            }
            sender
        })
    }

    /// Has something dropped, some time.
    pub fn close_later(&self, what: impl Any + Send) {
        // Without a janitor it comes back, and is dropped here.
        let _ = self.sender().send(Box::new(what));
    }

    /// Waits until all that was left before is put away, but not for ever; whether it is.
    pub fn wait(&self) -> bool {
        struct Tell(Sender<()>);
        impl Drop for Tell {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        if self.0.get().is_none() {
            return true;
        }
        let (sender, receiver) = bounded(1);
        self.close_later(Tell(sender));
        receiver.recv_timeout(PATIENCE).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::ThreadId;

    #[test]
    fn what_is_left_is_dropped_by_the_janitor_in_order() {
        struct Noted(Arc<Mutex<Vec<(u32, ThreadId)>>>, u32);
        impl Drop for Noted {
            fn drop(&mut self) {
                self.0.lock().unwrap().push((self.1, thread::current().id()));
            }
        }
        let (janitor, dropped) = (Janitor::default(), Arc::default());
        assert!(janitor.wait());
        for number in 0..3 {
            janitor.close_later(Noted(Arc::clone(&dropped), number));
        }
        assert!(janitor.wait());
        let dropped = dropped.lock().unwrap();
        assert_eq!(dropped.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(dropped.iter().all(|(_, thread)| *thread != thread::current().id()));
    }

    #[test]
    fn what_is_left_before_the_last_caller_goes_is_dropped() {
        let gone = Arc::new(AtomicBool::new(false));
        struct Last(Arc<AtomicBool>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let janitor = Janitor::default();
        janitor.close_later(Last(gone.clone()));
        drop(janitor);
        while !gone.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    }
}
