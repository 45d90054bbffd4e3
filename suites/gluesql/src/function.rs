//! Functions that users define: `CREATE FUNCTION`, `DROP FUNCTION`.
//!
//! GlueSQL borrows definitions from the storage, so all of them are in memory too. It asks for some
//! names in capitals, whatever the statement says. So a definition is kept under its name in those.
//! What must hold: what is in memory is what the open transaction sees. GlueSQL calls.

use crate::{Storage, decode, encode, failed};
use gluesql_core::{
    data::CustomFunction as Definition,
    error::Result,
    store::{CustomFunction, CustomFunctionMut},
};

impl Storage {
    /// Takes into memory what the database holds.
    pub(crate) fn read_functions(&mut self) -> Result<()> {
        self.functions = self
            .all(&self.definitions)
            .map(|entry| {
                let definition: Definition = decode(&entry.map_err(failed)?.1)?;
                Ok((definition.func_name.to_uppercase(), definition))
            })
            .collect::<Result<_>>()?;
        Ok(())
    }
}

impl CustomFunction for Storage {
    fn fetch_function<'a>(&'a self, name: &str) -> Result<Option<&'a Definition>> {
        Ok(self.functions.get(&name.to_uppercase()))
    }

    fn fetch_all_functions(&self) -> Result<Vec<&Definition>> {
        Ok(self.functions.values().collect())
    }
}

impl CustomFunctionMut for Storage {
    fn insert_function(&mut self, definition: Definition) -> Result<()> {
        let (definitions, value) = (self.definitions.clone(), encode(&definition)?);
        let name = definition.func_name.to_uppercase();
        self.write(|transaction| transaction.put(&definitions, &name, value))?;
        self.functions.insert(name, definition);
        Ok(())
    }

    fn delete_function(&mut self, name: &str) -> Result<()> {
        let (definitions, name) = (self.definitions.clone(), name.to_uppercase());
        self.write(|transaction| transaction.delete(&definitions, &name))?;
        self.functions.remove(&name);
        Ok(())
    }
}
