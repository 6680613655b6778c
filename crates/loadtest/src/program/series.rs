//! How values of a field follow each other from packet to packet.

use crate::layout::Field;
use crate::profile::{How, Number, Vary};
use std::sync::Arc;

/// `from`, `from + step`, and so on, `count` of them; or those of a list.
#[derive(Debug, Clone)]
pub(super) struct Series {
    how: How,
    from: u64,
    step: u64,
    pub(super) count: u64,
    seed: u64,
    /// Random ones come again after so many; 0: never.
    limit: u64,
    /// It goes on each time that so many packets have gone: the second of a tuple.
    pub(super) every: u64,
    list: Option<Arc<[u64]>>,
}

impl Series {
    /// Those that a field is to have.
    ///
    /// # Errors
    /// When they do not fit into it, or not with each other.
    pub(super) fn new(vary: &Vary, field: Field) -> Result<Series, String> {
        if let Some(values) = &vary.values {
            values.iter().try_for_each(|value| fits(*value, field))?;
            if values.iter().any(|value| value.above != values[0].above) {
                return Err("of IPv6 addresses the lower half varies: the upper ones differ".into());
            }
            let list: Arc<[u64]> = values.iter().map(|value| value.value).collect();
            let (count, limit) = (list.len() as u64, vary.limit.unwrap_or(0));
            let (from, step, every) = (0, 1, 1);
            return Ok(Series { how: vary.how, from, step, count, seed: vary.seed, limit, every, list: Some(list) });
        }
        let (Some(from), Some(to)) = (vary.from, vary.to) else { return Err("say 'from' and 'to'".into()) };
        let limit = vary.limit.unwrap_or(0);
        Ok(Series { how: vary.how, seed: vary.seed, limit, ..Series::range(field, from, to, vary.step)? })
    }

    /// The second field of a tuple, which goes on when the first has had all of its own.
    pub(super) fn second(field: Field, from: Number, to: Number, first: &Series) -> Result<Series, String> {
        Ok(Series { how: How::Tuple, every: first.count, ..Series::range(field, from, to, 1)? })
    }

    fn range(field: Field, from: Number, to: Number, step: u64) -> Result<Series, String> {
        [from, to].into_iter().try_for_each(|value| fits(value, field))?;
        if from.above != to.above {
            return Err("of IPv6 addresses the lower half varies: the upper ones differ".into());
        }
        if from.value > to.value {
            return Err("'from' is beyond 'to'".into());
        }
        let count = ((to.value - from.value) / step).saturating_add(1);
        Ok(Series { how: How::Increment, from: from.value, step, count, seed: 1, limit: 0, every: 1, list: None })
    }

    /// The value of the n-th packet.
    #[cfg(test)]
    pub(super) fn at(&self, n: u64) -> u64 {
        let mut value = [0];
        self.fill(&mut value, n, 1, &mut ((n / self.every) % self.count, self.every - n % self.every));
        value[0]
    }

    /// Values of packets `first`, `first + stride`, and so on. `at`: where the first is, kept from call to call.
    #[inline]
    pub(super) fn fill(&self, values: &mut [u64], first: u64, stride: u64, at: &mut (u64, u64)) {
        match self.how {
            How::Random => self.random(values, first, stride),
            _ => self.in_turn(values, stride, at),
        }
        if let Some(list) = &self.list {
            values.iter_mut().for_each(|value| *value = list[*value as usize]);
        }
    }

    #[inline]
    fn random(&self, values: &mut [u64], first: u64, stride: u64) {
        let mut n = first;
        for value in values {
            let draw = if self.limit == 0 { n } else { n % self.limit };
            let k = ((u128::from(mix(self.seed, draw)) * u128::from(self.count)) >> 64) as u64;
            *value = self.from + k * self.step;
            n += stride;
        }
    }

    #[inline]
    fn in_turn(&self, values: &mut [u64], stride: u64, at: &mut (u64, u64)) {
        let (mut place, mut left) = *at;
        for value in values {
            let k = if self.how == How::Decrement { self.count - 1 - place } else { place };
            *value = self.from + k * self.step;
            // Mostly one step: no division.
            let mut ahead = stride;
            while ahead >= left {
                ahead -= left;
                left = self.every;
                place += 1;
                if place == self.count {
                    place = 0;
                }
            }
            left -= ahead;
        }
        *at = (place, left);
    }
}

fn fits(value: Number, field: Field) -> Result<(), String> {
    let largest = field.largest();
    match value.value > largest {
        true => Err(format!("the field has {} bits: its values go up to {largest}", field.bits)),
        false => Ok(()),
    }
}

/// Bits that look random of the n-th packet (SplitMix64, Steele et al., OOPSLA 2014).
#[inline(always)]
pub(super) fn mix(seed: u64, n: u64) -> u64 {
    let z =
        seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
