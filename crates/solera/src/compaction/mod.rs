//! Keeping the tree in shape.
//!
//! Deciding and doing never share a function: [`shape`] says what is wanted.

mod shape;

pub use shape::{
    BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, LEVEL0_RUN_LIMIT_MAX, LEVELS_MAX, SIZE_RATIO_MAX, SIZE_RATIO_MIN,
    Shape,
};
