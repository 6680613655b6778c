//! Changes of local labels as operators and programs state them: of one label or of some behind each other, checked in
//! full, and carried out for all of them or none.

use super::control::{LabelBatch, MplsError, check_labels};
use super::key::{LABELS, LabelKey};
use crate::ip::change::{StatedPath, Verb, paths_of};
use crate::ip::control::{LabelTableIndex, Path, PathAction, Source, TableIndex, join_paths};
use crate::{Error, Router};

/// Where labels are meant: at the bottom of the stack, above other labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Bottom,
    Above,
    /// Wherever the paths make sense; of labels that go, where there are some.
    Either,
}

/// A change of local labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelChange {
    pub verb: Verb,
    pub source: Source,
    pub table: LabelTableIndex,
    pub first: u32,
    /// As many labels, from 1 on.
    pub count: u32,
    pub place: Place,
    pub paths: Vec<StatedPath>,
}

impl Router {
    /// Carries out a change of local labels.
    ///
    /// # Errors
    /// When a path cannot be as stated, there are not so many labels, or one of them cannot be changed; then nothing
    /// has changed.
    pub fn state_labels(&mut self, change: &LabelChange) -> Result<(), Error> {
        if change.verb != Verb::Remove {
            self.check_paths_of_labels(&change.paths)?;
        }
        let paths = paths_of(&change.paths);
        let keys = keys(change, &paths)?;
        match change.verb {
            Verb::Remove => self.remove_labels(change, keys, &paths),
            verb => self.put_labels(change, &keys, &paths, verb == Verb::Replace),
        }
    }

    /// Refuses paths of labels or tunnels that cannot be as stated.
    ///
    /// # Errors
    /// What is wrong with the first that cannot.
    pub fn check_paths_of_labels(&self, paths: &[StatedPath]) -> Result<(), Error> {
        paths.iter().try_for_each(|StatedPath { path, may_be_off_link }| {
            self.check_next_hop_of(TableIndex::DEFAULT, path, *may_be_off_link)?;
            check_labels(path)
        })
    }

    fn put_labels(
        &mut self,
        change: &LabelChange,
        keys: &[LabelKey],
        paths: &[Path],
        replace: bool,
    ) -> Result<(), Error> {
        let mut batch = LabelBatch::default();
        let mut lists: Vec<(Vec<Path>, usize)> = Vec::new();
        for key in keys {
            let known =
                self.ip.label_paths(change.table, *key).filter(|_| !replace).map_or(Vec::new(), <[Path]>::to_vec);
            // Most have the same.
            let at = match lists.iter().find(|(before, _)| *before == known) {
                Some((_, at)) => *at,
                None => {
                    let all = join_paths(known.clone(), paths.to_vec());
                    lists.push((known, batch.paths(all)));
                    lists.len() - 1
                }
            };
            batch.put(*key, at);
        }
        self.change_labels(change.table, change.source, batch)
    }

    fn remove_labels(&mut self, change: &LabelChange, mut keys: Vec<LabelKey>, paths: &[Path]) -> Result<(), Error> {
        let table = change.table;
        let known = |key: &LabelKey| self.ip.label_paths(table, *key).map(<[Path]>::to_vec);
        if change.place == Place::Either && keys.iter().any(|key| known(key).is_some()) {
            keys.retain(|key| known(key).is_some());
        }
        let before: Vec<(LabelKey, Option<Vec<Path>>)> = keys.iter().map(|key| (*key, known(key))).collect();
        for (done, key) in keys.iter().enumerate() {
            let Err(error) = self.remove_label(table, *key, paths) else { continue };
            for (key, paths) in before.into_iter().take(done) {
                let back = paths.map(|paths| self.add_label(table, key, change.source, paths, true));
                if let Some(Err(error)) = back {
                    log::error!("label {} is not as it was: {error}", key.label());
                }
            }
            return Err(error);
        }
        Ok(())
    }
}

/// The labels of a change. Those of paths that make sense at the bottom only, or above others only, are meant there.
fn keys(change: &LabelChange, paths: &[Path]) -> Result<Vec<LabelKey>, Error> {
    let LabelChange { first, count, place, .. } = *change;
    if first as usize + count as usize > LABELS {
        return Err(MplsError::BeyondLast(count, first).into());
    }
    let ends: &[bool] = match place {
        Place::Bottom => &[true],
        Place::Above => &[false],
        Place::Either if paths.iter().any(|path| matches!(path.way, PathAction::LookupIn(..))) => &[true],
        Place::Either if paths.iter().any(|path| matches!(path.way, PathAction::LookupLabel(_))) => &[false],
        Place::Either => &[true, false],
    };
    Ok((first..first + count).flat_map(|label| ends.iter().map(move |end| LabelKey::new(label, *end))).collect())
}
