//! Move money between accounts from many threads; the sum never changes.
//!
//! A transaction sees one moment of the database and its own writes. If anything that it read has
//! changed when it commits, it fails with `Error::Conflict` and nothing is written: run it again.
//!
//! Run it with `cargo run --example transactions`.

use solera::{Db, Error, Keyspace, Result};
use std::thread;

const ACCOUNTS: u64 = 10;
const OPENING_BALANCE: i64 = 1000;

fn key(account: u64) -> [u8; 8] {
    account.to_be_bytes()
}

fn balance(value: Option<solera::Slice>) -> i64 {
    value.map_or(0, |bytes| i64::from_le_bytes(bytes[..].try_into().expect("balances have 8 bytes")))
}

/// Moves `amount`, unless the account does not have it. Says how often it had to start again.
fn transfer(db: &Db, accounts: &Keyspace, from: u64, to: u64, amount: i64) -> Result<u32> {
    for retries in 0.. {
        let mut transaction = db.transaction();
        let available = balance(transaction.get(accounts, key(from))?);
        if available < amount {
            transaction.rollback();
            return Ok(retries);
        }
        transaction.put(accounts, key(from), (available - amount).to_le_bytes())?;
        let there = balance(transaction.get(accounts, key(to))?);
        transaction.put(accounts, key(to), (there + amount).to_le_bytes())?;
        match transaction.commit() {
            Ok(_) => return Ok(retries),
            Err(Error::Conflict) => continue,
            Err(other) => return Err(other),
        }
    }
    unreachable!("the loop above ends only by returning")
}

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("solera-transactions-{}", std::process::id()));
    let db = Db::open(&dir)?;
    let accounts = db.keyspace("accounts")?;

    let mut batch = db.batch();
    for account in 0..ACCOUNTS {
        batch.put(&accounts, key(account), OPENING_BALANCE.to_le_bytes())?;
    }
    db.write(batch)?; // all accounts, or none

    let workers: Vec<_> = (0..4u64)
        .map(|worker| {
            let (db, accounts) = (db.clone(), accounts.clone());
            thread::spawn(move || -> Result<u32> {
                let mut retries = 0;
                for i in 0..500 {
                    let from = (worker * 7 + i) % ACCOUNTS;
                    let to = (from + 1 + i % (ACCOUNTS - 1)) % ACCOUNTS;
                    retries += transfer(&db, &accounts, from, to, 1 + (i % 50) as i64)?;
                }
                Ok(retries)
            })
        })
        .collect();
    let mut retries = 0;
    for worker in workers {
        retries += worker.join().expect("no worker panics")?;
    }

    let mut sum = 0;
    for entry in accounts.iter() {
        let (account, value) = entry?;
        let account = u64::from_be_bytes(account[..].try_into().expect("keys have 8 bytes"));
        let money = balance(Some(value));
        println!("account {account}: {money}");
        sum += money;
    }
    println!("sum {sum} after 2000 transfers, {retries} of them tried again");
    assert_eq!(sum, ACCOUNTS as i64 * OPENING_BALANCE);

    drop(accounts);
    db.close()?;
    std::fs::remove_dir_all(&dir).expect("nobody else uses this directory");
    Ok(())
}
