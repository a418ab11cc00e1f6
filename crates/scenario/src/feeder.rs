//! Rows of data that users take: CSV with a head line, or JSON objects a line. The central noun is
//! the [`Feeder`]: all rows in one block of memory. Which row comes next is a [`Cursor`]'s affair;
//! every thread has its own, over its share of the rows, so that nothing is shared while it runs.

use std::{collections::BTreeMap, path::Path};

use drom_stats::Rng;
use serde_json::{Map, Value, value::RawValue};

use crate::error::Error;

#[derive(Clone, Debug)]
pub struct Feeder {
    pub name: String,
    pub columns: Vec<String>,
    pub order: Order,
    /// No row is taken twice; when there is none left the user's work is done.
    pub once: bool,
    pub take: Take,
    cells: Vec<u8>,
    /// Where each cell ends, row by row.
    ends: Vec<usize>,
    /// Running sums, when the order is by weight.
    weights: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Sequence,
    /// A sequence in an order drawn once from the seed.
    Shuffle,
    /// Any row, each time anew.
    Random,
    /// The same, by the rows' weights.
    Weighted,
}

/// When a user takes another row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    Iteration,
    Request,
    User,
}

/// A share's place in a feeder.
#[derive(Clone, Debug)]
pub struct Cursor {
    next: usize,
    step: usize,
    shuffled: Vec<u32>,
}

impl Feeder {
    #[must_use]
    pub fn new(name: &str, columns: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            columns,
            order: Order::Sequence,
            once: false,
            take: Take::Iteration,
            cells: Vec::new(),
            ends: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// # Errors
    /// The line that is wrong, and how.
    pub fn csv(name: &str, path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(bytes);
        let head = reader.byte_headers().map_err(|error| csv_error(path, &error))?;
        let columns = head.iter().map(|name| String::from_utf8_lossy(name).into_owned());
        let mut feeder = Self::new(name, columns.collect());
        feeder.check_columns(path)?;
        let mut last = csv::Position::new();
        for record in reader.byte_records() {
            let record = record.map_err(|error| csv_error(path, &error))?;
            record.iter().for_each(|cell| feeder.push(cell));
            last = record.position().cloned().unwrap_or(last);
        }
        if is_open_ended(&bytes[last.byte() as usize..]) {
            let line = usize::try_from(last.line()).unwrap_or(0);
            return Err(Error::at(path, line, "a quote begins in this row and nowhere ends"));
        }
        feeder.not_empty(path)
    }

    /// A JSON object a line; every line has the keys of the first.
    ///
    /// # Errors
    /// The line that is wrong, and how.
    pub fn json_lines(name: &str, path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut feeder = Self::new(name, Vec::new());
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let wrong = |reason: String| Error::at(path, at + 1, reason);
            let no_object = |error| format!("this is no JSON object on one line: {error}");
            if feeder.columns.is_empty() {
                let first: Map<String, Value> =
                    serde_json::from_slice(line).map_err(|error| wrong(no_object(error)))?;
                feeder.columns = first.keys().cloned().collect();
            }
            let row = serde_json::from_slice(line).map_err(|error| wrong(no_object(error)))?;
            feeder.push_row(&row).map_err(wrong)?;
        }
        feeder.check_columns(path)?;
        feeder.not_empty(path)
    }

    /// The cells of a row one after the other.
    pub fn push(&mut self, cell: &[u8]) {
        self.cells.extend_from_slice(cell);
        self.ends.push(self.cells.len());
    }

    /// Rows are drawn by this column's numbers.
    ///
    /// # Errors
    /// The first row whose weight is none.
    pub fn weigh(&mut self, path: &Path, column: &str) -> Result<(), Error> {
        let Some(at) = self.columns.iter().position(|known| known == column) else {
            return Err(Error::of_file(path, format!("there is no column `{column}` for weights")));
        };
        let mut sum = 0_u64;
        for row in 0..self.rows() {
            let cell = String::from_utf8_lossy(self.cell(row, at));
            let weight = cell.trim().parse::<u32>().map_err(|_| {
                let message =
                    format!("row {}: {cell:?} is no weight; write a whole number", row + 1);
                Error::of_file(path, message)
            })?;
            sum += u64::from(weight);
            self.weights.push(sum);
        }
        self.order = Order::Weighted;
        if sum == 0 { Err(Error::of_file(path, "all weights are 0")) } else { Ok(()) }
    }

    #[must_use]
    pub fn rows(&self) -> usize {
        self.ends.len().checked_div(self.columns.len()).unwrap_or(0)
    }

