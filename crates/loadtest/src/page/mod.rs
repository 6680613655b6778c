//! Sessions as one page: charts, tables, and the machine that they ran on. The page loads nothing from the network.

mod axes;
mod charts;
mod head;
mod palette;

use crate::arithmetic::{scaled, significant};
use crate::load::WorkerLoad;
use crate::method::matrix::Matrix;
use crate::method::ramp::{Overload, Ramp};
use crate::method::saturate::Saturation;
use crate::method::search::Search;
use crate::method::soak::Soak;
use crate::method::sweep::Sweep;
use crate::session::{Session, Test};
use charts::{Chart, Key, Named};
use palette::Colours;
use plotters::style::RGBColor;
use std::fmt::Write;

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#1a1f24;background:#fff}\
h1{font-size:1.6em}h2{margin-top:2em;border-bottom:2px solid #d0d7de;padding-bottom:.2em}h3{margin-bottom:.3em}\
table{border-collapse:collapse;margin:1em 0}th,td{padding:.25em .8em;border-bottom:1px solid #d0d7de;text-align:right}\
th:first-child,td:first-child,.words{text-align:left}td:first-child{white-space:nowrap}th{background:#f3f5f7}\
figure{margin:1.5em 0}figure svg{max-width:100%;height:auto;border:1px solid #d0d7de}\
ul.legend{list-style:none;padding:0;margin:.3em 0;display:flex;flex-wrap:wrap;gap:.2em 1.4em}\
ul.legend span{display:inline-block;width:.9em;height:.9em;margin-right:.4em;vertical-align:-.1em}\
pre{overflow-x:auto;font-size:.8em}\
table.facts td:first-child{color:#57606a}table.facts td{padding:.15em .8em .15em 0}\
p.summary{font-size:1.15em}p.others{border-left:4px solid #d0d7de;padding-left:.8em}\
ul.legend span.dashed{height:0;border-top:3px dashed;background:none!important;vertical-align:.25em}\
figcaption,.small{color:#57606a;font-size:.9em}code{background:#f3f5f7;padding:.1em .3em}";

/// The beginning of a page.
pub const BEGINNING: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
                             <meta name=\"generator\" content=\"quiver loadtest\">";

/// The page of some sessions; several sessions share each chart.
pub fn page(sessions: &[Session]) -> String {
    let mut out = String::from(BEGINNING);
    out += "<meta name=\"viewport\" content=\"width=device-width\">";
    let _ = write!(out, "<title>{}</title>", escaped(&head::title(sessions)));
    out += "<link rel=\"icon\" href=\"data:,\">";
    let _ = writeln!(out, "<style>{STYLE}</style></head><body>");
    head::write(&mut out, sessions);
    let colours = &mut Colours::default();
    let matrices: Vec<&Matrix> =
        tests(sessions, |test| if let Test::Matrix(matrix) = test { Some(matrix) } else { None });
    let ramps: Vec<&Ramp> = tests(sessions, |test| if let Test::Ramp(ramp) = test { Some(&**ramp) } else { None });
    let saturations: Vec<&Saturation> =
        tests(sessions, |test| if let Test::Saturate(saturation) = test { Some(saturation) } else { None });
    let sweeps: Vec<&Sweep> = tests(sessions, |test| if let Test::Sweep(sweep) = test { Some(sweep) } else { None });
    if !matrices.is_empty() {
        of_matrices(&mut out, &matrices, colours);
    }
    if !ramps.is_empty() {
        of_ramps(&mut out, &ramps, colours);
    }
    for saturation in saturations {
        of_saturation(&mut out, saturation, colours);
    }
    if !sweeps.is_empty() {
        of_sweeps(&mut out, &sweeps, colours);
    }
    let soaks: Vec<&Soak> = tests(sessions, |test| if let Test::Soak(soak) = test { Some(&**soak) } else { None });
    soaks.into_iter().enumerate().for_each(|(number, soak)| of_soak(&mut out, number, soak, colours));
    let searches: Vec<&Search> =
        tests(sessions, |test| if let Test::Search(search) = test { Some(&**search) } else { None });
    if !searches.is_empty() {
        of_searches(&mut out, &searches, colours);
    }
    provenance(&mut out, sessions);
    out + "</body></html>\n"
}

fn tests<'a, T>(sessions: &'a [Session], which: impl Fn(&'a Test) -> Option<&'a T>) -> Vec<&'a T> {
    sessions.iter().flat_map(|session| &session.tests).filter_map(which).collect()
}

/// Text with markup characters escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            c if c.is_control() && c != '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn figure(out: &mut String, name: &str, chart: &Chart, caption: &str) {
    let _ = write!(out, "<figure id=\"{name}\">{}<ul class=\"legend\">", chart.svg);
    for Key { name, colour: RGBColor(red, green, blue), is_dashed } in &chart.legend {
        let class = if *is_dashed { " class=\"dashed\"" } else { "" };
        let rgb = format!("rgb({red},{green},{blue})");
        let _ =
            write!(out, "<li><span{class} style=\"background:{rgb};border-color:{rgb}\"></span>{}</li>", escaped(name));
    }
    let _ = writeln!(out, "</ul><figcaption>{}</figcaption></figure>", escaped(caption));
}

fn of_matrices(out: &mut String, matrices: &[&Matrix], colours: &mut Colours) {
    *out += "<h2>Large and small packets, one way and both</h2>\n";
    figure(
        out,
        "comparison",
        &charts::comparison(matrices, colours),
        "Packets a second that came through, all ports together. The line's rate was offered; marks show what could \
         be sent.",
    );
    for matrix in matrices {
        let mode = matrix.rows.iter().find_map(|row| row.trial.as_ref()?.device_mode.as_deref());
        let _ = writeln!(
            out,
            "<h3>{}</h3>\n<p>{}</p>\n<table><tr><th>{}</th><th>L2 bits/sec</th><th>Packets/sec</th><th>% of \
             Line-Rate</th><th>lost, %</th>\
             <th>p50, us</th><th>p99, us</th><th>max, us</th><th class=\"words\">verdict</th></tr>",
            escaped(&matrix.device),
            escaped(mode.unwrap_or_default()),
            escaped(&format!("of {}bit/s lines", scaled(matrix.line_bps)))
        );
        for row in &matrix.rows {
            let Some(trial) = &row.trial else {
                let why = row.left_out.as_deref().unwrap_or("not run");
                let _ = writeln!(
                    out,
                    "<tr><td>{}</td><td class=\"words\" colspan=\"8\">left out: {}</td></tr>",
                    escaped(&row.name),
                    escaped(why)
                );
                continue;
            };
            let us = |of: fn(&crate::report::Percentiles) -> f64| {
                trial.latency.as_ref().map_or("-".into(), |all| significant(of(all)))
            };
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}bps</td><td>{}pps</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td \
                 class=\"words\" title=\"{}\">{}</td></tr>",
                escaped(&row.name),
                scaled(trial.l2_bps),
                scaled(trial.received_pps),
                trial.percent_of_line.map_or("-".into(), |percent| format!("{percent:.1}")),
                significant(100.0 * trial.lost_share),
                us(|all| all.p50),
                us(|all| all.p99),
                us(|all| all.max),
                escaped(&trial.verdict.evidence.join("; ")),
                escaped(&trial.verdict_words()),
            );
        }
        *out += "</table>\n";
        let id = escaped(&matrix.device);
        figure(
            out,
            &format!("timeline-{id}"),
            &charts::timeline(matrix, colours),
            "Packets a second, one test after the other, on a logarithmic scale.",
        );
        if matrix.rows.iter().any(|row| row.trial.as_ref().is_some_and(|trial| !trial.device_load.is_empty())) {
            figure(
                out,
                &format!("clocks-{id}"),
                &charts::clocks(&matrix.device, &charts::of_matrix(matrix), colours),
                "Clocks of the processor for each packet, node by node; asking devices that had nothing is left out.",
            );
            figure(
                out,
                &format!("cpu-{id}"),
                &charts::shares(&matrix.device, &charts::of_matrix(matrix)),
                "Where the time of the workers went: input, graph, output, idle polls (driver polling), waiting \
                 (epoll) and between nodes.",
            );
        }
        figure(
            out,
            &format!("latency-{id}"),
            &charts::latency(matrix, colours),
            "Delay, one way, of the slowest stream, on a logarithmic scale. Tests in both directions are dashed.",
        );
        energies(out, &charts::of_matrix(matrix));
        *out += "<details><summary>Verdicts with their evidence</summary><ul>\n";
        for row in &matrix.rows {
            if let Some(trial) = &row.trial {
                let _ = writeln!(out, "<li><b>{}</b>: {}</li>", escaped(&row.name), escaped(&trial.verdict.line()));
            }
        }
        *out += "</ul></details>\n";
    }
}

/// Energy per packet, where it is known.
fn energies(out: &mut String, trials: &Named<'_>) {
    let known: Vec<_> = trials.iter().filter_map(|(name, trial)| Some((name, trial.energy.as_ref()?))).collect();
    let Some((_, first)) = known.first() else { return };
    let _ = writeln!(
        out,
        "<table><tr><th>energy, {}</th><th>W</th><th>W when idle</th><th>uJ a packet</th><th>above idle</th></tr>",
        escaped(&first.source)
    );
    for (name, energy) in &known {
        let cells = [energy.watts, energy.idle_watts, energy.microjoules, energy.microjoules_above_idle]
            .map(|value| format!("<td>{}</td>", significant(value)));
        let _ = writeln!(out, "<tr><td>{}</td>{}</tr>", escaped(name), cells.concat());
    }
    *out += "</table>\n";
}

fn of_ramps(out: &mut String, ramps: &[&Ramp], colours: &mut Colours) {
    *out += "<h2>Up to the line's rate</h2>\n<table><tr><th>device, profile</th><th>overload at</th><th>sent \
     there</th><th>% of line</th>\
             <th>most that came</th><th>% of line</th><th>scaling</th><th class=\"words\">verdict</th></tr>\n";
    for ramp in ramps {
        let at = |of: fn(&Overload) -> String| ramp.overload.as_ref().map_or(ramp.not_found(), of);
        let first = ramps
            .iter()
            .find(|other| other.total.device == ramp.total.device && other.total.profile == ramp.total.profile);
        let scaling = first.and_then(|first| ramp.scaling(first));
        let scaling = scaling.map_or("no result".into(), |scaling| format!("{scaling:.2}"));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}pps</td><td>{:.1}</td><td>{scaling}</td><td \
             class=\"words\" title=\"{}\">{}</td></tr>",
            escaped(&name(ramp)),
            at(|at| format!("{:.1} s", at.at)),
            at(|at| format!("{}pps", scaled(at.sent_pps))),
            at(|at| format!("{:.1}", at.percent)),
            scaled(ramp.max_pps),
            ramp.max_percent,
            escaped(&ramp.total.verdict.evidence.join("; ")),
            escaped(&ramp.total.verdict_words()),
        );
    }
    *out += "</table>\n";
    let mut profiles: Vec<&str> = ramps.iter().map(|ramp| ramp.total.profile.as_str()).collect();
    profiles.sort_unstable();
    profiles.dedup();
    for profile in profiles {
        let of_profile: Vec<&Ramp> = ramps.iter().copied().filter(|ramp| ramp.total.profile == profile).collect();
        let _ = writeln!(out, "<h3>{}</h3>", escaped(profile));
        let id = escaped(profile);
        figure(
            out,
            &format!("ramp-{id}"),
            &charts::ramp(&of_profile, colours),
            "Packets a second that were sent and that came, and on the right the share of the lines. The mark is \
             where loss begins that goes on to the end.",
        );
        figure(out, &format!("loss-{id}"), &charts::loss(&of_profile, colours), "Loss, in percent of what was sent.");
    }
}

fn of_saturation(out: &mut String, found: &Saturation, colours: &mut Colours) {
    let _ = writeln!(
        out,
        "<h2>One core of {}</h2>\n<p>{} at most, with {}: {}.</p>\n<table><tr><th>rate</th>\
         <th>received</th><th>lost, %</th><th>cycles/packet</th><th>vectors/call</th><th>idle polls, \
         %</th><th class=\"words\">verdict</th></tr>",
        escaped(&found.device),
        escaped(&found.most()),
        escaped(&found.profile),
        escaped(
            found
                .steps
                .first()
                .and_then(|step| step.trial.device_mode.as_deref())
                .unwrap_or("what is inside is not known")
        ),
    );
    for step in &found.steps {
        let of =
            |figure: fn(&WorkerLoad) -> f64| step.worker().map_or("-".into(), |worker| significant(figure(worker)));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}pps</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"words\" \
             title=\"{}\">{}</td></tr>",
            escaped(&step.rate),
            scaled(step.trial.received_pps),
            significant(100.0 * step.trial.lost_share),
            of(WorkerLoad::clocks_per_packet),
            of(WorkerLoad::vectors_per_call),
            of(|worker| 100.0 * worker.idle_polls()),
            escaped(&step.trial.verdict.evidence.join("; ")),
            escaped(&step.trial.verdict_words()),
        );
    }
    *out += "</table>\n";
    let trials: Named<'_> = found.steps.iter().map(|step| (step.rate.clone(), &step.trial)).collect();
    let id = escaped(&found.device);
    if found.steps.iter().any(|step| step.worker().is_some()) {
        let caption =
            "Clocks of the processor for each packet, node by node; asking devices that had nothing is left out.";
        figure(out, &format!("saturate-clocks-{id}"), &charts::clocks(&found.device, &trials, colours), caption);
        let caption = "What the worker's time went into.";
        figure(out, &format!("saturate-cpu-{id}"), &charts::shares(&found.device, &trials), caption);
    }
    energies(out, &trials);
    for step in &found.steps {
        if let Some(runtime) = &step.runtime {
            let _ = writeln!(
                out,
                "<details><summary><code>show runtime</code> at {}</summary><pre>{}</pre></details>",
                escaped(&step.rate),
                escaped(runtime)
            );
        }
    }
}

