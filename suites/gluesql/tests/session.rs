//! What GlueSQL's suite leaves out: sessions that stop or meet, power cuts, and the order of keys.

use gluesql_core::prelude::{Glue, Payload, Value};
use solera::{
    Db, Options,
    vfs::mem::{MemFs, Persist},
};
use solera_suite_gluesql::Storage;
use std::sync::Arc;

fn open(fs: &MemFs) -> Db {
    Options::new().fs(Arc::new(fs.clone())).memory(16 << 20).open("/sql").unwrap()
}

fn session(db: &Db) -> Glue<Storage> {
    Glue::new(Storage::new(db).unwrap())
}

/// The first column of what a query gives.
fn column(glue: &mut Glue<Storage>, query: &str) -> Vec<Value> {
    match glue.execute(query).unwrap().remove(0) {
        Payload::Select { rows, .. } => rows.into_iter().map(|mut row| row.remove(0)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_indexes_functions_and_row_numbers_are_there_after_a_restart() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut glue = session(&db);
    glue.execute("CREATE TABLE Casks (wood TEXT)").unwrap();
    glue.execute("CREATE INDEX by_wood ON Casks (wood)").unwrap();
    glue.execute("CREATE FUNCTION twice (n INT) RETURN n + n").unwrap();
    glue.execute("INSERT INTO Casks VALUES ('oak'), ('acacia')").unwrap();
    db.close().unwrap();
    assert!(glue.execute("SELECT * FROM Casks").is_err());

    let mut glue = session(&open(&fs));
    glue.execute("INSERT INTO Casks VALUES ('cherry')").unwrap();
    let by_wood = column(&mut glue, "SELECT wood FROM Casks ORDER BY wood");
    assert_eq!(by_wood, ["acacia", "cherry", "oak"].map(|wood| Value::Str(wood.to_owned())));
    assert_eq!(column(&mut glue, "SELECT twice(21) AS n FROM Casks LIMIT 1"), [Value::I64(42)]);
}

#[test]
fn a_statement_is_whole_or_absent_after_a_power_cut_at_any_operation() {
    let mut cuts = 0;
    loop {
        let fs = MemFs::new();
        {
            let db = open(&fs);
            session(&db)
                .execute("CREATE TABLE T (id INT PRIMARY KEY, n INT); CREATE INDEX by_n ON T (n)")
                .unwrap();
            db.sync().unwrap();
        }
        fs.crash_after(cuts);
        if let Ok(db) = Options::new().fs(Arc::new(fs.clone())).memory(16 << 20).open("/sql") {
            let mut glue = session(&db);
            for id in 0..8 {
                let _ = glue.execute(format!("INSERT INTO T VALUES ({id}, 1), ({}, 1)", 100 + id));
                let _ = db.sync();
            }
        }
        for persist in [Persist::Nothing, Persist::RandomPages(4096), Persist::Torn] {
            let mut glue = session(&open(&fs.crash(persist, cuts)));
            let low = column(&mut glue, "SELECT id FROM T WHERE id < 100");
            assert_eq!(low, (0..low.len() as i64).map(Value::I64).collect::<Vec<_>>());
            assert_eq!(column(&mut glue, "SELECT id FROM T").len(), 2 * low.len());
            assert_eq!(column(&mut glue, "SELECT id FROM T WHERE n = 1").len(), 2 * low.len());
        }
        if !fs.crashed() {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 8, "every sync is an operation, so there were more than {cuts}");
}

#[test]
fn of_two_sessions_that_change_what_the_other_read_the_later_is_refused() {
    let db = open(&MemFs::new());
    let (mut one, mut other) = (session(&db), session(&db));
    one.execute("CREATE TABLE T (id INT PRIMARY KEY, n INT); INSERT INTO T VALUES (1, 0)").unwrap();
    for glue in [&mut one, &mut other] {
        glue.execute("BEGIN; UPDATE T SET n = n + 1 WHERE id = 1").unwrap();
    }
    one.execute("COMMIT").unwrap();
    other.execute("COMMIT").unwrap_err();
    assert_eq!(column(&mut other, "SELECT n FROM T"), [Value::I64(1)]);
    other.execute("UPDATE T SET n = n + 1 WHERE id = 1").unwrap();
    assert_eq!(column(&mut one, "SELECT n FROM T"), [Value::I64(2)]);
}

/// The bytes of a key decide its order and whether it is another, so each kind of key is tried.
#[test]
fn primary_keys_of_every_kind_are_told_apart_and_sorted() {
    let mut glue = session(&open(&MemFs::new()));
    for (kind, sorted) in [
        ("INT", "-300 -256 -1 0 1 255 256 9223372036854775807"),
        ("UINT128", "0 1 340282366920938463463374607431768211455"),
        ("DECIMAL", "-12.5 -1.5 -1.05 -0.5 0 0.05 0.5 1.05 1.5 12.5"),
        ("DATE", "'-0044-03-15' '0001-01-01' '1989-02-01' '2026-11-25'"),
        ("TIMESTAMP", "'1969-12-31T23:59:59' '1970-01-01T00:00:00' '2026-11-25T21:00:00.5'"),
        ("TIME", "'00:00:00' '00:00:00.5' '23:59:59'"),
        ("TEXT", "'' 'a' 'aa' 'b' 'é'"),
        ("BYTEA", "X'00' X'0000' X'0001' X'01' X'FF'"),
        ("BOOLEAN", "FALSE TRUE"),
    ] {
        let values: Vec<&str> = sorted.split(' ').collect();
        glue.execute(format!("CREATE TABLE T (k {kind} PRIMARY KEY, n INT)")).unwrap();
        for (n, value) in values.iter().enumerate().rev() {
            glue.execute(format!("INSERT INTO T VALUES ({value}, {n})")).unwrap();
        }
        let all: Vec<Value> = (0..values.len() as i64).map(Value::I64).collect();
        assert_eq!(column(&mut glue, "SELECT n FROM T"), all, "{kind}");
        for (n, value) in values.iter().enumerate() {
            let found = column(&mut glue, &format!("SELECT n FROM T WHERE k = {value}"));
            assert_eq!(found, [Value::I64(n as i64)], "{kind} {value}");
        }
        glue.execute("DROP TABLE T").unwrap();
    }
}

#[test]
fn a_condition_lets_the_same_rows_through_with_an_index_and_without() {
    let mut glue = session(&open(&MemFs::new()));
    // What GlueSQL compares by itself: without an index it finds no whole number below 2.5.
    for (kind, values, bounds) in [
        ("INT", "-4 1 2 3", "-1 0 2 300"),
        ("UINT8", "0 1 2 255", "0 2 100"),
        ("FLOAT", "-2.5 -0.5 0.0 0.05 0.5 2.0 2.5", "-1.05 0 0.5 2 2.0 300"),
        ("DATE", "'0001-01-01' '1989-02-01' '2026-11-25'", "'1989-02-01' '2000-01-01' 7 'oak'"),
        ("TEXT", "'' '1' 'oak'", "'' '1' 'm' 7"),
    ] {
        glue.execute(format!("CREATE TABLE Plain (n {kind}); CREATE TABLE Indexed (n {kind})")).unwrap();
        glue.execute("CREATE INDEX by_n ON Indexed (n)").unwrap();
        for value in values.split(' ') {
            glue.execute(format!("INSERT INTO Plain VALUES ({value}); INSERT INTO Indexed VALUES ({value})"))
                .unwrap();
        }
        for bound in bounds.split(' ') {
            for operator in ["<", "<=", ">", ">=", "="] {
                let query = |table| format!("SELECT n FROM {table} WHERE n {operator} {bound}");
                let (plain, indexed) =
                    (column(&mut glue, &query("Plain")), column(&mut glue, &query("Indexed")));
                assert_eq!(indexed, plain, "{kind} {operator} {bound}");
            }
        }
        glue.execute("DROP TABLE Plain, Indexed").unwrap();
    }
}

#[test]
fn an_index_compares_numbers_of_two_kinds_by_value() {
    let mut glue = session(&open(&MemFs::new()));
    for (kind, values, conditions) in [
        (
            "INT",
            "(-4), (1), (2), (3)",
            ["< 2.5: -4 1 2", "<= -3.5: -4", ">= 1.5: 2 3", "= 2.5:", "= 2.0: 2", "< 3.0: -4 1 2"],
        ),
        (
            "DECIMAL",
            "(-1.5), (-1.05), (0), (2.5)",
            [
                "< -1.05: -1.5",
                "<= -1.05: -1.5 -1.05",
                ">= 0: 0 2.5",
                "= 2.5: 2.5",
                "> 2: 2.5",
                "= -1.05: -1.05",
            ],
        ),
    ] {
        let insert =
            format!("CREATE TABLE T (n {kind}); CREATE INDEX by_n ON T (n); INSERT INTO T VALUES {values}");
        glue.execute(insert).unwrap();
        for condition in conditions {
            let (condition, expected) = condition.split_once(':').unwrap();
            let found = column(&mut glue, &format!("SELECT CAST(n AS TEXT) FROM T WHERE n {condition}"));
            let expected: Vec<Value> =
                expected.split_whitespace().map(|value| Value::Str(value.to_owned())).collect();
            assert_eq!(found, expected, "{kind} {condition}");
        }
        glue.execute("DROP TABLE T").unwrap();
    }
}
