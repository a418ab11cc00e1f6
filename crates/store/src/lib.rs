//! Runs on disk: a manifest and histograms in one folder per run. Knows nothing of statistics.
