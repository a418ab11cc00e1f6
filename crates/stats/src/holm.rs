//! Holm's step-down correction (1979): several variants against one baseline, 5 % for the family.

/// Adjusted p-values, in the order given.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; count];
    let mut highest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        highest = highest.max((count - rank) as f64 * p_values[index]).min(1.0);
        adjusted[index] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_values_are_those_of_r() {
        // R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm") and an unsorted one.
        assert_close(&holm(&[0.01, 0.02, 0.03, 0.04, 0.05]), &[0.05, 0.08, 0.09, 0.09, 0.09]);
        assert_close(&holm(&[0.04, 0.001, 0.6]), &[0.08, 0.003, 0.6]);
        assert_close(&holm(&[0.7, 0.4, 0.02]), &[0.8, 0.8, 0.06]);
        assert_close(&holm(&[0.6, 0.7]), &[1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    fn assert_close(a: &[f64], b: &[f64]) {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?} {b:?}");
    }
}
