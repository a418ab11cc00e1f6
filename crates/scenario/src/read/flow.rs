//! `[[step]]` and `[[scenario]]`: from nested steps to the small program of a flow.

use super::{
    Compiler,
    step::{Defaults, think},
};
use crate::{
    error::Error,
    scenario::{Flow, Op, Think},
    table::{Table, Value},
};

/// More rounds of a loop than anybody wants.
const REPEAT_MAX: u64 = 1_000_000;
/// Loops in loops.
const DEPTH_MAX: usize = 8;

impl<'s> Compiler<'s> {
    /// The flows, and the running sums of their weights.
    pub fn read_flows(
        &mut self,
        flows: (Option<Value<'s>>, Option<Value<'s>>),
        defaults: &Defaults,
    ) -> Result<(Vec<Flow>, Vec<u64>), Error> {
        match flows {
            (Some(_), Some(other)) => {
                Err(other.error("with [[scenario]] every step stands in one: [[scenario.step]]"))
            }
            (Some(steps), None) => {
                let flow = self.flow(String::new(), &steps, defaults)?;
                Ok((vec![flow], vec![1]))
            }
            (None, Some(list)) => self.weighted_flows(&list, defaults),
            (None, None) => {
                Err(Error::of_file(self.source.path, "there is no [[step]]; it has nothing to do"))
            }
        }
    }

    fn weighted_flows(
        &mut self,
        list: &Value<'s>,
        defaults: &Defaults,
    ) -> Result<(Vec<Flow>, Vec<u64>), Error> {
        let (mut flows, mut weights, mut sum) = (Vec::<Flow>::new(), Vec::new(), 0);
        let tables = list.tables()?;
        // Two ways may ask for the same page, and reports list the steps of all.
        let are_several = tables.len() > 1;
        for mut table in tables {
            let name = table.need("name")?.text()?;
            if flows.iter().any(|flow| flow.name == name) {
                return Err(table.error(format!("two scenarios are named {name:?}")));
            }
            sum += table.read("weight", |value| value.whole(0, 1_000_000))?.unwrap_or(1);
            weights.push(sum);
            let steps = table.need("step")?;
            table.finish()?;
            let first = self.steps.len();
            flows.push(self.flow(name.clone(), &steps, defaults)?);
            for step in self.steps[first..].iter_mut().filter(|_| are_several) {
                step.name = format!("{name}: {}", step.name);
            }
        }
        if sum == 0 {
            return Err(list.error("all weights are 0; nothing would be done"));
        }
        Ok((flows, weights))
    }

    fn flow(
        &mut self,
        name: String,
        steps: &Value<'s>,
        defaults: &Defaults,
    ) -> Result<Flow, Error> {
        let mut ops = Vec::new();
        let first = self.steps.len();
        self.steps_of(steps, defaults, &mut ops, 0)?;
        if self.steps.len() == first {
            return Err(steps.error("no step has a url; there is nothing to send"));
        }
        Ok(Flow { name, ops })
    }

    fn steps_of(
        &mut self,
        list: &Value<'s>,
        defaults: &Defaults,
        ops: &mut Vec<Op>,
        depth: usize,
    ) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(list.error(format!("steps within steps go {DEPTH_MAX} deep at most")));
        }
        for mut table in list.tables()? {
            let chance = table.read("chance", chance)?;
            let repeat = table.read("repeat", repeat)?;
            let maybe = chance.map(|chance| begin(ops, Op::Maybe { chance, behind: 0 }));
            let repeat =
                repeat.map(|(least, most)| begin(ops, Op::Begin { least, most, behind: 0 }));
            match table.take("step") {
                Some(steps) => {
                    table.read("name", Value::text)?;
                    let think = table.read("think", think)?;
                    table.finish()?;
                    self.steps_of(&steps, defaults, ops, depth + 1)?;
                    ops.extend(think.map(Op::Pause));
                }
                None => self.step_or_pause(table, defaults, ops)?,
            }
            if let Some(begin) = repeat {
                ops.push(Op::End { begin });
            }
            [repeat, maybe].into_iter().flatten().for_each(|at| close(ops, at));
        }
        Ok(())
    }

    fn step_or_pause(
        &mut self,
        mut table: Table<'s>,
        defaults: &Defaults,
        ops: &mut Vec<Op>,
    ) -> Result<(), Error> {
        let pause = table.read("think", think)?;
        let Some(url) = table.take("url") else {
            let Some(pause) = pause else {
                return Err(table.error("a step has a url, or think for a pause, or steps"));
            };
            table.read("name", Value::text)?;
            table.finish()?;
            ops.push(Op::Pause(pause));
            return Ok(());
        };
        let step = self.step(table, &url, defaults)?;
        ops.push(Op::Send(self.steps.len()));
        self.steps.push(step);
        let pause = pause.or(defaults.think).filter(|pause| *pause != Think::Fixed(0));
        ops.extend(pause.map(Op::Pause));
        Ok(())
    }
}

fn begin(ops: &mut Vec<Op>, op: Op) -> usize {
    ops.push(op);
    ops.len() - 1
}

/// What is left out goes on here.
fn close(ops: &mut [Op], at: usize) {
    let end = ops.len();
    if let Op::Begin { behind, .. } | Op::Maybe { behind, .. } = &mut ops[at] {
        *behind = end;
    }
}

fn chance(value: &Value<'_>) -> Result<f64, Error> {
    let chance = value.number()?;
    if (0.0..=1.0).contains(&chance) {
        return Ok(chance);
    }
    Err(value.error("a number from 0 (never) to 1 (always) is wanted"))
}

fn repeat(value: &Value<'_>) -> Result<(u32, u32), Error> {
    let (least, most) = if value.is_table() {
        let mut table = value.table()?;
        let least = table.need("from")?.whole(0, REPEAT_MAX)?;
        let most = table.need("to")?.whole(least, REPEAT_MAX)?;
        table.finish()?;
        (least, most)
    } else {
        let times = value.whole(0, REPEAT_MAX)?;
        (times, times)
    };
    // REPEAT_MAX fits.
    Ok((least as u32, most as u32))
}
