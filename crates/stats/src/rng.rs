//! A small seeded generator (xoshiro256**, Blackman and Vigna 2018; seeded by splitmix64), so that
//! the order of every block can be replayed from the seed in the manifest on any machine.

/// xoshiro256**.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| splitmix64(&mut state)))
    }

    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in 0..n, without modulo bias (Lemire 2019, by 128-bit multiplication).
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "an empty range has no member");
        let n = n as u64;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= n.wrapping_neg() % n {
                return (product >> 64) as usize;
            }
        }
    }

    /// Standard normal (Marsaglia's polar method, one of the pair).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * (-2.0 * s.ln() / s).sqrt();
            }
        }
    }

    /// Fisher-Yates: every order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_is_the_published_one() {
        // Reference output of splitmix64.c for seed 1234567.
        let mut state = 1_234_567;
        assert_eq!(splitmix64(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(splitmix64(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn xoshiro_is_the_published_one() {
        // Reference output of xoshiro256starstar.c for state 1, 2, 3, 4.
        let mut rng = Rng([1, 2, 3, 4]);
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn every_order_is_equally_likely() {
        let mut rng = Rng::new(7);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let mut order = [0, 1, 2];
            rng.shuffle(&mut order);
            *counts.entry(order).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|n| (850..1_150).contains(n)), "{counts:?}");
    }

    #[test]
    fn normal_has_mean_zero_and_sd_one() {
        let mut rng = Rng::new(3);
        let sample: Vec<f64> = (0..20_000).map(|_| rng.normal()).collect();
        assert!(crate::mean(&sample).abs() < 0.03);
        assert!((crate::sd(&sample) - 1.0).abs() < 0.02);
    }
}