    #[must_use]
    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|known| known == column)
    }

    pub fn cell(&self, row: usize, column: usize) -> &[u8] {
        let at = row * self.columns.len() + column;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.cells[start..self.ends[at]]
    }

    /// Numbers stay as they are written.
    fn push_row(&mut self, row: &BTreeMap<String, &RawValue>) -> Result<(), String> {
        if row.len() != self.columns.len() {
            return Err(format!(
                "its keys are not those of the first line: {}",
                self.columns.join(", ")
            ));
        }
        for at in 0..self.columns.len() {
            let value = row.get(&self.columns[at]);
            let value =
                value.ok_or_else(|| format!("the key `{}` is missing", self.columns[at]))?;
            match serde_json::from_str::<String>(value.get()) {
                Ok(text) => self.push(text.as_bytes()),
                Err(_) => self.push(value.get().as_bytes()),
            }
        }
        Ok(())
    }

    fn check_columns(&self, path: &Path) -> Result<(), Error> {
        let twice = |at: usize| self.columns[..at].contains(&self.columns[at]);
        match (0..self.columns.len()).find(|at| self.columns[*at].is_empty() || twice(*at)) {
            Some(at) if self.columns[at].is_empty() => Err(Error::at(
                path,
                1,
                format!("column {} has no name; the first line names the columns", at + 1),
            )),
            Some(at) => {
                Err(Error::at(path, 1, format!("two columns are named `{}`", self.columns[at])))
            }
            None => Ok(()),
        }
    }

    fn not_empty(self, path: &Path) -> Result<Self, Error> {
        if self.rows() > 0 {
            return Ok(self);
        }
        Err(Error::of_file(path, "there are no rows: a line with names, then a line for each row"))
    }
}

impl Cursor {
    /// For share `number` of `of`, which starts at its own rows.
    #[must_use]
    pub fn new(feeder: &Feeder, number: usize, of: usize, seed: u64) -> Self {
        let mut shuffled = Vec::new();
        if feeder.order == Order::Shuffle {
            shuffled.extend(0..u32::try_from(feeder.rows()).unwrap_or(u32::MAX));
            Rng::new(seed).shuffle(&mut shuffled);
        }
        Self { next: number, step: of, shuffled }
    }

    /// The next row; `None` when each is to be taken once and all were.
    pub fn take(&mut self, feeder: &Feeder, rng: &mut Rng) -> Option<usize> {
        match feeder.order {
            Order::Random => return Some(rng.below(feeder.rows())),
            Order::Weighted => return Some(weighted(&feeder.weights, rng)),
            Order::Sequence | Order::Shuffle => {}
        }
        let rows = feeder.rows();
        if self.next >= rows {
            if feeder.once {
                return None;
            }
            self.next %= rows;
        }
        let row = self.next;
        self.next += self.step;
        Some(self.shuffled.get(row).map_or(row, |row| *row as usize))
    }
}

/// A place in running sums, each as likely as its part.
pub fn weighted(sums: &[u64], rng: &mut Rng) -> usize {
    let total = sums.last().copied().unwrap_or(0);
    let drawn = rng.below(usize::try_from(total).unwrap_or(usize::MAX).max(1)) as u64;
    sums.partition_point(|sum| *sum <= drawn)
}

/// The file ends within quotes: a line's end more would belong to the last cell. To the library it
/// is no error, and all rows behind a forgotten quote would be one cell.
fn is_open_ended(last_row: &[u8]) -> bool {
    let cells = |bytes: &[u8]| {
        let reader = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes);
        let rows = reader.into_byte_records().map_while(Result::ok);
        rows.flat_map(|row| row.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()).last()
    };
    cells(last_row) != cells(&[last_row, b"\n"].concat())
}

fn csv_error(path: &Path, error: &csv::Error) -> Error {
    let line = error.position().map(csv::Position::line);
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} cells, but the first line names {expected_len} columns")
        }
        _ => error.to_string(),
    };
    match line {
        Some(line) => Error::at(path, usize::try_from(line).unwrap_or(0), message),
        None => Error::of_file(path, message),
    }
}

#[cfg(test)]
mod tests {
    use drom_stats::Rng;
    use proptest::proptest;

    use super::*;

    fn csv(text: &str) -> Result<Feeder, String> {
        Feeder::csv("f", Path::new("f.csv"), text.as_bytes()).map_err(|error| error.to_string())
    }

