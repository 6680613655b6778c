//! Values by small numbers, such as those of interfaces or routing tables. A copy shares what has not changed with its
//! original. So control publishes one change among thousands of values without copying them all.

use std::sync::Arc;

/// How many values lie together, and are copied together.
const CHUNK: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunks<T> {
    chunks: Vec<Arc<[Option<T>; CHUNK]>>,
    /// One more than the last number that has a value.
    end: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Chunks<T> {
        Chunks { chunks: Vec::new(), end: 0 }
    }
}

impl<T> Chunks<T> {
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        self.chunks.get(number / CHUNK)?[number % CHUNK].as_ref()
    }

    /// The value of number 0, if there is no other.
    #[inline]
    pub fn only(&self) -> Option<&T> {
        if self.end == 1 { self.get(0) } else { None }
    }

    /// Whether there is any value.
    #[inline]
    pub fn any(&self) -> bool {
        self.end > 0
    }

    /// All values, by number.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.numbered().map(|(_, value)| value)
    }

    /// The same, with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &T)> {
        let places = self.chunks.iter().flat_map(|chunk| chunk.iter());
        places.enumerate().filter_map(|(number, value)| Some((number, value.as_ref()?)))
    }
}

impl<T: Clone> Chunks<T> {
    /// Gives a number another value, or none.
    pub fn set(&mut self, number: usize, value: Option<T>) {
        let (chunk, at) = (number / CHUNK, number % CHUNK);
        match value {
            Some(_) => self.end = self.end.max(number + 1),
            None if self.get(number).is_none() => return,
            None => {}
        }
        while self.chunks.len() <= chunk {
            self.chunks.push(Arc::new(std::array::from_fn(|_| None)));
        }
        Arc::make_mut(&mut self.chunks[chunk])[at] = value;
        while self.end > 0 && self.get(self.end - 1).is_none() {
            self.end -= 1;
        }
        self.chunks.truncate(self.end.div_ceil(CHUNK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_copy_shares_what_has_not_changed() {
        let mut chunks = Chunks::default();
        (0..3 * CHUNK).for_each(|number| chunks.set(number, Some(number)));
        let before = chunks.clone();
        chunks.set(CHUNK, None);
        let shared: Vec<bool> = before.chunks.iter().zip(&chunks.chunks).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!(shared, [true, false, true]);
        assert_eq!((before.get(CHUNK), chunks.get(CHUNK)), (Some(&CHUNK), None));
    }

    #[test]
    fn it_is_a_map() {
        let (mut chunks, mut map, mut random) = (Chunks::default(), BTreeMap::new(), 1u32);
        for _ in 0..2000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Few numbers have a value at a time.
            let (number, value) = ((random >> 8) as usize % 200, (random >> 24).is_multiple_of(3).then_some(random));
            chunks.set(number, value);
            match value {
                Some(value) => drop(map.insert(number, value)),
                None => drop(map.remove(&number)),
            }
            assert!((0..300).all(|number| chunks.get(number) == map.get(&number)));
            assert!(chunks.numbered().eq(map.iter().map(|(number, value)| (*number, value))));
            assert_eq!(chunks.any(), !map.is_empty());
        }
        (0..200).for_each(|number| chunks.set(number, None));
        assert_eq!((chunks.any(), chunks.chunks.len(), chunks.only()), (false, 0, None));
        chunks.set(0, Some(7));
        assert_eq!(chunks.only(), Some(&7));
        chunks.set(1, Some(8));
        assert_eq!(chunks.only(), None);
    }
}