fn of_sweeps(out: &mut String, sweeps: &[&Sweep], colours: &mut Colours) {
    *out += "<h2>Frames of many sizes, both directions</h2>\n";
    figure(
        out,
        "sweep",
        &charts::sweep(sweeps, colours),
        "Packets a second of both ports together, and what both lines carry.",
    );
    for sweep in sweeps {
        let _ = writeln!(
            out,
            "<h3>{}</h3>\n<table><tr><th>Packet size bytes</th><th>received</th><th>2xWirespeed</th><th>% of \
             it</th><th>lost, %</th><th class=\"words\">verdict</th></tr>",
            escaped(&sweep.device)
        );
        for step in &sweep.steps {
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}pps</td><td>{}pps</td><td>{:.1}</td><td>{}</td><td class=\"words\" \
                 title=\"{}\">{}</td></tr>",
                step.frame,
                scaled(step.trial.received_pps),
                scaled(step.twice_wire_speed),
                100.0 * step.trial.received_pps / step.twice_wire_speed,
                significant(100.0 * step.trial.lost_share),
                escaped(&step.trial.verdict.evidence.join("; ")),
                escaped(&step.trial.verdict_words()),
            );
        }
        *out += "</table>\n";
        if !sweep.verdict.evidence.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", escaped(&sweep.verdict.line()));
        }
    }
}

