//! What a key's merge operands amount to.

use crate::{
    error::{Error, Result},
    operator::MergeOperator,
    pin::Slice,
};

/// The value of `key` after its operands, newest first as a reader meets them, are merged onto `base`
/// (`None`: absent). Fails with [`Error::Invalid`] if there is no operator, and with [`Error::Merge`] if
/// the operator refuses.
pub fn resolve(
    key: &[u8],
    operator: Option<&dyn MergeOperator>,
    base: Option<&[u8]>,
    operands_newest_first: &[Slice],
) -> Result<Vec<u8>> {
    let Some(operator) = operator else {
        let key = key.escape_ascii();
        return Err(Error::Invalid(format!(
            "the key \"{key}\" has merge operands, but its keyspace was opened without a merge operator; open it with the one that wrote them"
        )));
    };
    let oldest_first: Vec<&[u8]> = operands_newest_first.iter().rev().map(Slice::as_bytes).collect();
    operator
        .merge(key, base, &oldest_first)
        .map_err(|what| Error::Merge { operator: operator.name().to_owned(), what })
}
