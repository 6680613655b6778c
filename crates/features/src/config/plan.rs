//! From what is stated to what shall be: which commands to give, in which order, and how to
//! take each back.

use router::capability::Statement;
use std::collections::{HashMap, HashSet};

/// A command and the one that takes it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    pub undo: String,
}

/// What differs: lines that go and lines that come, as an operator reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    pub removed: Vec<String>,
    pub added: Vec<String>,
}

impl Difference {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    pub fn between(now: &[Statement], wanted: &[Statement]) -> Difference {
        // What is stated again in another place of its series differs, too.
        let moved: HashSet<&str> = out_of_order(now, wanted, &unwanted(now, wanted)).into_iter().collect();
        let lines = |statements: &[Statement]| statements.iter().map(|s| s.line.clone()).collect::<HashSet<String>>();
        let missing = |from: &[Statement], other: &HashSet<String>| {
            let differs = |s: &&Statement| !other.contains(&s.line) || moved.contains(s.undo.as_str());
            from.iter().filter(differs).map(|s| s.line.clone()).collect()
        };
        Difference { removed: missing(now, &lines(wanted)), added: missing(wanted, &lines(now)) }
    }
}

type ByName<'a> = HashMap<&'a str, &'a Statement>;

fn by_name(statements: &[Statement]) -> ByName<'_> {
    statements.iter().map(|statement| (statement.undo.as_str(), statement)).collect()
}

/// The steps from `now` to `wanted`. Devices that can be opened at once are opened first:
/// that is what may fail, and nothing was taken away by then.
pub fn steps(now: &[Statement], wanted: &[Statement]) -> Vec<Step> {
    let (known, gone) = (by_name(now), gone(now, wanted));
    let claimed: HashSet<&str> = now
        .iter()
        .filter(|s| gone.contains(s.undo.as_str()))
        .flat_map(|s| s.claims.iter().map(String::as_str))
        .collect();
    let opens_now = |statement: &Statement| {
        let claims = &statement.claims;
        let are_free = !claims.is_empty() && !claims.iter().any(|claim| claimed.contains(claim.as_str()));
        // What it rests on is there and stays.
        let stays = |need: &String| known.contains_key(need.as_str()) && !gone.contains(need.as_str());
        are_free && !known.contains_key(statement.undo.as_str()) && statement.needs.iter().all(stays)
    };
    let state = |s: &Statement| Step { command: s.line.clone(), undo: s.undo.clone() };
    let take_away = |s: &Statement| Step { command: s.undo.clone(), undo: s.line.clone() };

    let mut steps: Vec<Step> = wanted.iter().filter(|s| opens_now(s)).map(state).collect();
    steps.extend(now.iter().rev().filter(|s| gone.contains(s.undo.as_str())).map(take_away));
    for statement in wanted.iter().filter(|s| !opens_now(s)) {
        match known.get(statement.undo.as_str()) {
            Some(old) if !gone.contains(old.undo.as_str()) => {
                // What is no replacement of the old one is the same.
                if let (true, Some(command)) = (old.line != statement.line, &statement.replace) {
                    let undo = old.replace.as_ref().unwrap_or(&old.line).clone();
                    steps.push(Step { command: command.clone(), undo });
                }
            }
            _ => steps.push(state(statement)),
        }
    }
    steps
}

/// The statements that have to be taken away, by name: unwanted ones, those that cannot be
/// replaced, those out of order, and whatever rests on them, even if it is stated again.
fn gone<'a>(now: &'a [Statement], wanted: &'a [Statement]) -> HashSet<&'a str> {
    let mut gone = unwanted(now, wanted);
    gone.extend(out_of_order(now, wanted, &gone));
    gone
}

fn unwanted<'a>(now: &'a [Statement], wanted: &'a [Statement]) -> HashSet<&'a str> {
    let aim = by_name(wanted);
    let mut gone: HashSet<&str> = HashSet::new();
    for statement in now {
        let stays = aim.get(statement.undo.as_str()).is_some_and(|other| {
            other.line == statement.line || (statement.replace.is_some() && other.replace.is_some())
        });
        if !stays || statement.needs.iter().any(|need| gone.contains(need.as_str())) {
            gone.insert(&statement.undo);
        }
    }
    gone
}

