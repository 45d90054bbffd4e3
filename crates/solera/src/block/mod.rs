//! The unit of reading and caching.

mod compression;

pub use compression::Compression;
