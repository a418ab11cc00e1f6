//! The histogram of latencies: nanoseconds, 3 significant digits, one fixed layout so that any two
//! merge.

use std::sync::LazyLock;

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

/// Counts of latencies in nanoseconds. The 260 KB of buckets come with the first record: most
/// histograms of errors and connects stay empty.
#[derive(Clone, Debug, Default)]
pub struct Latency(Option<Box<Histogram<u64>>>);

/// What an empty one reads from.
static EMPTY: LazyLock<Histogram<u64>> = LazyLock::new(layout);

impl Latency {
    #[inline]
    pub fn record_ns(&mut self, latency_ns: u64) {
        self.buckets().saturating_record(latency_ns);
    }

    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (_, None) => {}
            (None, Some(other)) => self.0 = Some(other.clone()),
            (Some(own), Some(other)) => {
                own.add(&**other).expect("every Latency has the same layout");
            }
        }
    }

    /// The same latency so many times.
    pub fn record_many_ns(&mut self, latency_ns: u64, times: u64) {
        self.buckets().saturating_record_n(latency_ns, times);
    }

    /// Takes out what was merged into it, or recorded in it too.
    ///
    /// # Panics
    /// When `part` holds a latency more often.
    pub fn take_out(&mut self, part: &Self) {
        if let Some(part) = &part.0 {
            self.buckets().subtract(&**part).expect("a part has nothing that the whole has not");
        }
    }

    /// Empty again, the buckets kept.
    pub fn clear(&mut self) {
        if let Some(histogram) = &mut self.0 {
            histogram.reset();
        }
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram().len()
    }

    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.histogram().mean()
    }

    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.histogram().max()
    }

    /// The latency that a share `quantile` (0 to 1) of the answers did not exceed.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.histogram().value_at_quantile(quantile)
    }

    /// HdrHistogram's V2 format, deflated: what every HdrHistogram tool reads.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(self.histogram(), &mut bytes);
        written.expect("counts of u64 and a vector that grows cannot fail");
        bytes
    }

    /// Reads what [`Latency::to_bytes`] or another HdrHistogram tool wrote (V2, deflated or not).
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, LatencyError> {
        let read: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes).map_err(|_| LatencyError::NotHistogram)?;
        let mut latency = Self::default();
        latency.buckets().add(&read).map_err(|_| LatencyError::OutOfRange)?;
        Ok(latency)
    }

    /// The library's histogram, for serialisation.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        self.0.as_deref().unwrap_or(&EMPTY)
    }

    #[inline]
    fn buckets(&mut self) -> &mut Histogram<u64> {
        self.0.get_or_insert_with(|| Box::new(layout()))
    }
}

fn layout() -> Histogram<u64> {
    let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3);
    histogram.expect("the bounds are constants that the library accepts")
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
    fn what_was_merged_can_be_taken_out() {
        let (mut whole, mut part) = (Latency::default(), Latency::default());
        whole.record_ns(1_000);
        part.record_many_ns(2_000_000, 3);
        whole.merge(&part);
        whole.take_out(&part);
        whole.take_out(&Latency::default());
        assert_eq!((whole.count(), whole.quantile_ns(1.0)), (1, 1_000));
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
