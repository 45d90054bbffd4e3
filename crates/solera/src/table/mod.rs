//! Immutable sorted files.

pub mod descriptor;
pub mod layout;

pub use descriptor::TableDescriptor;
pub use layout::Layout;
