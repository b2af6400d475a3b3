use super::*;

const PATIENCE: Patience = Patience {
    headers: Duration::from_secs(10),
    awake: Duration::from_secs(60),
    idle: Duration::from_secs(100),
    stalled: Duration::from_secs(1000),
};

/// Looks at a connection so many seconds after it was accepted.
fn keeper(pulse: &Pulse) -> impl FnMut(u64) -> Order + '_ {
    let start = Instant::now();
    let mut watch = Watch::new(start);
    move |seconds| watch.look(pulse, PATIENCE, start + Duration::from_secs(seconds))
}

#[test]
fn headers_are_awaited_shorter_than_the_next_request_and_an_answer_longest() {
    let pulse = Pulse::new();
    let mut at = keeper(&pulse);
    assert_eq!(at(9), Order::Keep, "the first headers");
    let serving = pulse.began();
    assert_eq!(at(50), Order::Keep, "an answer may take its time");
    assert_eq!(at(1000), Order::Keep);
    pulse.heard();
    assert_eq!(at(1001), Order::Keep, "its body goes on");
    assert_eq!(at(2000), Order::Keep);
    drop(serving);
    assert_eq!(at(2001), Order::Keep, "idle from here on");
    assert_eq!(at(2100), Order::Rest);
    pulse.heard();
    assert_eq!(at(2101), Order::Keep, "the next headers begin");
    pulse.heard();
    assert_eq!(at(2110), Order::Keep);
    pulse.heard();
    assert_eq!(at(2111), Order::Cut, "dribbling does not help");
}

#[test]
fn a_client_that_is_gone_without_a_word_is_given_up() {
    let pulse = Pulse::new();
    let mut at = keeper(&pulse);
    let _serving = pulse.began();
    assert_eq!(at(1), Order::Keep);
    pulse.told();
    assert_eq!(at(1000), Order::Keep);
    assert_eq!(at(1999), Order::Keep);
    assert_eq!(at(2000), Order::Cut);
}

#[test]
fn an_idle_connection_is_ended_politely_and_then_cut() {
    let pulse = Pulse::new();
    let mut at = keeper(&pulse);
    drop(pulse.began());
    assert_eq!(at(1), Order::Keep);
    assert_eq!(at(60), Order::Keep);
    pulse.told();
    assert_eq!(at(61), Order::Keep, "the client still reads the answer");
    assert_eq!(at(121), Order::Rest);
    assert_eq!(at(161), Order::Finish);
    assert_eq!(at(170), Order::Keep);
    assert_eq!(at(171), Order::Cut);
}

#[test]
fn a_connection_is_told_once_a_pause_to_rest_and_does_so_only_in_one() {
    let pulse = Pulse::new();
    let mut at = keeper(&pulse);
    drop(pulse.began());
    assert_eq!(at(1), Order::Keep);
    assert_eq!(at(61), Order::Rest);
    assert_eq!(at(62), Order::Keep);
    assert!(!pulse.should_rest(), "nobody told it");
    pulse.order(Order::Rest);
    assert!(pulse.should_rest());
    assert!(!pulse.should_rest(), "it does already");
    pulse.blocks(true);
    pulse.order(Order::Rest);
    assert!(!pulse.should_rest(), "the client has not taken all");
    pulse.blocks(false);
    pulse.order(Order::Rest);
    pulse.heard();
    assert!(!pulse.should_rest(), "a request is on its way");
    let serving = pulse.began();
    pulse.order(Order::Rest);
    assert!(!pulse.should_rest(), "a request is being served");
    drop(serving);
    assert_eq!(at(63), Order::Keep);
    assert_eq!(at(123), Order::Rest, "the next pause");
}
