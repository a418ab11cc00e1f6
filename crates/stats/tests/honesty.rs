//! How often the methods are wrong, simulated under fixed seeds: coverage of the intervals, A/A
//! false positives, power, and what stopping by Stein's rule costs. METHODOLOGY.md quotes these
//! figures.

use drom_stats::{Interval, Paired, Rng, blocks_needed, confidence_sequence, hodges_lehmann, holm};

const RUNS: usize = 4_000;

#[test]
fn t_and_wilcoxon_cover_on_clean_and_on_contaminated_blocks() {
    for contaminated in [0.0, 0.15] {
        for blocks in [6, 10, 20] {
            let mut rng = Rng::new(11 + blocks as u64);
            let (mut t, mut hl) = (0, 0);
            for _ in 0..RUNS {
                let d = differences(&mut rng, blocks, 0.0, contaminated);
                let paired = Paired::new(&d).expect("blocks enough");
                t += usize::from(covers(paired.t_interval(0.95).interval, 0.0));
                let robust = hodges_lehmann(&d, 0.95).expect("six or more");
                hl += usize::from(covers(robust.estimate.interval, 0.0));
            }
            report(&format!("coverage t, {blocks} blocks, {contaminated} wild"), t);
            report(&format!("coverage HL, {blocks} blocks, {contaminated} wild"), hl);
            assert!((0.94..=0.985).contains(&share(t)), "t {blocks} {contaminated} {}", share(t));
            assert!(
                (0.94..=0.985).contains(&share(hl)),
                "HL {blocks} {contaminated} {}",
                share(hl)
            );
        }
    }
}

#[test]
fn the_same_program_is_called_different_in_one_run_of_twenty() {
    let mut rng = Rng::new(42);
    let different = (0..RUNS)
        .filter(|_| {
            let d = differences(&mut rng, 10, 0.0, 0.0);
            Paired::new(&d).expect("ten blocks").p_different() < 0.05
        })
        .count();
    report("A/A different, 10 blocks", different);
    assert!((0.037..=0.065).contains(&share(different)), "{}", share(different));
}

#[test]
fn holm_keeps_five_percent_for_the_family() {
    let mut rng = Rng::new(43);
    let wrong = (0..RUNS)
        .filter(|_| {
            let p: Vec<f64> = (0..4)
                .map(|_| {
                    let d = differences(&mut rng, 8, 0.0, 0.0);
                    Paired::new(&d).expect("eight blocks").p_different()
                })
                .collect();
            holm(&p).into_iter().any(|p| p < 0.05)
        })
        .count();
    report("Holm, 4 variants, any wrong", wrong);
    assert!(share(wrong) <= 0.06, "{}", share(wrong));
}

#[test]
fn three_percent_is_found_with_three_percent_spread_in_ten_blocks() {
    let mut rng = Rng::new(44);
    let found = (0..RUNS)
        .filter(|_| {
            let d = differences(&mut rng, 10, 0.03, 0.0);
            Paired::new(&d).expect("ten blocks").p_different() < 0.05
        })
        .count();
    report("power, 3 % at sd 3 %, 10 blocks", found);
    assert!(share(found) >= 0.75, "{}", share(found));
}

#[test]
fn equivalence_is_wrongly_claimed_in_at_most_one_run_of_twenty() {
    let mut rng = Rng::new(45);
    let margin = 1.02_f64.ln();
    let wrong = (0..RUNS)
        .filter(|_| {
            let d: Vec<f64> = (0..10).map(|_| margin + 0.01 * rng.normal()).collect();
            Paired::new(&d).expect("ten blocks").equivalent_within(margin)
        })
        .count();
    report("TOST, truth on the margin", wrong);
    assert!(share(wrong) <= 0.06, "{}", share(wrong));
}

#[test]
fn stopping_by_the_pilots_spread_keeps_the_coverage() {
    let mut rng = Rng::new(46);
    let (mut covered, mut plain, mut blocks_sum) = (0, 0, 0);
    for _ in 0..RUNS {
        let mut d = differences(&mut rng, 8, 0.0, 0.0);
        let sd = Paired::new(&d).expect("pilot").sd();
        let blocks = blocks_needed(8, sd, 0.02);
        d.extend(differences(&mut rng, blocks - 8, 0.0, 0.0));
        blocks_sum += blocks;
        let paired = Paired::new(&d).expect("all");
        plain += usize::from(covers(paired.t_interval(0.95).interval, 0.0));
        let interval = paired.after_pilot(8).t_interval(0.95).interval;
        covered += usize::from(covers(interval, 0.0));
    }
    report("coverage after Stein's rule, target 2 %, plain t", plain);
    report("coverage after Stein's rule, target 2 %, after_pilot", covered);
    println!("mean blocks {:.1}", blocks_sum as f64 / RUNS as f64);
    assert!(share(covered) >= 0.945, "{}", share(covered));
}

/// ln ratios: spread 3 %, and a share of wild blocks with three times that.
fn differences(rng: &mut Rng, blocks: usize, shift: f64, wild: f64) -> Vec<f64> {
    (0..blocks)
        .map(|_| {
            let sd = if rng.unit() < wild { 0.09 } else { 0.03 };
            shift + sd * rng.normal()
        })
        .collect()
}

fn covers(interval: Interval, truth: f64) -> bool {
    interval.low <= truth && truth <= interval.high
}

fn share(count: usize) -> f64 {
    count as f64 / RUNS as f64
}

fn report(what: &str, count: usize) {
    println!("{what}: {:.1} %", 100.0 * share(count));
}

#[test]
fn watching_after_every_block_is_safe_with_the_sequence_and_not_with_t() {
    let mut rng = Rng::new(44);
    let (mut watched, mut peeked) = (0, 0);
    for _ in 0..RUNS {
        let d = differences(&mut rng, 40, 0.0, 0.0);
        let looks = || (6..=40).map(|blocks| &d[..blocks]);
        watched +=
            usize::from(looks().any(|d| {
                !covers(confidence_sequence(d, 0.05).expect("six or more").interval, 0.0)
            }));
        peeked +=
            usize::from(looks().any(|d| Paired::new(d).expect("six or more").p_different() < 0.05));
    }
    report("different in any of 35 looks, confidence sequence", watched);
    report("different in any of 35 looks, t", peeked);
    assert!(share(watched) <= 0.085, "{}", share(watched));
    assert!(share(peeked) >= 0.15, "{}", share(peeked));
}
