//! Oracle and crash states.
