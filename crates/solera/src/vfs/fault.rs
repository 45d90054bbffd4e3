//! Faults on purpose.
