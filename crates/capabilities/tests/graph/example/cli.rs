//! The command on floors.

use command::{Args, Command, CommandSet, Done, reply};
use router::Router;

pub fn register(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "set interface ttl-floor <interface:interface> {<floor:u32 0..255> | del : what}",
            "Drop packets that an interface receives with a lower time to live, or no longer.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                super::set(router, index, args.optional::<u32>("floor")?.map(|floor| floor as u8))?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface ttl-floor e0 5"),
    );
}