/// Of each series, what comes after the first place where what stays is not in the order
/// wanted: what stays comes before what is added.
fn out_of_order<'a>(now: &'a [Statement], wanted: &'a [Statement], gone: &HashSet<&str>) -> Vec<&'a str> {
    fn of<'a>(statements: &'a [Statement], name: &str) -> impl Iterator<Item = &'a str> {
        statements.iter().filter(move |s| s.series.as_deref() == Some(name)).map(|s| s.undo.as_str())
    }
    let mut names: Vec<&str> = now.iter().filter_map(|s| s.series.as_deref()).collect();
    names.dedup();
    let of_series = |name: &str| -> Vec<&'a str> {
        let staying: Vec<&str> = of(now, name).filter(|undo| !gone.contains(undo)).collect();
        let right = staying.iter().zip(of(wanted, name)).take_while(|(has, shall)| **has == *shall).count();
        staying[right..].to_vec()
    };
    names.into_iter().flat_map(of_series).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(line: &str) -> Statement {
        Statement::new(line.into(), format!("no {line}"))
    }

    fn commands(now: &[Statement], wanted: &[Statement]) -> Vec<String> {
        steps(now, wanted).into_iter().map(|step| step.command).collect()
    }

    #[test]
    fn what_is_equal_is_left_alone() {
        let both = [plain("a"), plain("b").needing("no a")];
        assert_eq!(steps(&both, &both), []);
        assert!(Difference::between(&both, &both).is_empty());
    }

    #[test]
    fn what_goes_goes_backwards_and_what_comes_comes_forwards() {
        let now = [plain("a"), plain("b").needing("no a"), plain("c")];
        let wanted = [plain("c"), plain("d"), plain("e")];
        assert_eq!(commands(&now, &wanted), ["no b", "no a", "d", "e"]);
    }

    #[test]
    fn what_rests_on_something_made_anew_is_made_anew_too() {
        let interface = |line: &str| Statement::new(line.into(), "delete e0".into());
        let now = [interface("tap e0"), plain("address").needing("delete e0"), plain("route")];
        let wanted = [interface("pg e0"), plain("address").needing("delete e0"), plain("route")];
        assert_eq!(commands(&now, &wanted), ["no address", "delete e0", "pg e0", "address"]);
        let difference = Difference::between(&now, &wanted);
        assert_eq!((difference.removed, difference.added), (vec!["tap e0".into()], vec!["pg e0".to_string()]));
    }

    #[test]
    fn what_can_be_replaced_is_and_the_way_back_replaces_too() {
        let route = |paths: &str| {
            let mut route = Statement::new(format!("add {paths}"), "del".into());
            route.replace = Some(format!("replace {paths}"));
            route
        };
        let found = steps(&[route("x")], &[route("y")]);
        assert_eq!(found, [Step { command: "replace y".into(), undo: "replace x".into() }]);
    }

    #[test]
    fn devices_are_opened_before_anything_is_taken_away_unless_the_old_one_is_in_the_way() {
        let device =
            |name: &str, claims: [&str; 2]| Statement { claims: claims.map(String::from).into(), ..plain(name) };
        let now = [device("old", ["eth0", "number 0"]), plain("x")];
        let elsewhere = [device("new", ["eth1", "number 1"])];
        assert_eq!(commands(&now, &elsewhere), ["new", "no x", "no old"]);
        for in_the_way in [["eth0", "number 1"], ["eth1", "number 0"]] {
            let same_place = [device("new", in_the_way)];
            assert_eq!(commands(&now, &same_place), ["no x", "no old", "new"]);
        }
    }

    #[test]
    fn a_series_ends_in_the_order_wanted() {
        let series = |names: &[&str]| -> Vec<Statement> {
            names.iter().map(|name| Statement { series: Some("s".into()), ..plain(name) }).collect()
        };
        for (now, wanted) in [
            (&["a", "b"][..], &["b", "a"][..]),
            (&["a", "b"], &["b"]),
            (&["b"], &["a", "b"]),
            (&["a", "b", "c"], &["a", "c", "d", "b"]),
            (&["a", "b", "c"], &["c"]),
        ] {
            let mut state: Vec<String> = now.iter().map(ToString::to_string).collect();
            for step in steps(&series(now), &series(wanted)) {
                match step.command.strip_prefix("no ") {
                    Some(name) => state.retain(|known| known != name),
                    None => state.push(step.command),
                }
            }
            assert_eq!(state, wanted, "from {now:?}");
        }
        assert_eq!(commands(&series(&["a", "b"]), &series(&["b"])), ["no a"], "what stays is not touched");
        let swapped = Difference::between(&series(&["a", "b", "c"]), &series(&["a", "c", "b"]));
        assert_eq!((swapped.removed, swapped.added), (vec!["b".into(), "c".into()], vec!["c".into(), "b".into()]));
    }
}
