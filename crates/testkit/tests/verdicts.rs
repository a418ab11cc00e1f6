//! Whether the client was the limit is said rightly, of six cases in which it was and six in which
//! it was not. The example `verdicts` judges fifty of each, on a machine with nothing else to do.

mod support;

/// A machine that does something else gives a client less work, or less CPU.
const TRIES: usize = 6;

fn seen(case: &support::Case) -> drom_load::ClientVerdict {
    case.run().expect("nothing is planted that needs a right").verdict
}

fn is_named_once(case: &support::Case) -> bool {
    (0..TRIES).any(|_| seen(case).limited)
}

fn is_spared_once(case: &support::Case) -> bool {
    (0..TRIES).any(|_| !seen(case).limited)
}

#[test]
fn what_limits_is_named_and_what_does_not_is_not() {
    let cases = support::few();
    assert_eq!((cases.len(), cases.iter().filter(|case| case.limited).count()), (12, 6));
    for case in cases {
        let is_right = if case.limited { is_named_once(&case) } else { is_spared_once(&case) };
        assert!(is_right, "{}: limited is {}", case.name, case.limited);
    }
}
