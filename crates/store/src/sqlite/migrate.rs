//! The schema by numbered migrations, each applied in one transaction and remembered with its digest.
//!
//! Running it again changes nothing; a file of a newer version is refused rather than guessed at.

use sha2::{Digest, Sha256};
use sqlx::{AssertSqlSafe, Executor, Row, SqliteConnection};

use super::fault::fault;
use crate::OpenError;

/// (version, slug, text), in order.
pub(super) const MIGRATIONS: &[(i64, &str, &str)] =
    &[(1, "spine", include_str!("../../../../migrations/sqlite/0001_spine.sql"))];

const CREATE: &str = "CREATE TABLE IF NOT EXISTS schema_migration (
    version INTEGER PRIMARY KEY, slug TEXT NOT NULL, digest TEXT NOT NULL)";

/// Brings the schema to the newest of `migrations`.
pub(super) async fn migrate(
    connection: &mut SqliteConnection,
    migrations: &[(i64, &str, &str)],
) -> Result<(), OpenError> {
    // The lock comes first: a second process that starts at the same time then finds the work done.
    run(connection, "BEGIN IMMEDIATE").await?;
    match apply_missing(connection, migrations).await {
        Ok(()) => run(connection, "COMMIT").await,
        Err(error) => {
            // The first error is the one to report; closing the connection rolls back as well.
            let _ = run(connection, "ROLLBACK").await;
            Err(error)
        }
    }
}

async fn apply_missing(connection: &mut SqliteConnection, migrations: &[(i64, &str, &str)]) -> Result<(), OpenError> {
    run(connection, CREATE).await?;
    let rows = sqlx::query("SELECT version, digest FROM schema_migration ORDER BY version")
        .fetch_all(&mut *connection)
        .await
        .map_err(|e| fault(&e))?;
    let known = migrations.last().map_or(0, |(version, _, _)| *version);
    for row in &rows {
        let found: i64 = row.try_get(0).map_err(|e| fault(&e))?;
        let digest: String = row.try_get(1).map_err(|e| fault(&e))?;
        match migrations.iter().find(|(version, _, _)| *version == found) {
            None => return Err(OpenError::NewerSchema { found, known }),
            Some((version, _, text)) if digest_of(text) != digest => {
                return Err(OpenError::ChangedMigration { version: *version });
            }
            Some(_) => {}
        }
    }
    for (version, slug, text) in migrations.iter().skip(rows.len()) {
        run(connection, text).await?;
        sqlx::query("INSERT INTO schema_migration (version, slug, digest) VALUES (?, ?, ?)")
            .bind(version)
            .bind(*slug)
            .bind(digest_of(text))
            .execute(&mut *connection)
            .await
            .map_err(|e| fault(&e))?;
        tracing::info!(version, slug, "migration applied");
    }
    Ok(())
}

async fn run(connection: &mut SqliteConnection, sql: &str) -> Result<(), OpenError> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.map_err(|e| fault(&e))?;
    Ok(())
}

fn digest_of(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use sqlx::Connection;

    use super::*;

    async fn memory() -> SqliteConnection {
        SqliteConnection::connect("sqlite::memory:").await.unwrap()
    }

    #[tokio::test]
    async fn twice_is_once() {
        let mut connection = memory().await;
        migrate(&mut connection, MIGRATIONS).await.unwrap();
        migrate(&mut connection, MIGRATIONS).await.unwrap();
        let row = sqlx::query("SELECT count(*) FROM schema_migration").fetch_one(&mut connection).await.unwrap();
        assert_eq!(row.get::<i64, _>(0), i64::try_from(MIGRATIONS.len()).unwrap());
    }

    #[tokio::test]
    async fn a_newer_schema_is_refused() {
        let mut connection = memory().await;
        let newer = [(1, "a", "CREATE TABLE a (x)"), (2, "b", "CREATE TABLE b (x)")];
        migrate(&mut connection, &newer).await.unwrap();
        let refused = migrate(&mut connection, &newer[..1]).await;
        assert!(matches!(refused, Err(OpenError::NewerSchema { found: 2, known: 1 })), "{refused:?}");
    }

    #[tokio::test]
    async fn a_changed_migration_is_refused() {
        let mut connection = memory().await;
        migrate(&mut connection, &[(1, "a", "CREATE TABLE a (x)")]).await.unwrap();
        let refused = migrate(&mut connection, &[(1, "a", "CREATE TABLE a (y)")]).await;
        assert!(matches!(refused, Err(OpenError::ChangedMigration { version: 1 })), "{refused:?}");
    }

    #[tokio::test]
    async fn a_failing_migration_leaves_nothing() {
        let mut connection = memory().await;
        let broken = [(1, "a", "CREATE TABLE a (x); CREATE TABLE a (x)")];
        assert!(migrate(&mut connection, &broken).await.is_err());
        let row = sqlx::query("SELECT count(*) FROM sqlite_master").fetch_one(&mut connection).await.unwrap();
        assert_eq!(row.get::<i64, _>(0), 0);
    }
}
