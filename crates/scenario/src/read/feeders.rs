//! `[feeder.NAME]`: files with rows.

use std::path::Path;

use super::Compiler;
use crate::{
    error::Error,
    feeder::{Feeder, Order, Take},
    table::Value,
};

impl<'s> Compiler<'s> {
    pub fn read_feeders(&mut self, value: &Value<'s>) -> Result<(), Error> {
        for value in value.table()?.entries() {
            self.check_name(&value)?;
            let feeder = self.feeder(&value)?;
            self.feeders.push(feeder);
        }
        Ok(())
    }

    fn feeder(&self, value: &Value<'s>) -> Result<Feeder, Error> {
        let mut table = value.table()?;
        let file = table.need("file")?;
        let (path, bytes) = self.file(&file)?;
        let mut feeder = match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Feeder::csv(&value.key, &path, &bytes)?,
            Some("jsonl" | "ndjson") => Feeder::json_lines(&value.key, &path, &bytes)?,
            _ => return Err(file.error("a name that ends in .csv or .jsonl is wanted")),
        };
        feeder.once = table.read("once", Value::flag)?.unwrap_or(false);
        feeder.take = table.read("take", take)?.unwrap_or(Take::Iteration);
        feeder.order = table.read("order", order)?.unwrap_or(Order::Sequence);
        if let Some(weight) = table.take("weight") {
            weigh(&mut feeder, &path, &weight)?;
        }
        if feeder.once && matches!(feeder.order, Order::Random | Order::Weighted) {
            return Err(table.error("`once` needs an order: \"sequence\" or \"shuffle\""));
        }
        table.finish()?;
        Ok(feeder)
    }
}

fn weigh(feeder: &mut Feeder, path: &Path, column: &Value<'_>) -> Result<(), Error> {
    if feeder.order == Order::Shuffle {
        return Err(column.error("weights and \"shuffle\" do not go together; leave one out"));
    }
    feeder.weigh(path, &column.text()?)
}

fn take(value: &Value<'_>) -> Result<Take, Error> {
    match &*value.text()? {
        "iteration" => Ok(Take::Iteration),
        "request" => Ok(Take::Request),
        "user" => Ok(Take::User),
        _ => Err(value.error("\"iteration\", \"request\" or \"user\" is wanted")),
    }
}

fn order(value: &Value<'_>) -> Result<Order, Error> {
    match &*value.text()? {
        "sequence" => Ok(Order::Sequence),
        "shuffle" => Ok(Order::Shuffle),
        "random" => Ok(Order::Random),
        _ => Err(value.error("\"sequence\", \"shuffle\" or \"random\" is wanted")),
    }
}
