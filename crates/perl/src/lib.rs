//! The embedded interpreter. Knows nothing of the HTTP wire format.
