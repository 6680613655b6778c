//! Axes and the words at them: scales on which no value flattens the rest, and labels that stand clear of each other.

/// Of values that are so many times as large as the smallest, that one would not be seen on a linear axis.
const WIDE: f64 = 10.0;
/// A bar that is so many times as high as the next lower one is broken.
const TALL: f64 = 3.0;

/// How bars are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    Linear(f64),
    /// Powers of ten, from one to another.
    Log(f64, f64),
    /// Linear up to a height; what is higher is broken and says how high it is.
    Broken(f64),
}

/// Something above zero for an axis that has to end somewhere.
pub fn above(value: f64) -> f64 {
    if value > 0.0 { value * 1.05 } else { 1.0 }
}

/// Of single bars.
pub fn of_bars(values: &[f64]) -> Scale {
    let seen = || values.iter().copied().filter(|value| *value > 0.0);
    let (least, most) = (seen().fold(f64::INFINITY, f64::min), seen().fold(0.0, f64::max));
    match most > WIDE * least {
        true => Scale::Log(least.log10().floor(), (most.log10() + 0.1).ceil()),
        false => Scale::Linear(above(most)),
    }
}

/// Of bars made of parts, which have no meaning on an axis of powers.
pub fn of_stacks(totals: &[f64]) -> Scale {
    let mut sorted: Vec<f64> = totals.iter().copied().filter(|total| *total > 0.0).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let gap = sorted.windows(2).rposition(|pair| pair[0] > TALL * pair[1]);
    match gap {
        Some(at) => Scale::Broken(1.4 * sorted[at + 1]),
        None => Scale::Linear(above(sorted.first().copied().unwrap_or(0.0))),
    }
}

impl Scale {
    /// Where the axis begins and ends, and where a value is on it.
    pub fn range(self) -> (f64, f64) {
        match self {
            Scale::Linear(top) | Scale::Broken(top) => (0.0, top),
            Scale::Log(bottom, top) => (bottom, top),
        }
    }

    pub fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear(_) => value,
            Scale::Broken(top) => value.min(top),
            Scale::Log(bottom, top) => value.max(f64::MIN_POSITIVE).log10().clamp(bottom, top),
        }
    }
}

/// Pixels of a letter, on average, for its height.
const LETTER: f64 = 0.56;

/// How wide a word is drawn.
pub fn width(word: &str, height: f64) -> f64 {
    word.chars().count() as f64 * height * LETTER
}

/// Where a word stands at a place: in which row, and whether it ends there rather than begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub row: usize,
    pub is_left: bool,
}

/// Finds a row for each word, so that none covers another; in the order of their places, in pixels up to `right`. None:
/// there is no room for it in so many rows.
pub fn stand(words: &[(f64, &str)], height: f64, right: f64, rows: usize) -> Vec<Option<Standing>> {
    const BETWEEN: f64 = 8.0;
    // Ends are what is taken of each row; words do not come sorted.
    let mut order: Vec<usize> = (0..words.len()).collect();
    order.sort_by(|a, b| words[*a].0.total_cmp(&words[*b].0));
    let mut taken: Vec<Vec<(f64, f64)>> = vec![Vec::new(); rows];
    let mut places = vec![None; words.len()];
    for at in order {
        let (x, word) = words[at];
        let long = width(word, height);
        let is_left = x + long > right;
        let (from, to) = if is_left { (x - long, x) } else { (x, x + long) };
        let is_free =
            |row: &Vec<(f64, f64)>| row.iter().all(|(start, end)| to + BETWEEN < *start || *end + BETWEEN < from);
        if let Some(row) = taken.iter().position(is_free) {
            taken[row].push((from, to));
            places[at] = Some(Standing { row, is_left });
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bar_flattens_the_rest() {
        assert_eq!(of_bars(&[1e6, 2e6, 0.0]), Scale::Linear(2e6 * 1.05));
        assert_eq!(of_bars(&[2e3, 2e6]), Scale::Log(3.0, 7.0));
        assert_eq!(of_stacks(&[8180.0, 2945.0, 770.0, 767.0]), Scale::Broken(1.4 * 770.0));
        assert_eq!(of_stacks(&[100.0, 120.0, 90.0]), Scale::Linear(126.0));
        // 1 kpps costs a hundred times as much for each packet.
        assert_eq!(of_stacks(&[9000.0, 120.0, 90.0]), Scale::Broken(1.4 * 120.0));
        assert_eq!(of_stacks(&[9000.0, 1000.0, 120.0, 90.0]), Scale::Broken(1.4 * 120.0));
        assert_eq!((of_stacks(&[]), of_bars(&[])), (Scale::Linear(1.0), Scale::Linear(1.0)));
        assert_eq!(Scale::Broken(168.0).place(9000.0), 168.0);
        assert_eq!(Scale::Log(3.0, 7.0).place(0.0), 3.0);
    }

    #[test]
    fn words_do_not_cover_each_other() {
        let words = [(100.0, "U 64b Multi"), (104.0, "U 64b Single"), (108.0, "U 64b MPLS"), (900.0, "B 64b Multi")];
        let rows: Vec<Option<Standing>> = stand(&words, 12.0, 950.0, 3);
        let row = |at: usize| rows[at].unwrap().row;
        assert_eq!([row(0), row(1), row(2), row(3)], [0, 1, 2, 0]);
        assert!(rows[3].unwrap().is_left && !rows[0].unwrap().is_left);
        // More than there is room for are left out, and not drawn over each other.
        assert_eq!(stand(&words, 12.0, 950.0, 2)[2], None);
    }
}
