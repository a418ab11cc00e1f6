//! Text, JSON, CSV, SVG and HTML of a result. Knows nothing of how it was measured.
