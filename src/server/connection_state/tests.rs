use super::*;

const PATIENCE: Timeouts = Timeouts {
    headers: Duration::from_secs(10),
    buffer_retention: Duration::from_secs(60),
    idle: Duration::from_secs(100),
    stalled: Duration::from_secs(1000),
};

/// Returns a function that checks a connection so many seconds after it was accepted.
fn keeper(state: &ConnectionState) -> impl FnMut(u64) -> Directive + '_ {
    let start = Instant::now();
    let mut watch = IdleTracker::new(start);
    move |seconds| watch.look(state, PATIENCE, start + Duration::from_secs(seconds))
}

#[test]
fn headers_are_awaited_shorter_than_the_next_request_and_an_answer_longest() {
    let state = ConnectionState::new();
    let mut at = keeper(&state);
    assert_eq!(at(9), Directive::Continue, "the first headers");
    let serving = state.began();
    assert_eq!(at(50), Directive::Continue, "an answer may take its time");
    assert_eq!(at(1000), Directive::Continue);
    state.on_read();
    assert_eq!(at(1001), Directive::Continue, "its body goes on");
    assert_eq!(at(2000), Directive::Continue);
    drop(serving);
    assert_eq!(at(2001), Directive::Continue, "idle from here on");
    assert_eq!(at(2100), Directive::ReleaseBuffers);
    state.on_read();
    assert_eq!(at(2101), Directive::Continue, "the next headers begin");
    state.on_read();
    assert_eq!(at(2110), Directive::Continue);
    state.on_read();
    assert_eq!(at(2111), Directive::Abort, "dribbling does not help");
}

#[test]
fn a_client_that_is_gone_without_a_word_is_given_up() {
    let state = ConnectionState::new();
    let mut at = keeper(&state);
    let _serving = state.began();
    assert_eq!(at(1), Directive::Continue);
    state.on_write();
    assert_eq!(at(1000), Directive::Continue);
    assert_eq!(at(1999), Directive::Continue);
    assert_eq!(at(2000), Directive::Abort);
}

#[test]
fn an_idle_connection_is_ended_politely_and_then_cut() {
    let state = ConnectionState::new();
    let mut at = keeper(&state);
    drop(state.began());
    assert_eq!(at(1), Directive::Continue);
    assert_eq!(at(60), Directive::Continue);
    state.blocks(true);
    state.on_write();
    state.blocks(false);
    assert_eq!(
        at(61),
        Directive::Continue,
        "the client still reads the answer"
    );
    assert_eq!(at(121), Directive::ReleaseBuffers);
    // The gateway's own ping.
    state.on_write();
    assert_eq!(at(161), Directive::Drain);
    assert_eq!(at(170), Directive::Continue);
    assert_eq!(at(171), Directive::Abort);
}

#[test]
fn a_connection_is_told_once_a_pause_to_rest_and_does_so_only_in_one() {
    let state = ConnectionState::new();
    let mut at = keeper(&state);
    drop(state.began());
    assert_eq!(at(1), Directive::Continue);
    assert_eq!(at(61), Directive::ReleaseBuffers);
    assert_eq!(at(62), Directive::Continue);
    assert!(!state.should_rest(), "nobody told it");
    state.order(Directive::ReleaseBuffers);
    assert!(state.should_rest());
    assert!(!state.should_rest(), "it does already");
    state.blocks(true);
    state.order(Directive::ReleaseBuffers);
    assert!(!state.should_rest(), "the client has not taken all");
    state.blocks(false);
    state.order(Directive::ReleaseBuffers);
    state.on_read();
    assert!(!state.should_rest(), "a request is on its way");
    let serving = state.began();
    state.order(Directive::ReleaseBuffers);
    assert!(!state.should_rest(), "a request is being served");
    drop(serving);
    assert_eq!(at(63), Directive::Continue);
    assert_eq!(at(123), Directive::ReleaseBuffers, "the next pause");
}
