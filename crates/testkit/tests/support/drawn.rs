//! Cases whose numbers are drawn anew for each seed, from ranges in which the truth is certain:
//! what the thresholds were set by are others.

use std::time::Duration;

use drom_load::Arrivals;
use drom_stats::Rng;
use drom_testkit::{Delay, Script, Turn};

use super::{Case, constant, dear_answer};

/// Fifty planted ones and fifty clean ones.
pub fn drawn(seed: u64) -> Vec<Case> {
    let mut draw = Draw(Rng::new(seed));
    let mut cases = Vec::new();
    for (count, kind) in [
        (12, hogged as fn(&mut Draw) -> Case),
        (6, over_its_means),
        (6, a_connection_a_request),
        (3, nice),
        (4, on_one_core),
        (3, many_threads),
        (5, dear),
        (3, slowed_down),
        (4, stopped_now_and_then),
        (2, stopped_once),
        (2, with_a_quota),
    ] {
        cases.extend((0..count).map(|_| kind(&mut draw)));
    }
    for (count, kind) in [
        (14, slow as fn(&mut Draw) -> Case),
        (6, slow_at_random),
        (5, two_threads),
        (8, at_most),
        (7, open),
        (3, short),
        (3, many),
        (2, new_connections),
        (2, beside_hogs),
    ] {
        cases.extend((0..count).map(|_| kind(&mut draw)));
    }
    cases
}

struct Draw(Rng);

impl Draw {
    fn between(&mut self, from: u32, to: u32) -> u32 {
        from + self.0.below((to - from + 1) as usize) as u32
    }

    fn ms(&mut self, from: u32, to: u32) -> Duration {
        Duration::from_millis(self.between(from, to).into())
    }

    fn null(&mut self) -> Case {
        let connections = self.between(8, 200);
        Case::planted("server that does nothing").connections(connections)
    }

    fn arrivals(&mut self) -> Arrivals {
        match self.between(0, 1) {
            0 => Arrivals::Constant,
            _ => Arrivals::Poisson { seed: self.0.next_u64() },
        }
    }
}

fn hogged(draw: &mut Draw) -> Case {
    let share = f64::from(draw.between(70, 100)) / 100.0;
    let hogs = if share < 1.0 { 1 } else { draw.between(1, 4) };
    draw.null().hogs(hogs as usize, share)
}

fn over_its_means(draw: &mut Draw) -> Case {
    let hogs = draw.between(1, 2) as usize;
    let arrivals = draw.arrivals();
    draw.null().rate(400_000.0, arrivals).hogs(hogs, 1.0)
}

fn a_connection_a_request(draw: &mut Draw) -> Case {
    let hogs = draw.between(1, 2) as usize;
    draw.null().without_keepalive().hogs(hogs, 1.0)
}

fn nice(draw: &mut Draw) -> Case {
    let nice = draw.between(10, 19);
    draw.null().nice(nice as i32).hogs(1, 1.0)
}

fn on_one_core(draw: &mut Draw) -> Case {
    draw.null().shared()
}

fn many_threads(draw: &mut Draw) -> Case {
    let threads = draw.between(4, 9);
    Case::planted("more threads than CPUs").connections(8 * threads).threads(threads)
}

fn dear(draw: &mut Draw) -> Case {
    let chunk = draw.between(1, 4);
    let case = Case::planted(&format!("chunks of {chunk} bytes"));
    case.connections(draw.between(4, 48)).script(dear_answer(chunk as usize))
}

fn slowed_down(draw: &mut Draw) -> Case {
    Case::planted("slowed down").connections(draw.between(8, 96)).braked()
}

fn stopped_now_and_then(draw: &mut Draw) -> Case {
    let work = draw.ms(10, 30);
    let pause = work + draw.ms(5, 60);
    let case = Case::planted("stopped now and then").connections(draw.between(4, 64));
    case.script(Script::always(Turn::default())).paused((work, pause))
}

fn stopped_once(draw: &mut Draw) -> Case {
    let case = Case::planted("stopped once").connections(draw.between(4, 64));
    let case = case.window(Duration::from_secs(4)).script(Script::always(Turn::default()));
    let pause = draw.ms(450, 900);
    case.paused((Duration::from_millis(2_500), pause))
}

fn with_a_quota(draw: &mut Draw) -> Case {
    let share = f64::from(draw.between(8, 22)) / 100.0;
    let case = Case::planted("quota").connections(draw.between(8, 48));
    let case = case.window(Duration::from_secs(1)).script(Script::always(Turn::default()));
    case.quota(share)
}

/// So many connections that the server, not the client, is what they wait for.
fn for_delay(draw: &mut Draw, ms: u32) -> u32 {
    draw.between(1, 8 * ms)
}

fn slow(draw: &mut Draw) -> Case {
    let ms = draw.between(1, 30);
    let case = Case::slow(&format!("{ms} ms"), constant(ms.into()));
    let connections = for_delay(draw, ms);
    case.connections(connections).ideal(f64::from(connections) * 1e3 / f64::from(ms))
}

fn slow_at_random(draw: &mut Draw) -> Case {
    let ms = draw.between(2, 20);
    let mean = Duration::from_millis(ms.into());
    let case = Case::slow(&format!("{ms} ms, exponential"), Delay::Exponential { mean });
    case.connections(for_delay(draw, ms))
}

fn two_threads(draw: &mut Draw) -> Case {
    let ms = draw.between(2, 20);
    let connections = 1 + for_delay(draw, ms);
    Case::slow(&format!("{ms} ms"), constant(ms.into())).connections(connections).threads(2)
}

fn at_most(draw: &mut Draw) -> Case {
    let rps = f64::from(draw.between(150, 3_000));
    let script = Script { capacity_rps: Some(rps), ..Script::always(Turn::default()) };
    let case = Case::slow(&format!("at most {rps}/s"), Delay::NONE).script(script);
    case.connections(draw.between(8, 100)).ideal(rps)
}

fn open(draw: &mut Draw) -> Case {
    let ms = draw.between(1, 3);
    let (rps, arrivals) = (f64::from(draw.between(100, 600)), draw.arrivals());
    Case::slow(&format!("open loop, {ms} ms"), constant(ms.into())).rate(rps, arrivals)
}

fn short(draw: &mut Draw) -> Case {
    let window = draw.ms(100, 300);
    Case::slow("3 ms, short", constant(3)).window(window)
}

fn many(draw: &mut Draw) -> Case {
    let connections = draw.between(300, 1_000);
    Case::slow("60 ms, many", constant(60)).connections(connections)
}

fn new_connections(draw: &mut Draw) -> Case {
    let ms = draw.between(4, 12);
    let case = Case::slow(&format!("{ms} ms, a connection a request"), constant(ms.into()));
    case.connections(draw.between(4, 16)).without_keepalive()
}

fn beside_hogs(draw: &mut Draw) -> Case {
    let hogs = draw.between(1, 2) as usize;
    let case = Case::slow("hogs beside the server", Delay::NONE);
    case.connections(draw.between(4, 48)).server_hogs(hogs)
}
