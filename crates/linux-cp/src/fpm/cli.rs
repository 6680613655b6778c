//! `show fpm`.

use super::control::Fpm;
use command::{Args, Command, CommandSet, reply};
use router::Router;
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.section("The Linux control plane", "");
    set.add(
        Command::new(
            "show fpm",
            "Show the connection of a routing daemon that says its routes by the Forwarding Plane Manager's protocol: \
             messages, routes, changes that wait, and how many routes it heard of that forward.",
            |router: &mut Router, _: &Args| reply(show(router)),
        )
        .example("show fpm"),
    );
}

#[derive(Serialize)]
struct ShowFpm {
    /// None: `startup.conf` has no section `fpm` with `listen`.
    listen: Option<String>,
    listens: bool,
    /// Why nobody can connect.
    reason: Option<String>,
    peer: Option<String>,
    sessions: u64,
    frames: u64,
    messages: u64,
    malformed: u64,
    not_followed: u64,
    objects: u64,
    prefixes: u64,
    backlog: u64,
    batches: u64,
    changes: u64,
    refused: u64,
    stale: u64,
    offloaded: u64,
    failed: u64,
    unsaid: u64,
    lag_us: u64,
    longest_lag_us: u64,
}

fn show(router: &Router) -> ShowFpm {
    let fpm = router.state::<Fpm>();
    let (state, counts) = (fpm.state(), fpm.counts());
    ShowFpm {
        listen: fpm.settings.as_ref().map(|settings| settings.listen.to_string()),
        listens: state.listens,
        reason: state.error,
        peer: state.peer.map(|peer| peer.to_string()),
        sessions: counts.sessions.get(),
        frames: counts.frames.get(),
        messages: counts.messages.get(),
        malformed: counts.malformed.get(),
        not_followed: counts.not_followed.get(),
        objects: counts.objects.get(),
        prefixes: counts.prefixes.get(),
        backlog: counts.backlog.get(),
        batches: counts.batches.get(),
        changes: counts.changes.get(),
        refused: counts.refused.get(),
        stale: counts.stale.get(),
        offloaded: counts.offloaded.get(),
        failed: counts.failed.get(),
        unsaid: counts.unsaid.get(),
        lag_us: counts.lag.get(),
        longest_lag_us: counts.longest_lag.get(),
    }
}

impl fmt::Display for ShowFpm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(listen) = &self.listen else {
            return writeln!(f, "not in use: startup.conf has no 'fpm {{ listen 127.0.0.1:2620 }}'");
        };
        let state = match (&self.peer, &self.reason, self.listens) {
            (Some(peer), ..) => format!("connected from {peer}"),
            (None, Some(reason), _) => format!("not listening: {reason}"),
            (None, None, true) => "waiting for a routing daemon".into(),
            (None, None, false) => "not listening yet: there is no pair".into(),
        };
        writeln!(f, "{listen}: {state}")?;
        let ShowFpm { sessions, frames, messages, malformed, not_followed, .. } = self;
        writeln!(f, "  sessions {sessions}, frames {frames}")?;
        writeln!(f, "  messages {messages}, malformed {malformed}, not followed {not_followed}")?;
        let ShowFpm { objects, prefixes, backlog, .. } = self;
        writeln!(f, "  next hops {objects}, prefixes {prefixes}, backlog {backlog}")?;
        let ShowFpm { batches, changes, refused, stale, .. } = self;
        writeln!(f, "  batches {batches}, changes {changes}, refused {refused}, stale routes {stale}")?;
        let ShowFpm { offloaded, failed, unsaid, .. } = self;
        writeln!(f, "  answers: offloaded {offloaded}, failed {failed}, no room {unsaid}")?;
        let milliseconds = |us: u64| us as f64 / 1000.0;
        writeln!(f, "  lag {:.1} ms, longest {:.1} ms", milliseconds(self.lag_us), milliseconds(self.longest_lag_us))
    }
}
