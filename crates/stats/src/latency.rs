//! The histogram of latencies: nanoseconds, 3 significant digits, one fixed layout so that any two merge.

use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2DeflateSerializer},
};

/// Longest latency that keeps its own bucket; longer ones are counted in the last.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Why bytes are not a histogram of ours.
#[derive(Debug, thiserror::Error)]
pub enum LatencyError {
    #[error("not an HdrHistogram in V2 format; the file is damaged or of another tool")]
    NotHistogram,
    #[error("the histogram holds latencies over one hour; it is not one of this tool")]
    OutOfRange,
}

/// Counts of latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3);
        Self(histogram.expect("the bounds are constants that the library accepts"))
    }
}

impl Latency {
    pub fn record_ns(&mut self, latency_ns: u64) {
        self.0.saturating_record(latency_ns);
    }

    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("every Latency has the same layout");
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// The latency that a share `quantile` (0 to 1) of the answers did not exceed.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// HdrHistogram's V2 format, deflated: what every HdrHistogram tool reads.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.0, &mut bytes);
        written.expect("counts of u64 and a vector that grows cannot fail");
        bytes
    }

    /// Reads what [`Latency::to_bytes`] or another HdrHistogram tool wrote (V2, deflated or not).
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, LatencyError> {
        let read: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes).map_err(|_| LatencyError::NotHistogram)?;
        let mut latency = Self::default();
        latency.0.add(&read).map_err(|_| LatencyError::OutOfRange)?;
        Ok(latency)
    }

    /// The library's histogram, for serialisation.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_counts_and_keeps_the_extremes() {
        let (mut a, mut b) = (Latency::default(), Latency::default());
        a.record_ns(1_000);
        b.record_ns(2_000_000);
        b.record_ns(3_000_000);
        a.merge(&b);
        assert_eq!(a.count(), 3);
        assert!(a.max_ns() >= 3_000_000);
        assert!((a.quantile_ns(0.5) as f64 / 2e6 - 1.0).abs() < 0.002);
    }

    #[test]
    fn bytes_and_back_keep_every_count() {
        let mut latency = Latency::default();
        (1..5_000).for_each(|i| latency.record_ns(i * 1_777));
        let back = Latency::from_bytes(&latency.to_bytes()).expect("own bytes");
        assert_eq!(back.histogram(), latency.histogram());
        assert!(Latency::from_bytes(b"junk").is_err());
    }

    #[test]
    fn a_latency_past_the_last_bucket_is_counted() {
        let mut latency = Latency::default();
        latency.record_ns(u64::MAX);
        assert_eq!(latency.count(), 1);
    }
}
