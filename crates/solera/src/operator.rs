//! Merge operators, how operands become a value: the trait `MergeOperator`, and `Counter`,
//! `Append`, `Max`.
//!
//! `merge` folds operands, oldest first, onto a base; `combine` makes two operands one where that
//! needs no base. `builtin` finds an operator by name. `NotGiven` stands in for one of which only
//! the name is recorded, and refuses.
//! What must hold: an operator is a pure function of its arguments, or answers would depend on when
//! a compaction ran. It is recorded by name with its keyspace, which refuses an operator of another
//! name.
//! Callers: `sight` folds for readers, `compaction::retain` for jobs; `retain` and walks
//! (`merge::visible`) combine. `engine` (`keyspace_record`, `options`, `handle`, `store`) names
//! them. Programs, `solera trace replay` and `solera-sim` give them.

use std::{fmt, sync::Arc};

/// Folds operands onto a base value. Must be a pure function of its arguments, or answers would
/// depend on when a compaction ran.
pub trait MergeOperator: Send + Sync + 'static {
    /// A name that says the meaning of the operands; recorded on disk. Change it when the meaning
    /// changes.
    fn name(&self) -> &str;
    /// The value of `key` after `operands`, oldest first, are applied to `base` (`None`: absent).
    /// An error is returned to the reader as [`crate::error::Error::Merge`] with this text.
    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String>;
    /// One operand that does what `older` then `newer` do, where that is possible without the base.
    /// Lets compaction shorten chains of operands.
    fn combine(&self, _key: &[u8], _older: &[u8], _newer: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// Whether this is the operator's code, and not only its name.
    #[doc(hidden)]
    fn is_given(&self) -> bool {
        true
    }
}

/// Stands in for an operator of which only the name is recorded, because the program did not give
/// it. It refuses, so that operands stay as they are, and only a reader that needs their value is
/// told.
#[derive(Debug)]
pub(crate) struct NotGiven(pub(crate) String);

impl MergeOperator for NotGiven {
    fn name(&self) -> &str {
        &self.0
    }

    fn merge(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        Err(NOT_GIVEN.into())
    }

    fn is_given(&self) -> bool {
        false
    }
}

/// Why what needs an operator fails without it, and what to do.
pub(crate) const NOT_GIVEN: &str = "the program did not give it when it opened the database; give it to Options::merge_operator, Options::register_operator or Db::keyspace_with";

impl fmt::Debug for dyn MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MergeOperator({})", self.name())
    }
}

/// The built-in operator named `name`: `counter`, `append` or `max`.
pub fn builtin(name: &str) -> Option<Arc<dyn MergeOperator>> {
    match name {
        "counter" => Some(Arc::new(Counter)),
        "append" => Some(Arc::new(Append)),
        "max" => Some(Arc::new(Max)),
        _ => None,
    }
}

/// Adds 64-bit little-endian signed integers, wrapping around at the ends. An absent base counts
/// as 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter;

impl Counter {
    /// The operand (and the stored value) for `n`.
    pub fn encode(n: i64) -> [u8; 8] {
        n.to_le_bytes()
    }

    /// The number in a stored value.
    pub fn decode(value: &[u8]) -> Option<i64> {
        value.try_into().ok().map(i64::from_le_bytes)
    }

    fn number(bytes: &[u8]) -> Result<i64, String> {
        Counter::decode(bytes).ok_or_else(|| format!("a counter is 8 bytes, not {}", bytes.len()))
    }
}

impl MergeOperator for Counter {
    fn name(&self) -> &str {
        "counter"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let mut sum = base.map_or(Ok(0), Counter::number)?;
        for operand in operands {
            sum = sum.wrapping_add(Counter::number(operand)?);
        }
        Ok(Counter::encode(sum).to_vec())
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(Counter::encode(Counter::decode(older)?.wrapping_add(Counter::decode(newer)?)).to_vec())
    }
}

/// Concatenates, oldest first. An absent base counts as empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        let base = base.unwrap_or_default();
        // In one piece: what grows may take twice as much.
        let bytes = operands.iter().map(|operand| operand.len()).sum::<usize>() + base.len();
        let mut whole = Vec::with_capacity(bytes);
        whole.extend_from_slice(base);
        operands.iter().for_each(|operand| whole.extend_from_slice(operand));
        Ok(whole)
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

/// Keeps the bytewise largest of base and operands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "max"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        Ok(operands.iter().copied().chain(base).max().unwrap_or_default().to_vec())
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(older.max(newer).to_vec())
    }
}
