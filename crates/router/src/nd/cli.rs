//! Commands on Neighbor Discovery.

use super::dad::MAX_TRANSMITS;
use crate::Router;
use command::{Args, Command, CommandSet, Done, reply};

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "IPv6 Neighbor Discovery",
        "Before an address is used, the link is asked whether another station has it (RFC 4862); `show ip6 interface' marks \
         one that is still asked about as tentative, and one that another station has as duplicate: that is not used until \
         the interface goes down and up, or the address is stated anew.",
    );
    set.add(
        Command::new(
            &format!("set ip6 dad {{transmits <transmits:u32 0..{MAX_TRANSMITS}> | default}}"),
            "Set how often the link is asked whether another station has an address before that is used, a second apart \
             (RFC 4862: once); 0: addresses are used at once.",
            |router: &mut Router, args: &Args| {
                router.set_dad_transmits(args.optional("transmits")?);
                reply(Done)
            },
        )
        .configures()
        .example("set ip6 dad transmits 2")
        .example("set ip6 dad default"),
    );
}
