//! Colours, each with one meaning everywhere: what a reader learned in one chart is true in the next.
//!
//! They can be distinguished in print and with colour blindness (Okabe and Ito, 2008). Kinds of things have kinds of
//! colours: devices are strong, parts of a worker's time share a hue with the nodes that make them up, and offered
//! packets and idle time are grey.

use plotters::style::RGBColor;

/// Offered packets: those sent, and what the line carries.
pub const OFFERED: RGBColor = RGBColor(150, 150, 150);
/// A place to notice: where loss begins, the longest delays.
pub const MARK: RGBColor = RGBColor(190, 30, 30);

/// Devices, in the order of their first test. Ramps of one device with different numbers of queues count as several
/// devices.
const DEVICES: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(120, 94, 240),
    RGBColor(0, 0, 0),
];

pub fn device(number: usize) -> RGBColor {
    DEVICES[number % DEVICES.len()]
}

/// The profile of a test, in any direction.
const LOADS: [RGBColor; 6] = [
    RGBColor(0, 95, 95),
    RGBColor(150, 105, 25),
    RGBColor(115, 55, 130),
    RGBColor(70, 70, 70),
    RGBColor(125, 145, 40),
    RGBColor(170, 60, 90),
];

pub fn load(number: usize) -> RGBColor {
    LOADS[number % LOADS.len()]
}

const INPUT: [RGBColor; 5] = [
    RGBColor(86, 180, 233),
    RGBColor(138, 203, 240),
    RGBColor(190, 226, 247),
    RGBColor(110, 160, 200),
    RGBColor(60, 150, 205),
];
const GRAPH: [RGBColor; 12] = [
    RGBColor(230, 159, 0),
    RGBColor(179, 118, 0),
    RGBColor(245, 199, 92),
    RGBColor(138, 90, 0),
    RGBColor(252, 225, 163),
    RGBColor(204, 150, 60),
    RGBColor(110, 60, 10),
    RGBColor(255, 180, 60),
    RGBColor(160, 130, 80),
    RGBColor(220, 190, 130),
    RGBColor(190, 95, 20),
    RGBColor(90, 75, 40),
];
const OUTPUT: [RGBColor; 6] = [
    RGBColor(100, 170, 90),
    RGBColor(150, 202, 140),
    RGBColor(55, 110, 50),
    RGBColor(196, 228, 190),
    RGBColor(125, 150, 60),
    RGBColor(30, 75, 35),
];
const NO_WORK: [RGBColor; 2] = [RGBColor(205, 205, 205), RGBColor(232, 232, 232)];

/// A part of a worker's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Input,
    Graph,
    Output,
    Polling,
    Waiting,
}

pub fn part(part: Part) -> RGBColor {
    match part {
        Part::Input => INPUT[0],
        Part::Graph => GRAPH[0],
        Part::Output => OUTPUT[0],
        Part::Polling => NO_WORK[0],
        Part::Waiting => NO_WORK[1],
    }
}

/// Colours of nodes: based on the part that a node belongs to, and the same on the whole page.
#[derive(Default)]
pub struct Nodes {
    known: Vec<(String, RGBColor)>,
    counts: [usize; 3],
}

impl Nodes {
    pub fn colour(&mut self, name: &str, kind: Part) -> RGBColor {
        if let Some((_, colour)) = self.known.iter().find(|(known, _)| known == name) {
            return *colour;
        }
        let (at, hues): (usize, &[RGBColor]) = match kind {
            Part::Input => (0, &INPUT),
            Part::Output => (2, &OUTPUT),
            _ => (1, &GRAPH),
        };
        let colour = hues[self.counts[at] % hues.len()];
        self.counts[at] += 1;
        self.known.push((name.into(), colour));
        colour
    }
}

/// The meaning of each colour on a page.
#[derive(Default)]
pub struct Colours {
    devices: Vec<String>,
    loads: Vec<String>,
    pub nodes: Nodes,
}

impl Colours {
    pub fn device(&mut self, name: &str) -> RGBColor {
        device(place(&mut self.devices, name))
    }

    pub fn load(&mut self, name: &str) -> RGBColor {
        load(place(&mut self.loads, name))
    }
}

/// The index of a name, which is added if it is new.
fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_colour_means_two_things() {
        let single = [&[OFFERED, MARK][..], &DEVICES, &LOADS, &INPUT, &GRAPH, &OUTPUT, &NO_WORK].concat();
        let different: HashSet<_> = single.iter().map(|RGBColor(red, green, blue)| (red, green, blue)).collect();
        assert_eq!(different.len(), single.len());
    }

    #[test]
    fn a_node_has_its_colour_on_all_of_a_page() {
        let mut nodes = Nodes::default();
        let first = nodes.colour("ip4-lookup", Part::Graph);
        let others = ["ip4-rewrite", "mpls-lookup", "ethernet-input"].map(|name| nodes.colour(name, Part::Graph));
        assert!(!others.contains(&first));
        assert_eq!(nodes.colour("ip4-lookup", Part::Graph), first);
        // The colour of a part is that of its first node.
        assert_eq!(nodes.colour("memif-input", Part::Input), part(Part::Input));
    }
}
