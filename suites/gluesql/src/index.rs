//! Indexes: an entry's key is the table, the index, the value, and the row's primary key, in order.
//!
//! What must hold: a scan gives the rows in the order of the indexed value, null last, and each row
//! that the condition lets through. `table` keeps entries beside rows; GlueSQL plans and scans.

use crate::{Storage, failed, key, table::Table};
use gluesql_core::{
    ast::{DataType, Expr, IndexOperator, OrderByExpr},
    chrono::Utc,
    data::{Key, SchemaIndex, SchemaIndexOrd, Value},
    error::{Error, IndexError, Result},
    executor::{RowContext, evaluate_stateless},
    plan::{StatementPlan, plan_scalar_expr},
    planner::{
        fetch_schema_map, plan_aggregate, plan_hash_join, plan_index, plan_primary_key, plan_schemaless,
        validate,
    },
    store::{Index, IndexMut, Planner, RowIter, Store},
};

impl Table {
    /// What the keys of an index's entries begin with.
    fn index_prefix(&self, index: &str) -> Vec<u8> {
        let mut bytes = self.prefix().to_vec();
        key::text(&mut bytes, index.as_bytes());
        bytes
    }

    fn index(&self, name: &str) -> Option<&SchemaIndex> {
        self.schema.indexes.iter().find(|index| index.name == name)
    }

    /// What a row has in the place of an index's expression.
    fn indexed_value(&self, expr: &Expr, values: &[Value]) -> Result<Value> {
        let columns = self.schema.column_defs.iter().flatten().map(|column| column.name.clone());
        let columns: Vec<String> = columns.collect();
        let expr = plan_scalar_expr(expr.clone());
        evaluate_stateless(Some(RowContext::RefVecData { columns: &columns, values }), &expr)?.try_into()
    }

    /// The keys of a row's entries, one for each index.
    pub(crate) fn index_entries(&self, values: &[Value], primary: &[u8]) -> Result<Vec<Vec<u8>>> {
        let entry = |index: &SchemaIndex| {
            let mut bytes = self.index_prefix(&index.name);
            key::append(&mut bytes, &Key::try_from(self.indexed_value(&index.expr, values)?)?);
            bytes.extend(primary);
            Ok(bytes)
        };
        self.schema.indexes.iter().map(entry).collect()
    }
}

impl Index for Storage {
    fn scan_indexed_data<'a>(
        &'a self,
        table_name: &str,
        index_name: &str,
        ascending: Option<bool>,
        condition: Option<(&IndexOperator, Value)>,
    ) -> Result<RowIter<'a>> {
        let table =
            self.table(table_name)?.ok_or_else(|| IndexError::TableNotFound(table_name.to_owned()))?;
        let all = table.index_prefix(index_name);
        let (mut start, mut end) = (all.clone(), key::after(&all));
        if let Some((operator, value)) = condition {
            let first = self.prefix(&self.entries, &all).next().transpose().map_err(failed)?;
            let kind = first.map_or(key::NULL, |(entry, _)| entry[all.len()]);
            let Some((operator, bound)) = bound(operator, value, kind)? else {
                return Ok(Box::new(std::iter::empty()));
            };
            let mut bytes = all;
            key::append(&mut bytes, &bound);
            match operator {
                IndexOperator::Lt => end = bytes,
                IndexOperator::LtEq => end = key::after(&bytes),
                IndexOperator::Gt => start = key::after(&bytes),
                IndexOperator::GtEq => start = bytes,
                IndexOperator::Eq => (start, end) = (bytes.clone(), key::after(&bytes)),
            }
        }
        let entries = self.range(&self.entries, &start, &end);
        let entries: Box<dyn Iterator<Item = _>> =
            if ascending == Some(false) { Box::new(entries.rev()) } else { entries };
        Ok(Box::new(entries.map(|entry| self.indexed_row(&entry.map_err(failed)?.1))))
    }
}