/// A count with a comma between thousands: `1,234,567`.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8_lossy(&groups.join(&b',')).into_owned()
}

fn of_soak(out: &mut String, number: usize, soak: &Soak, colours: &mut Colours) {
    let total = &soak.total;
    let _ = writeln!(
        out,
        "<h2>{} s at {} through {}</h2>\n<p>{}, {} routes: {} packets sent, {} lost ({} %). The load tester was \
         preempted {} times, {:.0} us at most.</p>",
        significant(total.seconds),
        escaped(&total.rate),
        escaped(&total.device),
        escaped(&total.profile),
        grouped(soak.routes as u64),
        grouped(total.sent_packets),
        grouped(total.lost_packets),
        significant(100.0 * total.lost_share),
        grouped(soak.pauses as u64),
        soak.longest_pause_us
    );
    *out += "<table><tr><th>microseconds</th><th>min</th><th>p50</th><th>p99</th><th>p99.9</th><th>p99.99</th>\
             <th>max</th></tr>\n";
    for (name, all) in [("delay", total.latency), ("PDV", total.pdv), ("IPDV", total.ipdv)] {
        let Some(all) = all else { continue };
        let cells = [all.min, all.p50, all.p99, all.p99_9, all.p99_99, all.max]
            .map(|us| format!("<td>{}</td>", significant(us)));
        let _ = writeln!(out, "<tr><td>{name}</td>{}</tr>", cells.concat());
    }
    *out += "</table>\n";
    figure(
        out,
        &format!("soak-{number}"),
        &charts::soak(soak, colours),
        "Packets a second, and when the longest delays were seen.",
    );
    *out += "<table><tr><th>at, s</th><th>delay, us</th><th>stream</th><th></th></tr>\n";
    for outlier in &soak.outliers {
        let near = if outlier.near_pause { "the load tester was preempted" } else { "" };
        let _ = writeln!(
            out,
            "<tr><td>{:.3}</td><td>{}</td><td>{}</td><td class=\"words\">{near}</td></tr>",
            outlier.at,
            significant(outlier.us),
            escaped(&outlier.stream)
        );
    }
    let _ = writeln!(out, "</table>\n<p>{}</p>", escaped(&total.verdict.line()));
    energies(out, &vec![(total.rate.clone(), total)]);
}

