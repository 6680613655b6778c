//! Which known word was probably meant: for "did you mean" and for short lists of what
//! could come instead.

/// Words longer than this are compared by their beginning only; no command or key is
/// nearly as long, and the work stays bounded for hostile input.
const COMPARED_CHARACTERS: usize = 64;

/// Number of single-character insertions, deletions, replacements and swaps of
/// neighbours that turn `a` into `b` (optimal string alignment distance).
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(COMPARED_CHARACTERS).collect();
    let b: Vec<char> = b.chars().take(COMPARED_CHARACTERS).collect();
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The candidate that `word` is a likely misspelling of, when there is one: at most a
/// third of the longer word differs.
pub fn likely<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            let longer = word.chars().count().max(candidate.chars().count());
            distance * 3 <= longer
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The candidates, those most like `word` first; equally near ones keep their order.
pub fn sorted<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut sorted: Vec<&str> = candidates.into_iter().collect();
    sorted.sort_by_cached_key(|candidate| edit_distance(word, candidate));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_swap_is_one_edit() {
        assert_eq!(edit_distance("exce", "exec"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }

    #[test]
    fn a_misspelling_finds_its_word_and_a_stranger_none() {
        let keys = ["nodaemon", "exec", "log"];
        assert_eq!(likely("exce", keys), Some("exec"));
        assert_eq!(likely("nodemon", keys), Some("nodaemon"));
        assert_eq!(likely("zebra", keys), None);
    }
}