/// A condition on values of `kind`, by a bound of that kind. `None`: no value meets it.
fn bound(operator: &IndexOperator, value: Value, kind: u8) -> Result<Option<(IndexOperator, Key)>> {
    let given = Key::try_from(&value)?;
    let cast = |to: DataType| value.cast(&to).and_then(Key::try_from).ok();
    let bound = match (kind, key::kind(&given)) {
        (kind, of) if kind == of || kind == key::NULL || of == key::NULL => Some(given),
        (key::REAL, key::WHOLE | key::DECIMAL) => cast(DataType::Float),
        (key::DECIMAL, key::WHOLE | key::REAL) => cast(DataType::Decimal),
        (key::WHOLE, key::REAL | key::DECIMAL) => return Ok(whole_bound(operator, cast(DataType::Decimal))),
        (key::DATE, key::TEXT) => cast(DataType::Date),
        (key::TIMESTAMP, key::TEXT | key::DATE) => cast(DataType::Timestamp),
        (key::TIME, key::TEXT) => cast(DataType::Time),
        (key::UUID, key::TEXT) => cast(DataType::Uuid),
        (key::INET, key::TEXT) => cast(DataType::Inet),
        _ => None,
    };
    Ok(bound.map(|bound| (operator.clone(), bound)))
}

/// A condition on whole numbers, by a bound that may lie between two: below 2.5 is up to 2.
fn whole_bound(operator: &IndexOperator, bound: Option<Key>) -> Option<(IndexOperator, Key)> {
    let Some(Key::Decimal(bound)) = bound else { return None };
    let floor = Key::I128(bound.floor().mantissa());
    match operator {
        _ if bound.fract().is_zero() => Some((operator.clone(), floor)),
        IndexOperator::Lt | IndexOperator::LtEq => Some((IndexOperator::LtEq, floor)),
        IndexOperator::Gt | IndexOperator::GtEq => Some((IndexOperator::Gt, floor)),
        IndexOperator::Eq => None,
    }
}

impl IndexMut for Storage {
    fn create_index(&mut self, table_name: &str, index_name: &str, column: &OrderByExpr) -> Result<()> {
        let table = self.table(table_name)?;
        let mut table = table.ok_or_else(|| IndexError::TableNotFound(table_name.to_owned()))?;
        if table.index(index_name).is_some() {
            return Err(IndexError::IndexNameAlreadyExists(index_name.to_owned()).into());
        }
        table.schema.indexes.push(SchemaIndex {
            name: index_name.to_owned(),
            expr: column.expr.clone(),
            order: match column.asc {
                Some(true) => SchemaIndexOrd::Asc,
                Some(false) => SchemaIndexOrd::Desc,
                None => SchemaIndexOrd::Both,
            },
            created: Utc::now().naive_utc(),
        });
        self.put_table(&table)?;
        let rows: Vec<_> = self.scan_data(table_name)?.collect::<Result<_>>()?;
        rows.into_iter().try_for_each(|(primary, values)| self.put_row(&table, primary, values))
    }

    fn drop_index(&mut self, table_name: &str, index_name: &str) -> Result<()> {
        let table = self.table(table_name)?;
        let mut table = table.ok_or_else(|| IndexError::TableNotFound(table_name.to_owned()))?;
        if table.index(index_name).is_none() {
            return Err(IndexError::IndexNameDoesNotExist(index_name.to_owned()).into());
        }
        table.schema.indexes.retain(|index| index.name != index_name);
        let entries = self.entries.clone();
        self.write(|transaction| transaction.delete_prefix(&entries, table.index_prefix(index_name)))?;
        self.put_table(&table)
    }
}

impl Planner for Storage {
    /// The steps that GlueSQL takes by itself, and the one that makes use of indexes.
    fn plan(&self, statement: StatementPlan) -> Result<StatementPlan, Error> {
        let schemas = fetch_schema_map(self, &statement)?;
        validate(&schemas, &statement)?;
        let statement = plan_schemaless(&schemas, statement)?;
        let statement = plan_primary_key(&schemas, statement);
        let statement = plan_index(&schemas, statement);
        let statement = plan_hash_join(&schemas, statement);
        Ok(plan_aggregate(statement))
    }
}