fn of_searches(out: &mut String, searches: &[&Search], colours: &mut Colours) {
    *out += "<h2>Throughput</h2>\n<table><tr><th>device, profile</th><th>goal</th><th>loss, at most \
     %</th><th>found</th>\
             <th>conditional throughput</th><th>upper bound</th><th>% of line</th><th>trials</th><th></th></tr>\n";
    for search in searches {
        let (way, ports) = if search.bidirectional { ("both ways", 2.0) } else { ("one way", 1.0) };
        let pps = |load: Option<f64>| load.map_or("none".into(), |load| format!("{}pps", scaled(load * ports)));
        for found in &search.found {
            if let Some(why) = &found.no_result {
                let _ = writeln!(
                    out,
                    "<tr><td>{}, {}, {way}</td><td>{}</td><td class=\"words\" colspan=\"7\">no result: {}{}</td></tr>",
                    escaped(&search.device),
                    escaped(&search.profile),
                    escaped(&found.goal.name),
                    escaped(why),
                    found.at_least.map_or(String::new(), |load| format!("; at least {}pps", scaled(load * ports))),
                );
                continue;
            }
            let _ = writeln!(
                out,
                "<tr><td>{}, {}, \
                 {way}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td \
                 class=\"words\"></td></tr>",
                escaped(&search.device),
                escaped(&search.profile),
                escaped(&found.goal.name),
                significant(100.0 * found.goal.loss_ratio),
                pps(found.lower),
                pps(found.conditional_throughput),
                pps(found.upper),
                found.lower.map_or("-".into(), |load| format!("{:.1}", 100.0 * load / search.most_pps)),
                found.trials,
            );
        }
        if let Some(mrr) = &search.mrr {
            let _ = writeln!(
                out,
                "<tr><td>{}, {}, {way}</td><td>MRR</td><td>-</td><td>{}pps</td><td colspan=\"5\">standard deviation \
                 {}pps of {} trials</td></tr>",
                escaped(&search.device),
                escaped(&search.profile),
                scaled(mrr.mean),
                scaled(mrr.deviation),
                mrr.trials
            );
        }
    }
    *out += "</table>\n";
    for search in searches {
        let name = escaped(&format!("{}, {}", search.device, search.profile));
        if let Some(bursts) = &search.back_to_back {
            let _ = writeln!(
                out,
                "<p>{name}: longest burst that comes through whole: {}</p>",
                escaped(&bursts.to_string())
            );
        }
        if let Some(recovery) = &search.recovery {
            let _ = writeln!(
                out,
                "<p>{name}: packets are lost after an overload for: {}</p>",
                escaped(&recovery.to_string())
            );
        }
    }
    figure(out, "search", &charts::trials(searches, colours), "Each trial: what was lost of what load.");
    if searches.iter().any(|search| !search.latency.is_empty()) {
        figure(out, "search-latency", &charts::latency_by_load(searches, colours), "Delay at 99 %, by load.");
    }
}

