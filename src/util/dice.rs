//! Random numbers for tests, the same in every run (Marsaglia's xorshift).

/// A source of numbers; a test is replayed from its seed.
pub(crate) struct Dice(u64);

impl Dice {
    /// Creates the source of a seed, which is not 0.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number less than `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// Returns one of these.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