    fn jsonl(text: &str) -> Result<Feeder, String> {
        let read = Feeder::json_lines("f", Path::new("f.jsonl"), text.as_bytes());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_of_json_stay_as_they_are_written() {
        let text =
            b"{\"b\":1.10,\"a\":123456789012345678901234567890}\n{\"a\":\"\\u0041\",\"b\":[1, 2]}";
        let feeder = Feeder::json_lines("f", Path::new("f"), text).expect("two rows");
        let cells: Vec<&[u8]> = (0..4).map(|at| feeder.cell(at / 2, at % 2)).collect();
        assert_eq!(feeder.columns, ["b", "a"]);
        assert_eq!(cells, [&b"1.10"[..], b"123456789012345678901234567890", b"[1, 2]", b"A"]);
    }

    #[test]
    fn rows_are_read() {
        let feeder = csv("name, id\nAnn,\"1,2\"\nB\u{f6},3\n").expect("good");
        assert_eq!(
            (feeder.rows(), &feeder.columns),
            (2, &vec!["name".to_owned(), "id".to_owned()])
        );
        assert_eq!((feeder.cell(0, 1), feeder.cell(1, 0)), (&b"1,2"[..], "B\u{f6}".as_bytes()));
        let feeder = jsonl("{\"a\":1,\"b\":\"x\"}\n\n{\"b\":[2],\"a\":null}\n").expect("good");
        assert_eq!((feeder.cell(0, 0), feeder.cell(1, 1)), (&b"1"[..], &b"[2]"[..]));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let told = csv("a,b\n1,2\n3\n").expect_err("short");
        assert_eq!(told, "f.csv:3: 1 cells, but the first line names 2 columns");
        let told = csv("a,b\n1,2\n3,\"4\n5,6\n").expect_err("an open quote");
        assert_eq!(told, "f.csv:3: a quote begins in this row and nowhere ends");
        assert!(csv("a,b\n1,\"2\n\"").is_ok() && csv("a,b\n1,2\"").is_ok());
        assert!(csv("").expect_err("empty").contains("no rows"));
        assert!(csv("a,a\n1,2\n").expect_err("twice").contains("two columns"));
        assert!(csv("a,\n1,2\n").expect_err("nameless").contains("column 2"));
        assert_eq!(jsonl("\u{feff}{\"a\":1}\n").expect("a mark is no row").rows(), 1);
        assert!(jsonl("{\"a\":1}\n[]\n").expect_err("a list").starts_with("f.jsonl:2: "));
        assert!(jsonl("{\"a\":1}\n{\"b\":1}\n").expect_err("other").contains("`a` is missing"));
    }

    fn rows(feeder: &Feeder, cursor: &mut Cursor, count: usize) -> Vec<Option<usize>> {
        let mut rng = Rng::new(5);
        (0..count).map(|_| cursor.take(feeder, &mut rng)).collect()
    }

    #[test]
    fn shares_take_every_row_once_between_them() {
        for order in [Order::Sequence, Order::Shuffle] {
            let mut feeder = csv("a\n0\n1\n2\n3\n4\n").expect("good");
            (feeder.order, feeder.once) = (order, true);
            let mut all: Vec<usize> = (0..2)
                .flat_map(|number| rows(&feeder, &mut Cursor::new(&feeder, number, 2, 9), 4))
                .flatten()
                .collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4], "{order:?}");
        }
        let feeder = csv("a\n0\n1\n").expect("good");
        let taken = rows(&feeder, &mut Cursor::new(&feeder, 0, 1, 9), 4);
        assert_eq!(taken, [Some(0), Some(1), Some(0), Some(1)]);
        let beyond = rows(&feeder, &mut Cursor::new(&feeder, 2, 3, 9), 3);
        assert_eq!(beyond, [Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn weights_decide_how_often_a_row_comes() {
        let mut feeder = csv("a,w\nx,1\ny,0\nz,3\n").expect("good");
        feeder.weigh(Path::new("f.csv"), "w").expect("weights");
        let taken = rows(&feeder, &mut Cursor::new(&feeder, 0, 1, 9), 4_000);
        let count = |row| taken.iter().filter(|taken| **taken == Some(row)).count();
        assert_eq!(count(1), 0);
        assert!((2_800..3_200).contains(&count(2)), "{}", count(2));
        assert!(csv("w\nmany\n").expect("good").weigh(Path::new("f"), "w").is_err());
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(text in "([a-z,\"\n{}:]|\\PC){0,60}") {
            let _ = csv(&text);
            let _ = jsonl(&text);
        }
    }
}
