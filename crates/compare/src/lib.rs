//! Experiments: plan, blocks, schedule, verdicts.