/// Distinguishes a ramp from other ramps.
fn name(ramp: &Ramp) -> String {
    let way = if ramp.total.bidirectional { "both ways" } else { "one way" };
    let label = if ramp.label.is_empty() { String::new() } else { format!(", {}", ramp.label) };
    format!("{}, {}, {way}{label}", ramp.total.device, ramp.total.profile)
}

fn provenance(out: &mut String, sessions: &[Session]) {
    *out += "<h2>How it was run</h2>\n";
    for session in sessions {
        let machine = &session.machine;
        let _ = writeln!(
            out,
            "<p><code>{}</code></p>\n<p class=\"small\">{}, on {} of {} cores.</p>",
            escaped(&session.command),
            escaped(&session.program),
            escaped(&machine.processor),
            machine.cores,
        );
        if !session.notes.is_empty() {
            *out += "<ul>";
            for note in &session.notes {
                let _ = writeln!(out, "<li>{}</li>", escaped(note));
            }
            *out += "</ul>\n";
        }
    }
    *out += "<p class=\"small\">L2 bits are those of frames without frame check sequence, as T-Rex counts them; \
     shares of the line are counted on the wire, \
             with frame check sequence, preamble and gap: 24 bytes more for each packet. Of a test in both \
             directions the line is that of all ports.</p>\n";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escaped("<b a=\"x\">&\u{1b}[1m"), "&lt;b a=&quot;x&quot;&gt;&amp; [1m");
    }

    #[test]
    fn counts_have_commas_between_thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
