//! A keyspace's settings as the manifest records them.

use super::KeyspaceOptions;
use crate::{
    codec::{DecodeError, Decoder, put_bytes},
    compaction::Shape,
    error::{Error, Result},
    operator::{self, MergeOperator},
    table::Layout,
};
use std::sync::Arc;

/// Layout, shape and the operator's name (empty: none), in this order.
pub(super) fn encode(options: &KeyspaceOptions) -> Vec<u8> {
    let mut out = Vec::new();
    options.layout.encode(&mut out);
    options.shape.encode(&mut out);
    let operator = options.merge_operator.as_ref().map_or("", |operator| operator.name());
    put_bytes(&mut out, operator.as_bytes());
    out
}

/// Settings as read, before the operator is looked up.
pub(super) struct Recorded {
    pub(super) layout: Layout,
    pub(super) shape: Shape,
    pub(super) operator: String,
}

pub(super) fn decode(bytes: &[u8]) -> Result<Recorded, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let layout = Layout::decode(&mut decoder)?;
    let shape = Shape::decode(&mut decoder)?;
    let Ok(operator) = String::from_utf8(decoder.bytes("merge operator name")?.to_vec()) else {
        return decoder.fail("merge operator name in UTF-8");
    };
    decoder.finish("end of keyspace settings")?;
    Ok(Recorded { layout, shape, operator })
}

/// Refuses an operator in the place of another one: operands of one mean nothing to the other.
pub(super) fn check_operator(
    keyspace: &str,
    has: Option<&Arc<dyn MergeOperator>>,
    given: &Arc<dyn MergeOperator>,
) -> Result<()> {
    match has {
        Some(has) if has.name() != given.name() => Err(Error::Invalid(format!(
            "keyspace {keyspace:?} has the merge operator {:?} and cannot have {:?}: its operands are the other's",
            has.name(),
            given.name()
        ))),
        _ => Ok(()),
    }
}

/// The operator that a keyspace was created with: one that the program gave, or a built-in one.
pub(super) fn find_operator(
    name: &str,
    keyspace: &str,
    given: &[Arc<dyn MergeOperator>],
) -> Result<Option<Arc<dyn MergeOperator>>> {
    if name.is_empty() {
        return Ok(None);
    }
    let found = given.iter().find(|operator| operator.name() == name).cloned();
    match found.or_else(|| operator::builtin(name)) {
        Some(operator) => Ok(Some(operator)),
        None => Err(Error::Invalid(format!(
            "keyspace {keyspace:?} was created with the merge operator {name:?}; give it to Options::merge_operator or Options::register_operator"
        ))),
    }
}
