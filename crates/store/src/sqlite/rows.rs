//! Statements over many rows at once: `VALUES` lists as tables.
//!
//! Every statement costs a round trip to the connection's thread, so batches are written as one statement a table. Row
//! counts are padded to powers of two with rows of NULL, which each statement filters out: so few texts exist, and
//! all of them stay prepared. What does not live here: any table.

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, Sqlite, SqliteConnection, Type};

use super::fault::fault;
use crate::{Fault, FaultKind};

/// Rows in one statement at most; longer lists take several.
const ROWS_MAX: usize = 1024;

/// Values to be used as the table `v (column1, column2, …)`.
pub(super) struct Rows {
    columns: usize,
    values: usize,
    chunks: Vec<SqliteArguments>,
}

impl Rows {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, values: 0, chunks: Vec::new() }
    }

    /// Adds the next value; the first of each row must not be NULL.
    pub(super) fn add<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(&mut self, value: T) -> Result<&mut Self, Fault> {
        if self.values.is_multiple_of(self.columns * ROWS_MAX) {
            self.chunks.push(SqliteArguments::default());
        }
        let last = self.chunks.last_mut().ok_or(Fault::new(FaultKind::Other))?;
        last.add(value).map_err(|_| Fault::new(FaultKind::Other))?;
        self.values += 1;
        Ok(self)
    }

    /// Runs a statement with `{v}` where the table belongs.
    pub(super) async fn execute(self, connection: &mut SqliteConnection, template: &str) -> Result<(), Fault> {
        for arguments in self.chunks {
            let sql = expand(template, self.columns, arguments.len() / self.columns);
            sqlx::query_with(AssertSqlSafe(sql), arguments).execute(&mut *connection).await.map_err(|e| fault(&e))?;
        }
        Ok(())
    }

    /// Runs a query with `{v}` where the table belongs.
    pub(super) async fn fetch(
        self,
        connection: &mut SqliteConnection,
        template: &str,
    ) -> Result<Vec<SqliteRow>, Fault> {
        let mut found = Vec::new();
        for arguments in self.chunks {
            let sql = expand(template, self.columns, arguments.len() / self.columns);
            let query = sqlx::query_with(AssertSqlSafe(sql), arguments);
            found.extend(query.fetch_all(&mut *connection).await.map_err(|e| fault(&e))?);
        }
        Ok(found)
    }
}

/// One column of values.
pub(super) fn column<'t, T, I>(values: I) -> Result<Rows, Fault>
where
    T: Encode<'t, Sqlite> + Type<Sqlite>,
    I: IntoIterator<Item = T>,
{
    let mut rows = Rows::new(1);
    for value in values {
        rows.add(value)?;
    }
    Ok(rows)
}

fn expand(template: &str, columns: usize, rows: usize) -> String {
    let padded = rows.next_power_of_two();
    let mut table = String::with_capacity(16 + padded * (2 * columns + 2));
    table.push_str("(VALUES ");
    for row in 0..padded {
        table.push_str(if row == 0 { "(" } else { ",(" });
        for column in 0..columns {
            table.push_str(if column == 0 { "?" } else { ",?" });
        }
        table.push(')');
    }
    table.push_str(") v");
    template.replacen("{v}", &table, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_to_a_power_of_two() {
        assert_eq!(expand("a {v} b", 2, 3), "a (VALUES (?,?),(?,?),(?,?),(?,?)) v b");
        assert_eq!(expand("{v}", 1, 1), "(VALUES (?)) v");
    }
}
