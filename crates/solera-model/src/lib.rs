//! Sorted u64 keys to bounded position predictors.
