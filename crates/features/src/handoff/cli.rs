//! Commands on hand-off, as VPP has them.

use super::control::{self, Handoff};
use command::{Args, Command, CommandSet, Done, reply};
use router::Router;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "set interface handoff <interface:interface> {workers <workers:word> [{symmetrical|asymmetrical : \
             kind}] | disable : what}",
            "Spread the packets of an interface over workers by flow, or process them where they are received. \
             Workers are numbered from 0. With `symmetrical`, both directions of a flow go to one worker.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                let handoff = match args.optional_text("workers") {
                    None => None,
                    Some(_) => Some(Handoff {
                        workers: args.parse("workers")?,
                        symmetrical: args.optional_text("kind") == Some("symmetrical"),
                    }),
                };
                control::set(router, index, handoff)?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface handoff e0 workers 0-1 symmetrical")
        .example("set interface handoff e0 disable"),
    );
}
