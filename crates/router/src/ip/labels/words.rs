//! What commands say of labels that routes and labels have in common.

use super::out::{OutLabels, Stated};
use command::{Args, CommandError, fail};
use wire::Family;

/// What a path puts before packets.
pub const OUT_LABELS: &str = "[out-labels (<label:u32 0..1048575> : labels)+] [{pipe | uniform : model}] \
 [ttl <ttl:u32 1..255>] [exp <exp:u32 0..7>]";

/// The labels that a path puts before packets.
pub fn out_labels(path: &Args) -> Result<OutLabels, CommandError> {
    let labels = path.groups("labels").map(|label| label.parse("label")).collect::<Result<Vec<u32>, _>>()?;
    let (ttl, traffic_class) = (path.optional("ttl")?, path.optional("exp")?);
    let is_uniform = path.optional_text("model") == Some("uniform");
    if is_uniform && (ttl.is_some() || traffic_class.is_some()) {
        return fail("'uniform' has ttl and exp copied: leave those out, or say 'pipe'");
    }
    Ok(Stated { labels, is_uniform, ttl, traffic_class }.shared())
}

/// What commands call a family in `ip4-lookup-in-table`.
pub(crate) fn lookup_word(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "ip4-lookup-in-table",
        Family::Ip6 => "ip6-lookup-in-table",
    }
}

/// The command that takes a table away: what other statements name it by.
pub fn removal(id: u32) -> String {
    format!("mpls table del {id}")
}
